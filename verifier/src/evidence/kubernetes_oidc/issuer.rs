//! Grammar of the issuers of managed Kubernetes clusters (CHECKS K3). A text that matches is fit to build an address from.

const GKE_PREFIX: &str = "https://container.googleapis.com/v1/projects/";
const EKS_PREFIX: &str = "https://oidc.eks.";

/// Parts of a GKE issuer `https://container.googleapis.com/v1/projects/P/locations/L/clusters/C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GkeIssuer<'a> {
    /// Project id, `example.com:` in front of it for a domain-scoped one.
    pub project: &'a str,
    /// Region or zone.
    pub location: &'a str,
    /// Cluster name.
    pub cluster: &'a str,
}

impl GkeIssuer<'_> {
    /// `iss` of the cluster's tokens.
    pub fn issuer(&self) -> String {
        [GKE_PREFIX, self.project, "/locations/", self.location, "/clusters/", self.cluster].concat()
    }

    /// Where the cluster's keys are: always on the GKE host.
    pub fn jwks_uri(&self) -> String {
        [&self.issuer(), "/jwks"].concat()
    }
}

/// Parts of an EKS issuer `https://oidc.eks.<region>.amazonaws.com/id/<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EksIssuer<'a> {
    /// AWS region.
    pub region: &'a str,
    /// 32 upper-case letters and digits.
    pub id: &'a str,
}

/// Full match of the GKE grammar, nothing before or after it.
pub fn parse_gke_issuer(issuer: &str) -> Option<GkeIssuer<'_>> {
    let mut parts = issuer.strip_prefix(GKE_PREFIX)?.split('/');
    let (project, "locations") = (parts.next()?, parts.next()?) else { return None };
    let (location, "clusters") = (parts.next()?, parts.next()?) else { return None };
    let cluster = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    (is_project(project) && is_label(location, 63) && is_label(cluster, 63)).then_some(GkeIssuer {
        project,
        location,
        cluster,
    })
}

/// Full match of the EKS grammar: the host's suffix must be that of the region's partition.
pub fn parse_eks_issuer(issuer: &str) -> Option<EksIssuer<'_>> {
    let (host, id) = issuer.strip_prefix(EKS_PREFIX)?.split_once("/id/")?;
    let (region, suffix) = host.split_once('.')?;
    let expected = match region.split_once('-')?.0 {
        "cn" => "amazonaws.com.cn",
        "eusc" => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    let id_fits = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    (suffix == expected && is_label(region, 63) && id_fits).then_some(EksIssuer { region, id })
}

/// Project id, or `domain:` and one.
pub(crate) fn is_project(text: &str) -> bool {
    match text.split_once(':') {
        None => is_label(text, 30),
        Some((domain, project)) => {
            domain.len() <= 63
                && domain.contains('.')
                && domain.split('.').all(|label| is_label(label, 63))
                && is_label(project, 30)
        }
    }
}

