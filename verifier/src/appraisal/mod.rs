//! Appraise: which tenant the policy maps a proven identity to.

mod compile;
mod document;
mod keyed;
pub mod policy;
pub mod rule;
mod tree;

pub use compile::seconds;
pub use policy::{AwsStsSettings, KeySource, OidcSettings, Policy, PolicyDocument, Tenant, TrustedIssuer};
pub use rule::Rule;

use protocol::Code;

use crate::Denial;
use crate::checks::Check;
use crate::evidence::{Principal, VerifiedEvidence, bootstrap_token};
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
    match evidence {
        VerifiedEvidence::Identity(identity) => {
            let tenant = tenant_of(policy, identity.principal())?;
            trace.pass(Check::M1, || (format!("rules of tenant {tenant}"), identity.principal().identity()));
            let (principal, evidence) = (identity.principal().clone(), identity.evidence().clone());
            Ok(Appraised { tenant: tenant.to_owned(), evidence: AdmittedEvidence::Identity { principal, evidence } })
        }
        VerifiedEvidence::Bootstrap(claim) => {
            if !policy.bootstrap_allowed(&claim.tenant) {
                return Err(bootstrap_token::refused(Check::B1));
            }
            trace.pass(Check::B1, || (bootstrap_token::FORM.to_owned(), format!("token {}", claim.id)));
            Ok(Appraised { tenant: claim.tenant.clone(), evidence: AdmittedEvidence::Bootstrap(claim) })
        }
    }
}

fn tenant_of<'a>(policy: &'a Policy, principal: &Principal) -> Result<&'a str, Denial> {
    policy.tenant_of(principal).ok_or_else(|| {
        let identity = principal.identity();
        Denial::new(
            Code::IdentityNotMapped,
            format!("The identity {identity} is proven, but no rule of the policy maps it to a tenant."),
        )
        .at(Check::M1)
        .compared("a rule of the policy", identity)
    })
}

#[cfg(test)]
mod tests;
