//! What the verifier knows of AWS: partitions and their STS hosts, the grammar of SigV4's `Authorization`, ARNs, and the answer of
//! `GetCallerIdentity`. Out of scope: computing signatures; STS does that (CHECKS S10).

pub mod arn;
pub mod caller_identity;
pub mod endpoint;
pub mod partition;
mod partition_data;
pub mod sigv4;
