//! Appraise: which tenant the policy maps a proven identity to.

pub mod policy;
pub mod rule;

pub use policy::{AwsStsSettings, OidcSettings, Policy, PolicyDocument, TrustedIssuer};
pub use rule::Rule;

use crate::Denial;
use crate::evidence::VerifiedEvidence;
use crate::registry::command::AdmittedEvidence;
use crate::trace::Trace;

/// Evidence with the tenant it belongs to. Made by [`appraise`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appraised {
    tenant: String,
    evidence: AdmittedEvidence,
}

impl Appraised {
    /// Tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// What was appraised.
    pub const fn evidence(&self) -> &AdmittedEvidence {
        &self.evidence
    }

    /// Tenant and what was appraised.
    pub fn into_parts(self) -> (String, AdmittedEvidence) {
        (self.tenant, self.evidence)
    }
}

/// Maps verified evidence to its tenant, or refuses with `identity_not_mapped`, naming the identity; a bootstrap token of a tenant
/// that the policy does not name, or that may not use such tokens, is `bootstrap_token_refused` (CHECKS B1).
pub fn appraise(policy: &Policy, evidence: VerifiedEvidence, trace: &mut Trace) -> Result<Appraised, Denial> {
    let _ = (policy, evidence, trace);
    unimplemented!("appraisal room")
}
