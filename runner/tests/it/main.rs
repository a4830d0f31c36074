//! The binary as people run it, against a small control plane in this process that speaks PROTOCOL and can misbehave.

mod aws_sources;
mod daemon;
mod enroll;
mod fail_fast;
mod faults;
mod secrets;
mod state;
mod support;
mod words;
