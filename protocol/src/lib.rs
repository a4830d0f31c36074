//! Wire types, limits and error codes of the RootPilot Edge protocol, version 1.
//!
//! This is PROTOCOL.md in Rust, shared by verifier, runner and edgectl, so that the two ends cannot drift apart. It holds data
//! and its JSON form only: no checks beyond the shape, no I/O. Request types refuse unknown fields and duplicate keys; answers are
//! read leniently, so that a newer verifier may add fields.
//!
//! Times are RFC 3339 UTC text, binary values base64url without padding, PEM stays PEM.
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

pub mod admin;
pub mod attestation;
mod catalogue;
pub mod enroll;
pub mod error;
pub mod limits;
pub mod object;
pub mod verify;

pub use attestation::{Attestation, AwsStsEvidence, Mode, MtlsRenewalEvidence};
pub use enroll::{EnrollRequest, EnrollResponse};
pub use error::{Code, Problem, Reason};
pub use object::Object;
pub use verify::{Decision, TraceEntry, TraceOutcome, VerifyRequest, VerifyResponse};

/// Header that a runner signs into its STS request: audience and key (CHECKS S8).
pub const BINDING_HEADER: &str = "x-rootpilot-binding";

/// The one body of a `GetCallerIdentity` request that the verifier knows (CHECKS S1).
pub const STS_BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// Default path of the projected ServiceAccount token of `gke-oidc`.
pub const GKE_TOKEN_PATH: &str = "/var/run/secrets/tokens/gke-oidc/token";

/// Default path of the projected ServiceAccount token of `eks-oidc`.
pub const EKS_TOKEN_PATH: &str = "/var/run/secrets/tokens/eks-oidc/token";

/// The value of [`BINDING_HEADER`] for an audience and the base64url SHA-256 of the CSR's SubjectPublicKeyInfo.
pub fn binding_value(audience: &str, spki_sha256_b64: &str) -> String {
    ["v1;", audience, ";", spki_sha256_b64].concat()
}

/// The ASCII text that a renewal signs (PROTOCOL, Renew): audience, Unix seconds, and base64url SHA-256 of the presented
/// certificate's DER and of the CSR's DER.
pub fn renewal_text(audience: &str, timestamp: i64, certificate_sha256_b64: &str, csr_sha256_b64: &str) -> String {
    format!("rootpilot-renewal-v1\n{audience}\n{timestamp}\n{certificate_sha256_b64}\n{csr_sha256_b64}")
}
