//! The one type of a refusal.

use protocol::{Code, Reason};
use serde::{Deserialize, Serialize};

use crate::checks::Check;

/// Why a call got no: made where the check is, carried out unchanged, turned into problem+json in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What kind of failure; decides the status.
    pub code: Code,
    /// Which check refused.
    pub reason: Option<Reason>,
    /// For the person at the other end: what was wrong, never a secret. Attacker text only through [`crate::encoding::shown`].
    pub detail: String,
    /// The check of CHECKS.md that refused, for the decision trace.
    pub check: Option<Check>,
    /// What that check wanted and what it saw, secrets left out, for the decision trace.
    pub compared: Option<(String, String)>,
    /// Error code of STS (CHECKS S14).
    pub aws_error_code: Option<String>,
    /// Seconds for `Retry-After`; retryable codes only.
    pub retry_after: Option<u32>,
}

impl Denial {
    /// A refusal without a reason.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            reason: None,
            detail: detail.into(),
            check: None,
            compared: None,
            aws_error_code: None,
            retry_after: code.retryable().then_some(5),
        }
    }

    /// `attestation_invalid` with its reason, refused by `check`.
    pub fn evidence(check: Check, reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason: Some(reason), check: Some(check), ..Self::new(Code::AttestationInvalid, detail) }
    }

    /// `malformed_request`.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Code::MalformedRequest, detail)
    }

    /// Adds what was wanted and what was seen.
    #[must_use]
    pub fn compared(mut self, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        self.compared = Some((expected.into(), actual.into()));
        self
    }

    /// Names the check that refused.
    #[must_use]
    pub fn at(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }
}
