//! `POST /v1/verify`: appraisal without a certificate, and its decision trace.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::text_enum;
use crate::{Attestation, Code, Mode, Reason};

/// Evidence to appraise. Exactly one of `csr` and `spki_sha256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest<'a> {
    /// Evidence.
    #[serde(borrow)]
    pub attestation: Attestation<'a>,
    /// PKCS#10 whose key the evidence is bound to.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub csr: Option<Cow<'a, str>>,
    /// base64url SHA-256 of the SubjectPublicKeyInfo, for callers without a CSR.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub spki_sha256: Option<Cow<'a, str>>,
    /// Use the evidence up as an enrolment would (default), or only explain.
    #[serde(default = "yes")]
    pub consume: bool,
}

const fn yes() -> bool {
    true
}

text_enum! {
    /// Outcome of an appraisal.
    Decision {
        /// The evidence maps to a tenant.
        Allow = "allow",
        /// It does not.
        Deny = "deny",
    }
}

text_enum! {
    /// Outcome of one check.
    TraceOutcome {
        /// Passed.
        Pass = "pass",
        /// Refused here.
        Fail = "fail",
        /// Not reached, or not applicable.
        Skipped = "skipped",
    }
}

/// One check of the decision trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Number in CHECKS.md, such as `S7`.
    pub check: String,
    /// Name of the check, for a person.
    pub name: String,
    /// How it ended.
    pub outcome: TraceOutcome,
    /// What the verifier wanted to see; secrets left out.
    pub expected: Option<String>,
    /// What it saw; secrets left out.
    pub actual: Option<String>,
}

/// Attestation result. Every field is always present, null where unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyResponse {
    /// Allow or deny.
    pub decision: Decision,
    /// Null on allow.
    pub code: Option<Code>,
    /// Null on allow.
    pub reason: Option<Reason>,
    /// Mode of the evidence.
    pub mode: Option<Mode>,
    /// Canonical identity, where it was proven.
    pub identity: Option<String>,
    /// What stands behind the runner: STS `UserId`, pod uid, token id.
    pub instance: Option<String>,
    /// Tenant that the proven identity is mapped to, also when it is refused afterwards.
    pub tenant: Option<String>,
    /// Whether this call used the evidence up.
    pub consumed: bool,
    /// Every check in order.
    pub trace: Vec<TraceEntry>,
}
