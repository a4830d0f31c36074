//! Durable Objects: one `Tenant` per tenant, one `Policy`, one `Revocation`, each with SQLite storage.
//!
//! An object is a shell: it decodes the call, runs one synchronous function inside `transactionSync`, encodes the answer. The decisions are
//! `verifier::registry`'s; the statements go through the small port [`sql::Sql`], so that the same code is tested natively over SQLite. No
//! fetch to the outside inside an object, and no panic: a panic there hangs the caller, so callers wait with a limit ([`client`]).

pub mod client;
#[allow(missing_docs, reason = "the durable_object macro writes methods without")]
pub mod policy;
#[allow(missing_docs, reason = "the durable_object macro writes methods without")]
pub mod revocation;
pub mod schema;
pub mod shell;
pub mod sql;
#[allow(missing_docs, reason = "the durable_object macro writes methods without")]
pub mod tenant;
pub mod tenant_store;
