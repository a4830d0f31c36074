//! How commands end: outcomes, failures, exit statuses, and what to try next.

use std::process::ExitCode;

use protocol::admin::PolicyProblem;
use protocol::{Code, Problem};
use thiserror::Error;

/// How a command ended that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or the answer is yes.
    Done,
    /// The answer is no.
    No,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::No => Self::from(NO),
        }
    }
}

/// The answer is no.
pub const NO: u8 = 1;
/// Not reachable, or not ready (`EX_UNAVAILABLE`).
pub const UNAVAILABLE: u8 = 69;
/// The token is not accepted (`EX_NOPERM`).
pub const REFUSED: u8 = 77;
/// Address, token or file missing or unusable (`EX_CONFIG`).
pub const CONFIGURATION: u8 = 78;

/// Why a command could not be carried out.
#[derive(Debug, Error)]
pub enum Failure {
    /// Something that is needed was not given, or is no use.
    #[error("{message}")]
    Configuration {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A file, or standard output.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
    /// A policy file that is not even TOML or JSON.
    #[error("{name} is not {form}: {error}")]
    PolicySyntax {
        /// Name of the file.
        name: String,
        /// What it should be.
        form: &'static str,
        /// Where and why not.
        error: String,
    },
    /// A policy file with problems: nothing was sent.
    #[error("{name} has {} problem(s); nothing was applied", problems.len())]
    PolicyInvalid {
        /// Name of the file.
        name: String,
        /// All of them.
        problems: Vec<PolicyProblem>,
    },
    /// The verifier's own refusal.
    #[error("{}", said(problem))]
    Problem {
        /// As it was sent.
        problem: Box<Problem>,
    },
    /// No answer.
    #[error("cannot reach the verifier at {url}: {cause}")]
    Unreachable {
        /// Address asked.
        url: String,
        /// Innermost cause.
        cause: String,
    },
    /// An answer that no verifier gives.
    #[error("{url} answered {status} in a form that is not the verifier's")]
    NotAVerifier {
        /// Address asked.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// Key or certificate making.
    #[error("cannot make the CA: {0}")]
    Authority(String),
}

fn said(problem: &Problem) -> String {
    let reason = problem.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    format!("{} ({}{reason}): {}", problem.title, problem.code, problem.detail)
}

impl Failure {
    /// A failure of configuration.
    pub fn configuration(message: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        Self::Configuration { message: message.into(), hint: hint.into().map(str::to_owned) }
    }

    /// Documented exit status.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Configuration { .. } | Self::Io { .. } | Self::Authority(_) => CONFIGURATION,
            Self::PolicyInvalid { .. } | Self::PolicySyntax { .. } => NO,
            Self::Unreachable { .. } | Self::NotAVerifier { .. } => UNAVAILABLE,
            Self::Problem { problem } => match problem.code {
                Code::Unauthorized | Code::Forbidden => REFUSED,
                code if code.retryable() || code == Code::Internal => UNAVAILABLE,
                _ => NO,
            },
        }
    }

    /// What to try, when there is something.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Configuration { hint, .. } => return hint.clone(),
            Self::Problem { problem } => return hint_for(problem).map(str::to_owned),
            Self::Unreachable { .. } => "Is the address right, and does this machine reach it?",
            Self::NotAVerifier { .. } => "Does EDGECTL_URL name the verifier itself, without a path?",
            Self::Io { .. } | Self::PolicyInvalid { .. } | Self::PolicySyntax { .. } | Self::Authority(_) => {
                return None;
            }
        };
        Some(hint.to_owned())
    }

    /// Every problem of a policy, where that is what went wrong.
    pub fn policy_problems(&self) -> &[PolicyProblem] {
        match self {
            Self::PolicyInvalid { problems, .. } => problems,
            Self::Problem { problem } => problem.errors.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

const fn hint_for(problem: &Problem) -> Option<&'static str> {
    Some(match problem.code {
        Code::Unauthorized => {
            "EDGECTL_TOKEN must be the admin token, and for `explain` EDGECTL_SERVICE_TOKEN the service token, whose SHA-256 the worker has."
        }
        Code::Forbidden => {
            "Admin and service tokens are not interchangeable; minting also needs bootstrap_tokens in the policy."
        }
        Code::NotFound => "`edgectl policy show` lists tenants; `token list` and `runner list` show ids.",
        Code::EtagMismatch => {
            "Somebody applied another policy meanwhile: look with `edgectl policy diff`, then apply again."
        }
        Code::NotConfigured => "Secrets: `edgectl ca init` and `wrangler secret bulk`; policy: `edgectl policy apply`.",
        Code::RateLimited | Code::UpstreamUnavailable | Code::UpstreamThrottled => "Try again in a few seconds.",
        Code::Internal => "The verifier's log has the cause under this request id.",
        _ => return None,
    })
}
