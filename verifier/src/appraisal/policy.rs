//! Policy document: shape, validation that reports every problem, and the compiled form the checks read.

use std::collections::BTreeMap;

/// Placeholder until the appraisal room fills it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDocument {}

/// A policy that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    aws_sts: AwsStsSettings,
    oidc: OidcSettings,
}

/// What `aws-sts` evidence is checked against (CHECKS S2, S3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsStsSettings {
    /// Allowed regions, each one of the partition table.
    pub regions: Vec<String>,
    /// Adds the FIPS hosts of these regions.
    pub fips: bool,
    /// Region → endpoint URL that replaces the region's own: https, or http to loopback.
    pub endpoints: BTreeMap<String, String>,
}

/// Whose ServiceAccount tokens are trusted (CHECKS K3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OidcSettings {
    /// Issuers named by the policy or implied by a rule.
    pub issuers: Vec<TrustedIssuer>,
    /// Projects with a `cluster = "*"` rule: (project, location or `*`). Issuers of the GKE grammar in them are trusted.
    pub wildcard_projects: Vec<(String, String)>,
}

/// Where an issuer's keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Fetched from here, never from discovery.
    Fetch {
        /// https, or http to loopback.
        jwks_uri: String,
    },
    /// Written in the policy: the JWK set as JSON text, with at least one usable key.
    Static {
        /// JWK set.
        jwks: String,
    },
}

/// One issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// `gke-oidc` or `eks-oidc`.
    pub mode: protocol::Mode,
    /// `iss`, exactly.
    pub issuer: String,
    /// Keys.
    pub keys: KeySource,
    /// Longest `exp` − `iat`, seconds.
    pub max_token_lifetime: i64,
}

impl Policy {
    /// What `aws-sts` evidence is checked against.
    pub const fn aws_sts(&self) -> &AwsStsSettings {
        &self.aws_sts
    }

    /// Whose ServiceAccount tokens are trusted.
    pub const fn oidc(&self) -> &OidcSettings {
        &self.oidc
    }
}
