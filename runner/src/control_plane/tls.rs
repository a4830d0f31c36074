//! TLS to the control plane: the system's certificate authorities, those of `RUNNER_CA_FILE`, and a memory of what the server
//! presented, so that an untrusted certificate can be named.

use std::path::Path;
use std::sync::{Arc, Mutex};

use der::Decode as _;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::failure::Failure;
use crate::regular_file;

/// Several times the size of a system's whole list.
const LARGEST_CA_FILE: u64 = 4 * 1024 * 1024;

/// The certificate that a server presented and that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its subject.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// Its validity.
    pub validity: String,
}

/// The last certificate that was not accepted.
#[derive(Debug, Clone, Default)]
pub struct Presented(Arc<Mutex<Option<Leaf>>>);

impl Presented {
    /// Forgets it.
    pub fn clear(&self) {
        self.set(None);
    }

    /// Takes it.
    pub fn take(&self) -> Option<Leaf> {
        self.0.lock().ok().and_then(|mut leaf| leaf.take())
    }

    fn set(&self, leaf: Option<Leaf>) {
        if let Ok(mut place) = self.0.lock() {
            *place = leaf;
        }
    }
}

/// The usual verifier, remembering what it refused.
#[derive(Debug)]
struct Remembering {
    inner: Arc<WebPkiServerVerifier>,
    presented: Presented,
}

impl ServerCertVerifier for Remembering {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verdict.is_err() {
            self.presented.set(describe(end_entity));
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn describe(certificate: &CertificateDer<'_>) -> Option<Leaf> {
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let tbs = certificate.tbs_certificate();
    let name = |name: &x509_cert::name::Name| crate::output::one_line(&name.to_string());
    Some(Leaf {
        subject: name(tbs.subject()),
        issuer: name(tbs.issuer()),
        validity: format!("{} to {}", tbs.validity().not_before, tbs.validity().not_after),
    })
}

/// TLS with the system's authorities and those of a file.
pub fn config(ca_file: Option<&Path>, presented: &Presented) -> Result<ClientConfig, Failure> {
    let roots = authorities(ca_file)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: &dyn std::fmt::Display| Failure::configuration(format!("cannot set up TLS: {error}"));
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| failed(&error))?;
    let verifier = Remembering { inner, presented: presented.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// TLS that trusts no one: for clients that only speak plain HTTP to this machine.
pub fn without_authorities() -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Failure::configuration(format!("cannot set up TLS: {error}")))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::debug!("no certificate authorities on this system: using the built-in ones");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let Some(path) = ca_file else { return Ok(roots) };
    let wrong = |what: &dyn std::fmt::Display| {
        Failure::configuration(format!("RUNNER_CA_FILE: cannot use {}: {what}", path.display()))
            .hint("it must be a readable PEM file with one or more CERTIFICATE blocks")
    };
    let pem = regular_file::read(path, LARGEST_CA_FILE).map_err(|error| wrong(&error))?;
    if pem.len() as u64 > LARGEST_CA_FILE {
        return Err(wrong(&format!("it is larger than {LARGEST_CA_FILE} bytes")));
    }
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        count += 1;
    }
    if count == 0 { Err(wrong(&"it holds no certificate")) } else { Ok(roots) }
}
