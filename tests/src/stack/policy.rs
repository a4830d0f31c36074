//! The policy of most tests.

use serde_json::{Value, json};

use super::{AUDIENCE, TRUST_DOMAIN};
use crate::emulators::{OidcIssuer, StsEmulator};

/// Region of evidence made here.
pub const REGION: &str = "eu-west-1";
/// Account of tenant acme.
pub const ACME_ACCOUNT: &str = "111122223333";
/// Role of acme's runners.
pub const ACME_ROLE: &str = "rootpilot-runner";
/// A user of acme's account.
pub const ACME_USER: &str = "laptops/alice";
/// A GKE cluster of acme.
pub const GKE_ISSUER: &str =
    "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners";
/// An EKS cluster of acme.
pub const EKS_ISSUER: &str = "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E";

/// See [`super::Stack::policy`].
pub fn document(sts: &StsEmulator, issuer: &OidcIssuer) -> Value {
    json!({
        "trust_domain": TRUST_DOMAIN,
        "audience": AUDIENCE,
        "certificates": {"ttl": "1h", "reattest_after": "24h"},
        "aws_sts": {
            "regions": ["us-east-1", "eu-west-1"],
            "endpoints": {"us-east-1": sts.url(), "eu-west-1": sts.url()},
        },
        "oidc_issuers": [
            {"mode": "gke-oidc", "issuer": GKE_ISSUER, "jwks_uri": issuer.jwks_uri(GKE_ISSUER)},
            {"mode": "eks-oidc", "issuer": EKS_ISSUER, "jwks_uri": issuer.jwks_uri(EKS_ISSUER)},
        ],
        "tenants": [
            {
                "id": "acme",
                "bootstrap_tokens": true,
                "rules": [
                    {"mode": "aws-sts", "account": ACME_ACCOUNT, "role": ACME_ROLE},
                    {"mode": "aws-sts", "account": ACME_ACCOUNT, "user": ACME_USER},
                    {
                        "mode": "gke-oidc", "project": "acme-prod", "location": "europe-west1", "cluster": "runners",
                        "namespace": "rootpilot", "service_account": "runner",
                    },
                    {
                        "mode": "eks-oidc", "issuer": EKS_ISSUER, "namespace": "rootpilot", "service_account": "runner",
                    },
                ],
            },
            {
                "id": "globex",
                "bootstrap_tokens": true,
                "rules": [{"mode": "aws-sts", "account": "444455556666", "role": "globex-*"}],
            },
            {"id": "initech", "bootstrap_tokens": false},
        ],
    })
}
