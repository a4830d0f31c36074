//! The real thing from end to end: the worker bundle in workerd, the real `runner` and `edgectl`, emulators outside.
//!
//! A file is a topic, and its tests take turns at one stack. The verifier has the real clock here: vectors that are pinned to a
//! time run in `verifier/tests`; here they run as far as the first check that looks at the clock. `cargo xtask test` builds what is needed.

mod aws_sts;
mod bootstrap;
mod csr_vectors;
mod enroll;
mod faults;
mod fleet;
mod hostile;
mod jwks;
mod lists;
mod logs;
mod malformed;
mod policy;
mod rate_limits;
mod real_hosts;
mod refusal_order;
mod restarts;
mod runner_faults;
mod support;
mod token_vectors;
mod verify;
