//! What holds for any input of the verifier, target by target.
//!
//! `check` of a target panics when something does not hold, and says whether the input was accepted, so that the corpus can be seen to
//! hold both kinds. Properties cite CHECKS.md. Where a signature stands before what is interesting, the signature back end accepts
//! everything: no fuzzer can sign.
//!
//! Out of scope: what the verdict on an input should have been. That is for vectors and tests.

pub mod authorization;
pub mod aws_sts_evidence;
pub mod caller_arn;
pub mod certificate;
pub mod csr;
pub mod enroll_body;
pub mod jwks;
pub mod jws;
pub mod policy;
pub mod sts_answer;
pub mod token_claims;
pub mod world;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of its binary and of its folder in `corpus/`.
    pub name: &'static str,
    /// Panics when a property does not hold; true when the input was accepted.
    pub check: fn(&[u8]) -> bool,
}

macro_rules! targets {
    ($($name:ident),+ $(,)?) => {
        /// Every target, by name.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), check: $name::check }),+];
    };
}

targets! {
    authorization,
    aws_sts_evidence,
    caller_arn,
    certificate,
    csr,
    enroll_body,
    jwks,
    jws,
    policy,
    sts_answer,
    token_claims,
}