/// A letter, then letters, digits and inner hyphens; lower case.
fn is_label(text: &str, longest: usize) -> bool {
    text.len() <= longest
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GKE: &str =
        "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1-b/clusters/runners";
    const EKS: &str = "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E";

    #[test]
    fn gke_parts_and_address() {
        let issuer = parse_gke_issuer(GKE).unwrap();
        assert_eq!((issuer.project, issuer.location, issuer.cluster), ("acme-prod", "europe-west1-b", "runners"));
        assert_eq!(issuer.issuer(), GKE);
        assert_eq!(issuer.jwks_uri(), format!("{GKE}/jwks"));
        let scoped = GKE.replace("acme-prod", "example.com:acme-prod");
        assert_eq!(parse_gke_issuer(&scoped).unwrap().project, "example.com:acme-prod");
    }

    /// The longest of each name is taken, and none that is longer by one.
    #[test]
    fn names_have_a_longest_length() {
        let (project, label, domain) = ("a".repeat(30), "a".repeat(63), format!("{}.com", "d".repeat(59)));
        let scoped = format!("{domain}:{project}");
        for (part, longest) in
            [("acme-prod", &project), ("acme-prod", &scoped), ("europe-west1-b", &label), ("runners", &label)]
        {
            assert!(parse_gke_issuer(&GKE.replace(part, longest)).is_some(), "{longest}");
            for longer in [format!("a{longest}"), format!("{longest}a")] {
                assert_eq!(parse_gke_issuer(&GKE.replace(part, &longer)), None, "{longer}");
            }
        }
        let region = format!("eu-{}", "a".repeat(60));
        assert!(parse_eks_issuer(&EKS.replace("eu-west-1", &region)).is_some());
        assert_eq!(parse_eks_issuer(&EKS.replace("eu-west-1", &format!("{region}a"))), None);
    }

    #[test]
    fn gke_refuses_everything_else() {
        for bad in [
            "",
            "https://container.googleapis.com",
            &GKE.replace("https", "http"),
            &GKE.replace("https://", "https://user@"),
            &GKE.replace(".com/v1", ".com:443/v1"),
            &GKE.replace(".com/v1", ".com.evil.org/v1"),
            &GKE.replace(".com/v1", ".com/v1beta1"),
            &GKE.replace("acme-prod", ""),
            &GKE.replace("acme-prod", ".."),
            &GKE.replace("acme-prod", "acme prod"),
            &GKE.replace("acme-prod", "acme%2fprod"),
            &GKE.replace("acme-prod", "Acme-prod"),
            &GKE.replace("acme-prod", "acme-prod?x=y"),
            &GKE.replace("acme-prod", "evil:acme-prod"),
            &GKE.replace("acme-prod", "a:b:acme-prod"),
            &GKE.replace("acme-prod", "..:acme-prod"),
            &GKE.replace("acme-prod", &"a".repeat(31)),
            &GKE.replace("runners", "runners/"),
            &GKE.replace("runners", "runners/jwks"),
            &GKE.replace("runners", "runners#"),
            &GKE.replace("runners", "runners-"),
            &GKE.replace("runners", "-runners"),
            &GKE.replace("runners", "ru..ners"),
            &GKE.replace("runners", "*"),
            &GKE.replace("runners", "rünners"),
            &GKE.replace("runners", "runners\n"),
            &GKE.replace("europe-west1-b", "*"),
            &GKE.replace("locations", "zones"),
            &format!(" {GKE}"),
            &format!("{GKE} "),
            EKS,
        ] {
            assert_eq!(parse_gke_issuer(bad), None, "{bad}");
        }
    }

    #[test]
    fn eks_parts_by_partition() {
        let issuer = parse_eks_issuer(EKS).unwrap();
        assert_eq!((issuer.region, issuer.id), ("eu-west-1", "EXAMPLED539D4633E53DE1B716D3041E"));
        for good in [
            EKS.replace("eu-west-1.amazonaws.com", "us-gov-west-1.amazonaws.com"),
            EKS.replace("eu-west-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"),
            EKS.replace("eu-west-1.amazonaws.com", "eusc-de-east-1.amazonaws.eu"),
        ] {
            assert!(parse_eks_issuer(&good).is_some(), "{good}");
        }
    }

    #[test]
    fn eks_refuses_everything_else() {
        for bad in [
            "",
            &EKS.replace("https", "http"),
            &EKS.replace("EXAMPLED", "exampled"),
            &EKS.replace("EXAMPLED", "EXAMPLE"),
            &EKS.replace("EXAMPLED", "EXAMPLEDD"),
            &EKS.replace("EXAMPLED", "EXAMPLE/"),
            &EKS.replace("/id/", "/ID/"),
            &EKS.replace("/id/", "/"),
            &EKS.replace("eu-west-1", ""),
            &EKS.replace("eu-west-1", "euwest"),
            &EKS.replace("eu-west-1", "EU-WEST-1"),
            &EKS.replace("eu-west-1", "evil.com?x=eu-west-1"),
            &EKS.replace("eu-west-1", "evil@eu-west-1"),
            &EKS.replace("eu-west-1", "cn-north-1"),
            &EKS.replace("amazonaws.com", "amazonaws.com.cn"),
            &EKS.replace("amazonaws.com", "amazonaws.com.evil.org"),
            &EKS.replace("amazonaws.com", "amazonaws.com:443"),
            &EKS.replace("oidc.eks.", "oidc."),
            &format!("{EKS}/"),
            &format!("{EKS}\n"),
            GKE,
        ] {
            assert_eq!(parse_eks_issuer(bad), None, "{bad}");
        }
    }
}
