//! Partition table: every region of aws, aws-cn, aws-us-gov and aws-eusc with the hosts of its STS (CHECKS S2, S3).
//!
//! A region name is only ever compared with this table; a host is made from the table's own text. Out of scope: the isolated
//! partitions (aws-iso…), which the public internet does not reach; the legacy global host `sts.amazonaws.com`, which belongs to no
//! region; dual-stack hosts.

use super::partition_data::PARTITIONS;

/// A part of AWS with its own accounts and its own IAM.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    /// Second part of its ARNs.
    pub id: &'static str,
    /// Domain of its hosts.
    pub dns_suffix: &'static str,
    /// Names of its regions, sorted.
    pub regions: &'static [&'static str],
}

/// A region of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    name: &'static str,
    partition: &'static Partition,
}

/// Every partition.
pub const fn partitions() -> &'static [Partition] {
    PARTITIONS
}

/// The partition with this id.
pub fn partition(id: &str) -> Option<&'static Partition> {
    PARTITIONS.iter().find(|partition| partition.id == id)
}

/// The region of exactly this name.
pub fn region(name: &str) -> Option<Region> {
    PARTITIONS.iter().find_map(|partition| {
        let index = partition.regions.binary_search(&name).ok()?;
        Some(Region { name: partition.regions.get(index)?, partition })
    })
}

/// Whether the table has a region of exactly this name.
pub fn is_known_region(name: &str) -> bool {
    region(name).is_some()
}

/// STS hosts of a region; with `fips` the FIPS host too. Empty for an unknown region.
pub fn hosts_of(name: &str, fips: bool) -> Vec<String> {
    region(name).map_or_else(Vec::new, |region| region.hosts(fips))
}

impl Region {
    /// Its name, such as `eu-west-1`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Where it belongs.
    pub const fn partition(self) -> &'static Partition {
        self.partition
    }

    /// Host of its STS.
    pub fn host(self) -> String {
        ["sts.", self.name, ".", self.partition.dns_suffix].concat()
    }

    /// FIPS host of its STS; in aws-us-gov that is the ordinary one.
    pub fn fips_host(self) -> String {
        if self.partition.id == "aws-us-gov" {
            return self.host();
        }
        ["sts-fips.", self.name, ".", self.partition.dns_suffix].concat()
    }

    /// Every host that its STS may be called by.
    pub fn hosts(self, fips: bool) -> Vec<String> {
        let mut hosts = vec![self.host()];
        if fips && self.fips_host() != self.host() {
            hosts.push(self.fips_host());
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_its_hosts() {
        for (name, partition, fips, hosts) in [
            ("eu-west-1", "aws", false, &["sts.eu-west-1.amazonaws.com"][..]),
            ("us-east-1", "aws", true, &["sts.us-east-1.amazonaws.com", "sts-fips.us-east-1.amazonaws.com"]),
            ("cn-north-1", "aws-cn", false, &["sts.cn-north-1.amazonaws.com.cn"]),
            ("us-gov-west-1", "aws-us-gov", true, &["sts.us-gov-west-1.amazonaws.com"]),
            ("eusc-de-east-1", "aws-eusc", false, &["sts.eusc-de-east-1.amazonaws.eu"]),
        ] {
            assert!(is_known_region(name), "{name}");
            assert_eq!(region(name).unwrap().partition().id, partition);
            assert_eq!(hosts_of(name, fips), hosts, "{name}");
        }
    }

    /// CHECKS S2: the names it lists, and others that only look like regions.
    #[test]
    fn names_are_compared_whole() {
        let long = "a".repeat(300);
        for name in [
            "",
            "aws-global",
            "aws-cn-global",
            "aws-us-gov-global",
            "us-iso-east-1",
            "US-EAST-1",
            "us-east-1 ",
            " us-east-1",
            "us-east-1\n",
            "us-east-1\0",
            "us-east-1.",
            "evil.com?",
            "us-east-1@evil",
            "us-east-１",
            "us-east-99",
            long.as_str(),
        ] {
            assert!(!is_known_region(name), "{name:?}");
            assert!(hosts_of(name, true).is_empty(), "{name:?}");
        }
    }

    #[test]
    fn tables_are_sorted_and_regions_are_unique() {
        let mut all = Vec::new();
        for partition in partitions() {
            assert!(partition.regions.is_sorted(), "{}", partition.id);
            all.extend(partition.regions.iter().map(|name| region(name).unwrap()));
        }
        assert!(all.len() > 35);
        assert!(all.iter().all(|found| partition(found.partition().id).unwrap().regions.contains(&found.name())));
        let mut names: Vec<&str> = all.iter().map(|region| region.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
