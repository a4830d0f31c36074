//! What the worker asks of the tenant's object, and what it gets: one call per enrolment or renewal.

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::appraisal::{Appraised, Rule};
use crate::evidence::{BootstrapClaim, EvidenceUse, Principal};

/// Lifetimes in force, from the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateTerms {
    /// Life of a certificate, seconds.
    pub ttl: i64,
    /// Full attestation is due after this many seconds.
    pub reattest_after: i64,
    /// The same for bootstrap runners; `None`: never.
    pub bootstrap_reattest_after: Option<i64>,
    /// End of the issuing CA's own certificate.
    pub issuer_not_after: UnixTime,
    /// Refuse a second key for an instance.
    pub one_key_per_instance: bool,
}

/// Evidence that the policy maps to the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmittedEvidence {
    /// An identity with a rule.
    Identity {
        /// Who.
        principal: Principal,
        /// Which use of which evidence.
        evidence: EvidenceUse,
    },
    /// A token to be settled by the object.
    Bootstrap(BootstrapClaim),
}

impl AdmittedEvidence {
    /// Who it speaks for; a token that is not settled yet speaks for itself.
    pub fn principal(&self) -> Principal {
        match self {
            Self::Identity { principal, .. } => principal.clone(),
            Self::Bootstrap(claim) => Principal::Bootstrap { token_id: claim.id.clone() },
        }
    }
}

/// Enrolment, as the tenant's object receives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollCommand {
    /// Tenant, from the appraisal.
    pub tenant: String,
    /// What was appraised.
    pub evidence: AdmittedEvidence,
    /// SHA-256 of the CSR's SubjectPublicKeyInfo, lower-case hex.
    pub spki_sha256: String,
    /// Lifetimes.
    pub terms: CertificateTerms,
    /// `x-request-id`.
    pub request_id: String,
}

impl EnrollCommand {
    /// From an appraisal: the only way to one outside of the object.
    pub fn new(appraised: Appraised, spki_sha256: &[u8; 32], terms: CertificateTerms, request_id: &str) -> Self {
        let (tenant, evidence) = appraised.into_parts();
        Self {
            tenant,
            evidence,
            spki_sha256: crate::encoding::hex(spki_sha256),
            terms,
            request_id: request_id.to_owned(),
        }
    }
}

/// Renewal, as the tenant's object receives it: the certificate has been verified and its key proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewCommand {
    /// Tenant named by the certificate.
    pub tenant: String,
    /// Runner named by the certificate.
    pub runner_id: String,
    /// Serial of the presented certificate, 32 lower-case hex digits.
    pub presented_serial: String,
    /// SHA-256 of the presented certificate's SubjectPublicKeyInfo, lower-case hex.
    pub presented_spki_sha256: String,
    /// SHA-256 of the CSR's SubjectPublicKeyInfo, lower-case hex.
    pub spki_sha256: String,
    /// The tenant's rules now; `None` when the policy no longer has the tenant.
    pub rules: Option<Vec<Rule>>,
    /// Version of the policy the rules are from.
    pub policy_version: u64,
    /// Lifetimes.
    pub terms: CertificateTerms,
    /// `x-request-id`.
    pub request_id: String,
}

/// What the object allotted: everything the certificate says, stored before it is signed (CHECKS I3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allotment {
    /// Tenant.
    pub tenant: String,
    /// Runner id.
    pub runner_id: String,
    /// 16 octets, lower-case hex.
    pub serial: String,
    /// SHA-256 of the SubjectPublicKeyInfo it is for, lower-case hex.
    pub spki_sha256: String,
    /// Start of the certificate.
    pub not_before: UnixTime,
    /// End of the certificate.
    pub not_after: UnixTime,
    /// When a full attestation is due.
    pub reattest_before: Option<UnixTime>,
}

/// Appraisal for `/v1/verify`: what an enrolment would answer, without a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyCommand {
    /// The enrolment in question.
    pub enroll: EnrollCommand,
    /// Use the evidence up, or only look.
    pub consume: bool,
    /// First 8 hex digits of the SHA-256 of the service token.
    pub actor: String,
}

/// What the object says to a [`VerifyCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appraisal {
    /// The refusal; `None` means allow.
    pub denial: Option<crate::Denial>,
    /// Checks of the object that passed, in order.
    pub passed: Vec<crate::checks::Check>,
    /// Whether this call used the evidence up.
    pub consumed: bool,
}

/// Who of the operators calls, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminContext {
    /// Tenant of the route.
    pub tenant: String,
    /// First 8 hex digits of the SHA-256 of the admin's token.
    pub actor: String,
    /// `x-request-id`.
    pub request_id: String,
}

/// Which page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageQuery {
    /// `limit`, 1 to [`protocol::admin::PAGE_MAX`].
    pub limit: Option<u32>,
    /// `cursor`, as given by the page before.
    pub cursor: Option<String>,
}
