//! Whether a certificate would be taken by a server that trusts the roots that came with it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{Error, RootCertStore};

/// Verifies a chain (PEM, leaf first) up to one of `roots` (PEM) at a time, for client authentication.
pub fn verify(chain: &str, roots: &str, at: Timestamp) -> Result<(), Error> {
    let other = |error: &dyn std::fmt::Display| Error::General(error.to_string());
    let certificates = |pem: &str| -> Result<Vec<CertificateDer<'static>>, Error> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|error| other(&error))
    };
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(certificates(roots)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), provider)
        .build()
        .map_err(|error| other(&error))?;
    let chain = certificates(chain)?;
    let (leaf, intermediates) = chain.split_first().ok_or_else(|| other(&"there is no certificate"))?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().unsigned_abs()));
    verifier.verify_client_cert(leaf, intermediates, at).map(drop)
}
