//! The edge worker of RootPilot Edge. Thin: it reads the request, gives the verifier its ports, and writes the answer.
//!
//! ```text
//! door ──► routes ──► verifier (pure) ──► objects (one call) ──► verifier issues, WebCrypto signs ──► answer
//!  rate limit, 404/405,   │                  Tenant, Policy,
//!  bearer, type, size     └─ platform: WebCrypto, fetch, cache, clock     Revocation (SQLite)
//! ```
//!
//! JavaScript comes in by `js/entry.mjs` and [`border`]. A panic in wasm costs every request of the isolate its answer, so the lints deny
//! what can panic.
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

mod access;
mod body;
pub mod border;
mod config;
mod door;
mod edge_tls;
mod isolate;
mod log;
mod metrics;
pub mod objects;
mod outside;
pub mod platform;
mod problem;
mod rate_limit;
mod refresh;
pub mod request;
mod response;
mod routes;
