//! The policy that `dev` and `demo` apply: tenants for every mode, pointing at the emulators.
//!
//! Issuers and ARNs have their real shape; only endpoints and key addresses are on loopback.

use crate::stack::Emulators;

/// What policy and bindings name. The runner's default, the host of the verifier's address, is the same.
pub const AUDIENCE: &str = "127.0.0.1";
/// Account of tenant acme.
pub const ACME_ACCOUNT: &str = "111122223333";
/// Role of acme's runners.
pub const ACME_ROLE: &str = "rootpilot-runner";
/// A user of acme's account, for laptops.
pub const ACME_USER: &str = "developer";
/// A GKE cluster of acme.
pub const GKE_ISSUER: &str =
    "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners";
/// An EKS cluster of acme.
pub const EKS_ISSUER: &str = "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E";

/// The document. Without emulators there is nothing to point at, and bootstrap tokens remain.
pub fn render(emulators: Option<&Emulators>) -> String {
    let head = format!(
        r#"# Applied by `cargo xtask dev` when the state directory holds no policy yet.
trust_domain = "dev.example.com"
audience = "{AUDIENCE}"

[certificates]
ttl = "1h"
reattest_after = "24h"
"#
    );
    match emulators {
        Some(emulators) => format!("{head}{}", with_emulators(emulators)),
        None => format!("{head}\n[[tenants]]\nid = \"acme\"\nbootstrap_tokens = true\n"),
    }
}

fn with_emulators(emulators: &Emulators) -> String {
    let Emulators { sts_url, issuer_url, .. } = emulators;
    let gke_path = GKE_ISSUER.trim_start_matches("https://container.googleapis.com");
    let eks_path = EKS_ISSUER.trim_start_matches("https://oidc.eks.eu-west-1.amazonaws.com");
    format!(
        r#"
[aws_sts]
regions = ["us-east-1", "eu-west-1"]

[aws_sts.endpoints]
us-east-1 = "{sts_url}"
eu-west-1 = "{sts_url}"

[[oidc_issuers]]
mode = "gke-oidc"
issuer = "{GKE_ISSUER}"
jwks_uri = "{issuer_url}{gke_path}/jwks"

[[oidc_issuers]]
mode = "eks-oidc"
issuer = "{EKS_ISSUER}"
jwks_uri = "{issuer_url}{eks_path}/keys"

[[tenants]]
id = "acme"
bootstrap_tokens = true

[[tenants.rules]]
mode = "aws-sts"
account = "{ACME_ACCOUNT}"
role = "{ACME_ROLE}"

[[tenants.rules]]
mode = "aws-sts"
account = "{ACME_ACCOUNT}"
user = "{ACME_USER}"

[[tenants.rules]]
mode = "gke-oidc"
project = "acme-prod"
location = "europe-west1"
cluster = "runners"
namespace = "rootpilot"
service_account = "runner"

[[tenants.rules]]
mode = "eks-oidc"
issuer = "{EKS_ISSUER}"
namespace = "rootpilot"
service_account = "runner"

[[tenants]]
id = "globex"
bootstrap_tokens = true

[[tenants.rules]]
mode = "aws-sts"
account = "444455556666"
role = "globex-*"

[[tenants.rules]]
mode = "gke-oidc"
project = "globex-prod"
location = "us-central1"
cluster = "agents"
namespace = "agents"
service_account = "runner"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_toml() {
        let emulators = Emulators { sts_url: "http://127.0.0.1:1".into(), issuer_url: "http://127.0.0.1:2".into() };
        for text in [render(None), render(Some(&emulators))] {
            let document: toml::Table = text.parse().unwrap();
            assert_eq!(document["tenants"].as_array().unwrap()[0]["id"].as_str(), Some("acme"));
        }
    }
}
