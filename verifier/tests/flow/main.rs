//! The whole way of the data over fakes: order of refusals, what the trace says, what is used up (PROTOCOL, Errors, Verify).

mod enroll;
mod renew;
#[path = "../support/mod.rs"]
mod support;
#[path = "../oidc_tokens/support.rs"]
#[allow(dead_code, reason = "its cluster is enough")]
mod tokens;
mod verify;
mod world;
