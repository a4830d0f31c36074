//! What ends a command, or an attempt of the daemon, without a certificate.
//!
//! A [`Failure`] is made where the cause is known and says three things: the exit status of a one-shot command (its [`Class`]),
//! what the daemon does about it (its [`Remedy`]), and the sentence and hints that a person reads. Out of scope: how it is printed
//! ([`crate::output`]) and when the daemon acts ([`crate::renewal`]).

use std::time::Duration;

use protocol::Problem;
use serde::{Deserialize, Serialize};

/// Exit status of the process (PROTOCOL, Runner).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The control plane, or something on the way to the evidence, could not be reached.
    Unreachable = 69,
    /// The control plane said no.
    Refused = 77,
    /// Something on this machine has to be set right first.
    Configuration = 78,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whose move it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// This machine's configuration.
    Configuration,
    /// The control plane refuses.
    Refused,
    /// Something is not reachable or not ready.
    Unreachable,
}

impl Class {
    /// Status of a command that ends so.
    pub const fn exit(self) -> Exit {
        match self {
            Self::Configuration => Exit::Configuration,
            Self::Refused => Exit::Refused,
            Self::Unreachable => Exit::Unreachable,
        }
    }
}

/// What the daemon does next (PROTOCOL, Runner: exit status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing but a change by a person helps: end, or keep the live certificate and look again every five minutes.
    Person,
    /// Try again with growing, jittered delays, not before the time the other side named.
    Retry {
        /// `Retry-After` of the answer.
        after: Option<Duration>,
    },
    /// The evidence is used up or out of date: wait until it changes.
    NewEvidence,
    /// The certificate no longer serves: attest by the configured mode at once.
    Attest,
}

/// A failure with everything that is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit status of a one-shot command.
    pub class: Class,
    /// What the daemon does.
    pub remedy: Remedy,
    /// One sentence that names the cause.
    pub message: String,
    /// The message is a text of the contract: printed as it is, with no prefix or colour.
    pub verbatim: bool,
    /// What to do about it, one sentence each.
    pub hints: Vec<String>,
    /// The problem document, where the control plane sent one.
    pub problem: Option<Box<Problem>>,
}

impl Failure {
    /// A failure with a message of our own and no hints yet.
    pub fn new(class: Class, remedy: Remedy, message: impl Into<String>) -> Self {
        Self { class, remedy, message: message.into(), verbatim: false, hints: Vec::new(), problem: None }
    }

    /// This machine's configuration is wrong.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(Class::Configuration, Remedy::Person, message)
    }

    /// A fail-fast text of PROTOCOL, to the letter.
    pub fn fail_fast(message: impl Into<String>) -> Self {
        Self { verbatim: true, ..Self::configuration(message) }
    }

    /// Something is not reachable; trying again may help.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Class::Unreachable, Remedy::Retry { after: None }, message)
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint where there is one.
    #[must_use]
    pub fn hint_opt(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hints.extend(hint.map(Into::into));
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
