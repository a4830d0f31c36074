//! Issuance, state, renewal and revocation in workerd: nothing lost, nothing twice (CHECKS I, B, K7).
//!
//! The pure state machines are tested case by case beside their code, times included; here the whole verifier is held to the same
//! rules where only the whole can break them: many callers at once, a killed process, real storage, real relying parties.

mod atomicity;
mod audit;
mod bans;
mod contract;
mod crashes;
mod edge_tls;
mod foreign;
mod issuing_ca;
mod migration;
mod nginx;
mod policy_changes;
mod purge;
mod races;
mod refused_calls;
mod renewal;
mod replay;
mod runner;
mod storage;
mod support;
mod swallow;
