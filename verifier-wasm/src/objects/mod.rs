//! Durable Objects: one `Tenant` per tenant, one `Policy`, one `Revocation`, each with SQLite storage.
//!
//! An object is a shell: it decodes the call, runs one synchronous function inside `transactionSync`, encodes the answer. No fetch to the
//! outside, no panic: a panic inside an object hangs its caller, so callers wait with a limit ([`client`]).

pub mod client;
mod policy;
mod revocation;
mod shell;
mod tenant_call;
