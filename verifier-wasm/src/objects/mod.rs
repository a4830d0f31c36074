//! Durable Objects: one `Tenant` per tenant, one `Policy`, one `Revocation`, each with SQLite storage.
//!
//! An object is a class of `js/entry.mjs` around synchronous functions of here (`border.rs`): the call comes as octets, one function decides inside one
//! `transactionSync`, the answer goes as octets ([`shell`]). The decisions are `verifier::registry`'s; the statements go through the small port
//! [`sql::Sql`], so that the same code is tested natively over SQLite. No fetch to the outside inside an object. Whatever is thrown in
//! there, a trap included, is rolled back and reaches the caller at once; callers wait with a limit all the same ([`client`]).

pub mod client;
pub mod database;
pub mod policy;
pub mod revocation;
pub mod schema;
pub mod shell;
pub mod sql;
pub mod tenant;
mod tenant_rows;
pub mod tenant_store;
