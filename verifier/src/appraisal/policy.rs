//! The compiled policy: what the checks and the worker read. Only validation ([`Policy::compile`]) makes one.

use protocol::admin::PolicyProblem;

pub use super::document::PolicyDocument;
use super::keyed::Keyed;
use super::rule::{Rule, index_key, index_keys_of};
use crate::UnixTime;
use crate::evidence::Principal;
use crate::registry::CertificateTerms;

/// Longest `exp` − `iat` of an issuer's tokens unless the policy says otherwise, seconds.
pub const DEFAULT_TOKEN_LIFETIME: i64 = 3600;

/// A policy that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(super) trust_domain: String,
    pub(super) audience: String,
    pub(super) certificates: Certificates,
    pub(super) aws_sts: AwsStsSettings,
    pub(super) oidc: OidcSettings,
    pub(super) tenants: Keyed<Tenant>,
    pub(super) index: Index,
    pub(super) warnings: Vec<PolicyProblem>,
    pub(super) document: PolicyDocument,
}

/// Lifetimes, seconds, and what else goes into certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificates {
    pub(super) ttl: i64,
    pub(super) reattest_after: i64,
    pub(super) bootstrap_reattest_after: Option<i64>,
    pub(super) crl_url: Option<String>,
    pub(super) one_key_per_instance: bool,
}

/// What `aws-sts` evidence is checked against (CHECKS S2, S3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsStsSettings {
    /// Allowed regions, each one of the partition table.
    pub regions: Vec<String>,
    /// Adds the FIPS hosts of these regions.
    pub fips: bool,
    /// Region → endpoint URL that replaces the region's own: https, or http to loopback.
    pub endpoints: Vec<(String, String)>,
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

/// One tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub(super) rules: Vec<Rule>,
    pub(super) bootstrap_tokens: bool,
}

impl Tenant {
    /// What its runners may be.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether bootstrap tokens may be minted and used.
    pub const fn bootstrap_tokens(&self) -> bool {
        self.bootstrap_tokens
    }
}

impl Policy {
    /// Validates a document. Every problem of shape and meaning is reported at once, with its path.
    pub fn compile(document: PolicyDocument) -> Result<Self, Vec<PolicyProblem>> {
        super::compile::compile(document)
    }

    /// The document, as it was written.
    pub const fn document(&self) -> &PolicyDocument {
        &self.document
    }

    /// What is allowed but worth a second look.
    pub fn warnings(&self) -> &[PolicyProblem] {
        &self.warnings
    }

    /// SPIFFE trust domain.
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// What evidence must be made for.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// CRL address to write into certificates.
    pub fn crl_url(&self) -> Option<&str> {
        self.certificates.crl_url.as_deref()
    }

    /// Lifetimes in force under an issuing CA that ends at `issuer_not_after`.
    pub const fn terms(&self, issuer_not_after: UnixTime) -> CertificateTerms {
        CertificateTerms {
            ttl: self.certificates.ttl,
            reattest_after: self.certificates.reattest_after,
            bootstrap_reattest_after: self.certificates.bootstrap_reattest_after,
            issuer_not_after,
            one_key_per_instance: self.certificates.one_key_per_instance,
        }
    }

    /// What `aws-sts` evidence is checked against.
    pub const fn aws_sts(&self) -> &AwsStsSettings {
        &self.aws_sts
    }

    /// Whose ServiceAccount tokens are trusted.
    pub const fn oidc(&self) -> &OidcSettings {
        &self.oidc
    }

    /// Ids of the tenants, sorted.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys()
    }

    /// A tenant of the policy.
    pub fn tenant(&self, id: &str) -> Option<&Tenant> {
        self.tenants.get(id)
    }

    /// Rules of a tenant, for a renewal; `None` when the policy does not have the tenant.
    pub fn rules_of(&self, tenant: &str) -> Option<Vec<Rule>> {
        self.tenant(tenant).map(|tenant| tenant.rules.clone())
    }

    /// Whether the policy has the tenant and lets it use bootstrap tokens.
    pub fn bootstrap_allowed(&self, tenant: &str) -> bool {
        self.tenant(tenant).is_some_and(Tenant::bootstrap_tokens)
    }

    /// The tenant that the rules map a principal to: at most one, since rules of different tenants never overlap.
    pub(super) fn tenant_of(&self, principal: &Principal) -> Option<&str> {
        self.index.find(principal)
    }
}

/// Rules by what they have in common with the principals they match, so that a look-up sees few of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Index {
    by_key: Keyed<Vec<(String, Rule)>>,
}

impl Index {
    pub(super) fn add(&mut self, tenant: &str, rule: Rule) {
        self.by_key.push(index_key(&rule), (tenant.to_owned(), rule));
    }

    fn find(&self, principal: &Principal) -> Option<&str> {
        index_keys_of(principal)
            .iter()
            .filter_map(|key| self.by_key.get(key))
            .flatten()
            .find_map(|(tenant, rule)| rule.matches(principal).then_some(tenant.as_str()))
    }
}
