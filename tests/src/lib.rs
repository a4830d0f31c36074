//! What the end-to-end tests, the demo and the development set-up share: emulators of the outside
//! world and a way to run our own binaries beside them.
//!
//! [`emulators::sts`] is an AWS STS, [`emulators::oidc`] a Kubernetes OIDC issuer, both on
//! loopback, both able to misbehave on command. [`process`] runs a child and captures it. [`stack`] is all of it
//! together with the verifier in workerd; [`workerd`] is workerd alone, for `cargo xtask bench`. The binary `emulators` offers the two servers to other processes. The
//! scenarios themselves are in `tests/`.

#![allow(clippy::missing_panics_doc, reason = "in test support a panic is a failed test, and says so itself")]

pub mod emulators;
pub mod figures;
pub mod load;
pub mod process;
pub mod stack;
pub mod usage;
pub mod workerd;
