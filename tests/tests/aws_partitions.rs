//! The verifier's partition table against the AWS SDK's own data (CHECKS S2): fails when the checked-in file is older.
//!
//! `UPDATE_PARTITIONS=1 cargo test -p edge-tests --test aws_partitions` writes it anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use serde_json::Value;
use verifier::aws::partition::{self, Region};

/// What the verifier covers; the isolated partitions are not on the public internet.
const COVERED: [&str; 4] = ["aws", "aws-cn", "aws-eusc", "aws-us-gov"];

const HEAD: &str = "\
//! AWS partitions and their regions as the AWS SDK has them (`aws-sdk-sts`, its partition data; pseudo regions left out).
//! Written by `UPDATE_PARTITIONS=1 cargo test -p edge-tests --test aws_partitions`, not by hand.

use super::partition::Partition;

#[rustfmt::skip]
pub(super) const PARTITIONS: &[Partition] = &[
";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What a tool prints.
fn printed(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Source folder of the `aws-sdk-sts` that this workspace is locked to.
fn sdk_sources() -> PathBuf {
    // What other platforms need may never have been downloaded here.
    let host = printed("rustc", &["--print", "host-tuple"]);
    let offline = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host.trim()];
    let metadata: Value = serde_json::from_str(&printed(env!("CARGO"), &offline)).unwrap();
    let package = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == "aws-sdk-sts");
    Path::new(package.unwrap()["manifest_path"].as_str().unwrap()).with_file_name("src")
}

/// The SDK keeps its partition data as JSON in a byte string literal of one of its sources.
fn sdk_partitions(folder: &Path) -> Option<Value> {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            if let Some(found) = sdk_partitions(&entry.path()) {
                return Some(found);
            }
            continue;
        }
        let source = std::fs::read_to_string(entry.path()).unwrap();
        if let Some(start) = source.find(r#"b"{\"partitions\":["#) {
            let literal = &source[start + 2..];
            let end = literal.find("\")").unwrap();
            let json = literal[..end].replace("\\\"", "\"").replace("\\\\", "\\");
            return Some(serde_json::from_str(&json).unwrap());
        }
    }
    None
}

fn render(data: &Value) -> String {
    let mut text = HEAD.to_owned();
    for partition in data["partitions"].as_array().unwrap() {
        let id = partition["id"].as_str().unwrap();
        if !COVERED.contains(&id) {
            assert!(id.starts_with("aws-iso"), "the SDK knows a new partition: {id}");
            continue;
        }
        let suffix = partition["outputs"]["dnsSuffix"].as_str().unwrap();
        writeln!(
            text,
            "    Partition {{\n        id: \"{id}\",\n        dns_suffix: \"{suffix}\",\n        regions: &["
        )
        .unwrap();
        let mut regions: Vec<&String> = partition["regions"].as_object().unwrap().keys().collect();
        regions.retain(|name| !name.ends_with("-global"));
        regions.sort();
        for name in regions {
            writeln!(text, "            \"{name}\",").unwrap();
        }
        text.push_str("        ],\n    },\n");
    }
    text.push_str("];\n");
    text
}

#[test]
fn table_is_that_of_the_sdk() {
    let file = workspace().join("verifier/src/aws/partition_data.rs");
    let expected = render(&sdk_partitions(&sdk_sources()).expect("aws-sdk-sts keeps its partition data elsewhere now"));
    if std::env::var_os("UPDATE_PARTITIONS").is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap() == expected,
        "{} is not what the SDK has; write it anew with UPDATE_PARTITIONS=1",
        file.display()
    );
}

#[tokio::test]
async fn hosts_are_those_of_the_sdk() {
    let regions = partition::partitions().iter().flat_map(|partition| partition.regions).copied();
    let regions: Vec<Region> = regions.map(|name| partition::region(name).unwrap()).collect();
    assert_eq!(partition::partitions().iter().map(|partition| partition.id).collect::<Vec<_>>(), COVERED);
    for region in regions {
        for (fips, host) in [(false, region.host()), (true, region.fips_host())] {
            let params = Params::builder().region(region.name().to_owned()).use_fips(fips).build().unwrap();
            let endpoint = DefaultResolver::new().resolve_endpoint(&params).await.unwrap();
            assert_eq!(endpoint.url(), format!("https://{host}"), "{}", region.name());
        }
    }
}
