//! The ports of the verifier on the platform: WebCrypto, fetch, clock.

pub mod cache;
pub mod clock;
pub mod http;
pub mod js;
pub mod webcrypto;
