//! From what went wrong to what a person should read and the daemon should do.
//!
//! A refusal is combined with what this machine knows about its own evidence, so that the first sentence names the cause: the
//! region and not the credentials, the clock and by how much, both audiences, the identity that was proven. One place decides class
//! and remedy of every code (PROTOCOL, Runner); [`network`] speaks of everything that is no answer of the control plane.

pub mod network;
mod refusal;

use std::time::Duration;

use jiff::Timestamp;
use protocol::{Code, Problem, Reason};

use crate::config::ControlPlaneUrl;
use crate::control_plane::CallError;
use crate::evidence::Facts;
use crate::failure::{Class, Failure, Remedy};
use crate::output::one_line;

/// What is known beside the answer itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Address that was called.
    pub url: &'a ControlPlaneUrl,
    /// About the evidence.
    pub facts: &'a Facts,
    /// This machine's clock at the answer.
    pub now: Timestamp,
}

/// A difference of clocks worth telling.
const SKEW_WORTH_TELLING: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// Explains a failed call.
pub fn call(error: &CallError, context: Context<'_>) -> Failure {
    match error {
        CallError::Network(fault) => network::fault(fault, context.url),
        CallError::Problem { problem, retry_after } => self::problem(problem, *retry_after, context),
        CallError::Foreign { status, location, retry_after } => {
            network::foreign(*status, location.as_deref(), *retry_after, context.url)
        }
        CallError::Unusable(what) => {
            Failure::unreachable(format!("the answer of {} cannot be used: {}", context.url, one_line(what)))
                .hint("is this the address of a RootPilot control plane, of the same protocol version?")
        }
    }
}

/// Explains a problem document.
pub fn problem(problem: &Problem, retry_after: Option<Duration>, context: Context<'_>) -> Failure {
    let (class, remedy) = class_and_remedy(problem, retry_after);
    let explained = refusal::explain(problem, context);
    let mut failure = Failure::new(class, remedy, explained.message);
    failure.hints = explained.hints;
    if !explained.quotes_detail && !problem.detail.is_empty() {
        failure.hints.push(format!("the control plane says: {}", one_line(&problem.detail)));
    }
    if problem.reason != Some(Reason::DateOutOfRange)
        && let Some(skew) = skew(problem, context.now).filter(|skew| skew.abs() >= SKEW_WORTH_TELLING)
    {
        failure.hints.push(format!("the clock of this machine is {} {}", amount(skew), direction(skew)));
    }
    if let Some(after) = retry_after.filter(|_| class == Class::Unreachable) {
        failure.hints.push(format!("it asks to try again after {} s", after.as_secs()));
    }
    failure.hints.push(name_of(problem));
    failure.problem = Some(Box::new(problem.clone()));
    failure
}

/// The documented names, for search and support.
fn name_of(problem: &Problem) -> String {
    let reason = problem.reason.map(|reason| format!(", reason {reason}")).unwrap_or_default();
    let aws =
        problem.aws_error_code.as_deref().map(|code| format!(", AWS error {}", one_line(code))).unwrap_or_default();
    format!("code {}{reason}{aws}, request {}", problem.code, one_line(&problem.request_id))
}

/// PROTOCOL, Runner: what each answer means for a one-shot command and for the daemon.
fn class_and_remedy(problem: &Problem, retry_after: Option<Duration>) -> (Class, Remedy) {
    let retry = Remedy::Retry { after: retry_after };
    match (problem.code, problem.reason) {
        (Code::MustReattest | Code::CertificateSuperseded, _) | (_, Some(Reason::CertificateInvalid)) => {
            (Class::Refused, Remedy::Attest)
        }
        (_, Some(Reason::TokenReused | Reason::TokenExpired | Reason::TokenNotYetValid)) => {
            (Class::Refused, Remedy::NewEvidence)
        }
        (_, Some(Reason::StsRefused)) if is_expired_token(problem) => (Class::Refused, Remedy::NewEvidence),
        _ => match problem.status {
            400 | 401 | 403 | 413 => (Class::Refused, Remedy::Person),
            _ => (Class::Unreachable, retry),
        },
    }
}

/// AWS names the same thing in two ways.
fn is_expired_token(problem: &Problem) -> bool {
    matches!(problem.aws_error_code.as_deref(), Some("ExpiredToken" | "ExpiredTokenException"))
}

/// This machine's clock against the control plane's: positive when it is fast.
fn skew(problem: &Problem, now: Timestamp) -> Option<jiff::SignedDuration> {
    let server: Timestamp = problem.server_time.parse().ok()?;
    Some(now.duration_since(server))
}

/// `45 s`, `20 min`, `3 h 10 min`: to the second below two minutes, then to the minute.
pub fn amount(duration: jiff::SignedDuration) -> String {
    let seconds = duration.abs().as_secs();
    let seconds = if seconds < 120 { seconds } else { (seconds + 30) / 60 * 60 };
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, 0) => format!("{m} min"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

/// `fast` or `slow`.
pub const fn direction(skew: jiff::SignedDuration) -> &'static str {
    if skew.is_negative() { "slow" } else { "fast" }
}

#[cfg(test)]
mod tests;
