//! Register: pure state machines of the tenant's object. Storage is the caller's.
//!
//! Synchronous functions over [`Store`], with time and entropy as arguments. The caller runs each inside one storage transaction: `Ok` is
//! committed, refusals too (they are in the audit log, and a refusal may make a runner suspect); a [`Fault`] is rolled back.
//!
//! # A runner and its serials (PROTOCOL, Serials; CHECKS I4)
//!
//! A serial is `current`, `next` (allotted, not used yet) or retired. The record names the first two; every other one is retired.
//!
//! | runner | event | answer | afterwards |
//! |---|---|---|---|
//! | none | enrolment | new `current` | active |
//! | known | enrolment, fresh evidence | new `next` | an unused `next` is retired, `current` stays |
//! | known | enrolment, used evidence | the certificate it was given; a new `next` when that has ended | nothing else moves |
//! | suspect, past re-attestation, evicted | enrolment, used evidence | `token_reused`, `bootstrap_token_refused` | – |
//! | suspect | enrolment, fresh evidence | new `current` | every earlier serial retired and on the CRL; active |
//! | evicted | enrolment, fresh evidence | new `current` | a new record |
//! | active | renewal by `next` | new `next` | the presented one is `current`, the old `current` retired |
//! | active | renewal by `current`, no `next` | new `next` | – |
//! | active | renewal by `current`, other key than `next` has | new `next` | the old `next` retired, audited |
//! | active | renewal by any serial, same key as before | the same allotment | – |
//! | active | renewal by a retired serial, other key | `certificate_superseded` | suspect |
//! | suspect | renewal | `must_reattest` | – |
//! | past re-attestation | renewal by `current` or `next` | `must_reattest` | – |
//! | banned | anything authenticated | `runner_banned` | serials are on the CRL since the ban |
//! | unbanned, evicted | renewal | `certificate_invalid` | – |
//! | unbanned | enrolment, fresh evidence | new `next` | active |
//! | unbanned | enrolment, used evidence | new `next` | active: PROTOCOL names who needs fresh evidence, and who was unbanned is not among them |
//!
//! # A bootstrap token (CHECKS B3)
//!
//! A use is a key: the same key, or any later key of the runner it enrolled, is the same use and consumes nothing.
//!
//! Out of scope: evidence and its verification, rules of other tenants, and signing.

pub mod audit;
mod bans;
pub mod command;
mod enroll;
#[cfg(any(test, feature = "test-support"))]
mod memory;
mod owners;
pub mod page;
mod purge;
mod renew;
mod revocation;
mod runner_id;
pub mod runners;
mod serials;
pub mod store;
#[cfg(any(test, feature = "test-support"))]
pub mod suite;
pub mod tokens;

use protocol::admin::TokenCause;
use thiserror::Error;

pub use command::{
    AdminContext, AdmittedEvidence, Allotment, Appraisal, CertificateTerms, EnrollCommand, PageQuery, RenewCommand,
    VerifyCommand,
};
pub use enroll::{enroll, verify};
#[cfg(any(test, feature = "test-support"))]
pub use memory::MemoryStore;
pub use purge::{CRL_PERIOD_SECS, purge};
pub use renew::{POLICY_VERSION, renew};
pub use revocation::Revocation;
pub use store::{Store, StoreError};

use crate::Denial;
pub use crate::issuance::RevocationReason;
use crate::ports::BackendError;

/// Nothing was decided; the transaction must be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// Storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] BackendError),
}

/// A decision, to be committed either way, or a [`Fault`].
pub type Outcome<T> = Result<Result<T, Denial>, Fault>;

/// A refusal with what only the audit log may know.
#[derive(Debug, Clone)]
struct Refusal {
    denial: Denial,
    cause: Option<TokenCause>,
    runner_id: Option<String>,
}

/// Why a decision stops early.
#[derive(Debug, Clone)]
enum Stop {
    Refused(Box<Refusal>),
    Fault(Fault),
}

impl Stop {
    fn refused(denial: Denial) -> Self {
        Self::Refused(Box::new(Refusal { denial, cause: None, runner_id: None }))
    }

    /// The refusal; a fault stays one.
    fn into_refusal(self) -> Result<Refusal, Fault> {
        match self {
            Self::Refused(refusal) => Ok(*refusal),
            Self::Fault(fault) => Err(fault),
        }
    }
}

impl<E: Into<Fault>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}
