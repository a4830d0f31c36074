//! The runner's own P-256 key, its CSR, and the proof of possession for renewals.
//!
//! Keys are made here, stored by [`crate::identity_store`] and never leave the machine. Signatures are deterministic (RFC 6979), so
//! that a key gives the same CSR every time and a repeated request is the same request.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use der::{Encode as _, EncodePem as _, pem::LineEnding};
use p256::ecdsa::{DerSignature, Signature, SigningKey, signature::Signer as _};
use p256::elliptic_curve::Generate as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _};
use sha2::{Digest as _, Sha256};
use x509_cert::builder::Builder as _;
use x509_cert::name::Name;
use x509_cert::request::RequestBuilder;
use zeroize::Zeroizing;

/// A P-256 private key; wiped from memory when the last clone is dropped. All clones share one place, for what is moved about leaves
/// copies behind that nobody wipes.
#[derive(Clone)]
pub struct Key {
    signing: Arc<SigningKey>,
    spki: Vec<u8>,
}

/// The text is not a P-256 private key in PKCS#8 PEM.
#[derive(Debug, thiserror::Error)]
#[error("not a P-256 private key in PKCS#8 PEM")]
pub struct KeyError;

/// A certificate signing request in both forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr {
    /// PKCS#10, DER.
    pub der: Vec<u8>,
    /// The same, PEM.
    pub pem: String,
}

impl Key {
    /// Makes a new key from the system's randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Self::new(SigningKey::try_generate().map_err(|_| KeyError)?)
    }

    /// Reads PKCS#8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        Self::new(SigningKey::from_pkcs8_pem(pem.trim_start()).map_err(|_| KeyError)?)
    }

    fn new(signing: SigningKey) -> Result<Self, KeyError> {
        let spki = signing.verifying_key().to_public_key_der().map_err(|_| KeyError)?.into_vec();
        Ok(Self { signing: Arc::new(signing), spki })
    }

    /// PKCS#8 PEM.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.signing.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError)
    }

    /// SubjectPublicKeyInfo, DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// base64url SHA-256 of the SubjectPublicKeyInfo: what evidence is bound to.
    pub fn spki_sha256(&self) -> String {
        sha256_b64(&self.spki)
    }

    /// The CSR of this key. Only the public key of it is taken by the verifier (CHECKS I1); the subject is for people.
    pub fn csr(&self) -> Result<Csr, KeyError> {
        let subject: Name = "CN=rootpilot-runner".parse().map_err(|_| KeyError)?;
        let request = RequestBuilder::new(subject)
            .and_then(|builder| builder.build::<_, DerSignature>(&*self.signing))
            .map_err(|_| KeyError)?;
        let der = request.to_der().map_err(|_| KeyError)?;
        let pem = request.to_pem(LineEnding::LF).map_err(|_| KeyError)?;
        Ok(Csr { der, pem })
    }

    /// ES256 over `text` as in RFC 7518: base64url of r‖s.
    pub fn sign_es256(&self, text: &[u8]) -> String {
        let signature: Signature = self.signing.sign(text);
        URL_SAFE_NO_PAD.encode(signature.to_bytes())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.spki_sha256())
    }
}

/// base64url SHA-256.
pub fn sha256_b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_repeats_its_request() {
        let key = Key::generate().unwrap();
        let again = Key::from_pem(&key.to_pem().unwrap()).unwrap();
        assert_eq!(key.csr().unwrap(), again.csr().unwrap());
        assert_eq!(key.spki_sha256(), again.spki_sha256());
        assert_ne!(key.spki_sha256(), Key::generate().unwrap().spki_sha256());
    }

    #[test]
    fn the_csr_verifies_by_its_own_key() {
        use der::Decode as _;
        use p256::ecdsa::signature::Verifier as _;
        let key = Key::generate().unwrap();
        let request = x509_cert::request::CertReq::from_der(&key.csr().unwrap().der).unwrap();
        let signature = DerSignature::from_bytes(request.signature.as_bytes().unwrap()).unwrap();
        key.signing.verifying_key().verify(&request.info.to_der().unwrap(), &signature).unwrap();
        assert_eq!(request.info.public_key.to_der().unwrap(), key.spki());
    }

    #[test]
    fn nothing_of_the_key_is_shown() {
        let key = Key::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("Key({})", key.spki_sha256()));
        assert!(Key::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err());
    }
}
