//! Issue: from a request for a certificate and what the tenant's object allotted to a signed certificate (CHECKS I1, I2, I7).
//!
//! A certificate needs three things, each made in one place only: a [`VerifiedCsr`], an [`crate::registry::Allotment`] for the same key, and an
//! [`IssuingCa`]. Signing itself is a port ([`crate::ports::IssuingKey`]); the private key never comes near this crate.
//!
//! Out of scope: who gets a certificate and for how long (the registry's), and where revocations are kept.

mod builder;
pub mod ca;
pub mod crl;
pub mod csr;
mod issuing_ca;
mod name;
pub(crate) mod pem;
pub mod profile;
pub mod root_crl;
pub mod serial;
pub(crate) mod signed;
pub mod spki;

pub use builder::SigningError;
pub use crl::{CrlDraft, CrlEntry, RevocationReason, SignedCrl};
pub use csr::{UnverifiedCsr, VerifiedCsr};
pub use issuing_ca::{CaCertificate, CaError, IssuingCa};
pub use profile::{IssuedCertificate, issue, spiffe_id};
pub use root_crl::RootCrl;
pub use serial::Serial;

/// DER inside a PKCS#8 PEM (`PRIVATE KEY`), or `None`. Whoever holds it wipes it.
pub fn private_key_der(text: &str) -> Option<Vec<u8>> {
    pem::decode_one("PRIVATE KEY", text)
}
