//! The decisions of RootPilot Edge: which tenant does a runner belong to, and what certificate does it get.
//!
//! ```text
//! evidence ──► verified identity ──► tenant ──► record ──► certificate
//!  (parse)         (verify)        (appraise)  (register)    (issue)
//! ```
//!
//! Each step takes the type that only the step before can make, so that skipping a check does not compile. A refusal at any step is
//! one type, [`Denial`], made where the check is and carried out unchanged.
//!
//! Nothing here panics on any input (CHECKS A2): what could is denied by the lints below, and `fuzz/` looks for the rest.
//!
//! Out of scope: I/O, clocks and the platform. Time is an argument ([`UnixTime`]); everything else from outside is a trait of [`ports`].
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

pub mod appraisal;
pub mod aws;
pub mod checks;
mod denial;
pub mod encoding;
pub mod evidence;
mod flow;
pub mod issuance;
pub mod jose;
pub mod keys;
pub mod ports;
pub mod registry;
pub mod shelf;
mod time;
pub mod trace;

#[cfg(feature = "rust-crypto")]
pub mod rust_crypto;
#[cfg(feature = "suites")]
pub mod suites;

pub use denial::Denial;
pub use flow::{Call, Issued};
pub use time::UnixTime;
