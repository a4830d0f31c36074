//! The one place where a refusal becomes problem+json (PROTOCOL, Errors).

use protocol::error::PROBLEM_JSON;
use protocol::{Code, Problem, Reason, admin::PolicyProblem};
use verifier::{Denial, UnixTime};

use crate::response::{Body, Response};

/// Everything but a success: a denial, and what only some answers add.
#[derive(Debug)]
pub struct Refusal {
    /// Code, reason, detail.
    pub denial: Box<Denial>,
    /// `Allow` of a 405.
    pub allow: Option<&'static str>,
    /// Problems of a refused policy.
    pub errors: Option<Vec<PolicyProblem>>,
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self { denial: Box::new(denial), allow: None, errors: None }
    }
}

impl Refusal {
    /// A refusal without reason.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Denial::new(code, detail).into()
    }

    /// Whether it counts as a refused attestation (PROTOCOL, Rate limits).
    pub const fn counts_as_refused(&self) -> bool {
        // `forbidden` is said to a bearer that is known.
        matches!(self.denial.code.status(), 401 | 403) && !matches!(self.denial.code, Code::Forbidden)
    }

    /// Replaces the text of an `internal` problem: it is for the log only.
    #[must_use]
    pub fn hide_internals(mut self) -> Self {
        if self.denial.code == Code::Internal {
            "an internal fault; the request id finds it in the verifier's log".clone_into(&mut self.denial.detail);
        }
        self
    }

    /// The answer.
    pub fn into_response(self, request_id: &str, now: UnixTime) -> Response {
        let Denial { code, reason, detail, aws_error_code, retry_after, .. } = *self.denial;
        let problem = Problem {
            type_uri: type_uri(code, reason),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            reason,
            detail,
            request_id: request_id.to_owned(),
            retryable: code.retryable(),
            server_time: now.to_rfc3339(),
            aws_error_code,
            errors: self.errors,
        };
        // A problem always serialises.
        let body = Body::Text(serde_json::to_string(&problem).unwrap_or_default());
        let mut response =
            Response::new(code.status(), body).with("content-type", PROBLEM_JSON).with("cache-control", "no-store");
        if let Some(seconds) = retry_after {
            response = response.with("retry-after", seconds.to_string());
        }
        if let Some(allow) = self.allow {
            response = response.with("allow", allow);
        }
        if code == Code::Unauthorized {
            response = response.with("www-authenticate", "Bearer");
        }
        response
    }
}

/// Identifies the kind of problem: the same words as in docs/errors.md.
fn type_uri(code: Code, reason: Option<Reason>) -> String {
    reason.map_or_else(
        || format!("urn:rootpilot:problem:{code}"),
        |reason| format!("urn:rootpilot:problem:{code}:{reason}"),
    )
}
