//! The binary as people run it, against a small control plane in this process that speaks PROTOCOL and can misbehave.

mod daemon;
mod enroll;
mod fail_fast;
mod state;
mod support;
