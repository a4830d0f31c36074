//! Emulators of what the verifier and the runner call: AWS STS and a cluster's OIDC issuer.
//!
//! Each emulator serves plain HTTP on a loopback port from a thread of its own, so it keeps
//! answering while a test blocks. It judges requests by the published specification and shares no
//! code with the runner or the verifier. Each takes orders both from a Rust handle and, for other
//! processes, under `/_control/`. Out of scope: TLS, persistence, anything but loopback.

pub mod clock;
pub mod control;
pub mod fault;
pub mod oidc;
pub mod recorder;
pub mod server;
pub mod sts;

pub use fault::{Fault, FaultPlan};
pub use oidc::{IssuerConfig, OidcIssuer, TokenOptions};
pub use recorder::RecordedRequest;
pub use sts::{Credentials, StsConfig, StsEmulator};

/// Builder of a client for loopback: no proxy, no redirects.
///
/// Where the whole workspace is built, reqwest has no TLS provider of its own and wants one even for plain HTTP; installing a second
/// changes nothing.
pub(crate) fn http_client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none())
}
