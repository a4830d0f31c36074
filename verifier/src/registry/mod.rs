//! Register: pure state machines of the tenant's object. Storage is the caller's.

pub mod command;

pub use command::{Allotment, CertificateTerms, EnrollCommand, RenewCommand};
