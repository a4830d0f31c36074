//! The native runner of RootPilot Edge: the attester of RFC 9334.
//!
//! It gathers evidence of who this machine is ([`evidence`]), sends it with a certificate signing request to the control plane
//! ([`control_plane`]), keeps the certificate that comes back ([`identity_store`]) and renews it ([`renewal`]). What went wrong is
//! said once, in full, by [`explain`]. The commands of the binary are in [`commands`], a file each.
//!
//! Out of scope: deciding anything about the evidence. That is the verifier's part.

pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod control_plane;
pub mod doctor;
pub mod enrolment;
pub mod evidence;
pub mod explain;
pub mod failure;
pub mod hook;
pub mod identity;
pub mod identity_store;
pub mod key;
pub mod output;
pub mod regular_file;
pub mod renewal;
pub mod service;
pub mod token_file;
