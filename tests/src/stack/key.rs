//! A runner's key as the tests need it: CSR, key hash, proof of possession. Made without the runner's code.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, Signature, SigningKey};
use p256::elliptic_curve::Generate as _;
use p256::pkcs8::EncodePublicKey as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_cert::Certificate;
use x509_cert::builder::Builder as _;
use x509_cert::der::{Decode as _, Encode as _, EncodePem as _, pem::LineEnding};
use x509_cert::request::RequestBuilder;

/// base64url without padding.
pub fn b64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// base64url of SHA-256.
pub fn sha256_b64url(bytes: &[u8]) -> String {
    b64url(&Sha256::digest(bytes))
}

/// A P-256 key.
#[derive(Debug, Clone)]
pub struct Key(SigningKey);

impl Default for Key {
    fn default() -> Self {
        Self::generate()
    }
}

impl Key {
    /// A new one.
    pub fn generate() -> Self {
        Self(SigningKey::generate_from_rng(&mut rand::rng()))
    }

    /// The one of this number, from 1 to 254: the same in every run, for records that outlive one.
    pub fn numbered(number: u8) -> Self {
        Self(SigningKey::from_slice(&[number; 32]).expect("a scalar of the field"))
    }

    /// SubjectPublicKeyInfo, DER.
    pub fn spki(&self) -> Vec<u8> {
        self.0.verifying_key().to_public_key_der().expect("a valid key encodes").into_vec()
    }

    /// base64url SHA-256 of [`Self::spki`]: what evidence is bound to.
    pub fn spki_sha256(&self) -> String {
        sha256_b64url(&self.spki())
    }

    fn request(&self) -> x509_cert::request::CertReq {
        let subject = "CN=asked-for-in-vain".parse().expect("a valid name");
        let builder = RequestBuilder::new(subject).expect("a request can be begun");
        builder.build::<_, DerSignature>(&self.0).expect("a P-256 key signs")
    }

    /// PKCS#10, DER; the same key always gives the same octets (RFC 6979).
    pub fn csr_der(&self) -> Vec<u8> {
        self.request().to_der().expect("a request encodes")
    }

    /// PKCS#10, PEM.
    pub fn csr(&self) -> String {
        self.request().to_pem(LineEnding::LF).expect("a request encodes")
    }

    /// ES256 over `text`, base64url of r‖s.
    pub fn sign(&self, text: &[u8]) -> String {
        let signature: Signature = self.0.sign(text);
        b64url(&signature.to_bytes())
    }

    /// `mtls-renewal` evidence: this key proves that it holds `certificate` (PEM; the leaf comes first) and wants `next` certified.
    pub fn renewal(&self, certificate: &str, audience: &str, timestamp: i64, next: &Self) -> Value {
        let der = leaf_der(certificate);
        let text = format!(
            "rootpilot-renewal-v1\n{audience}\n{timestamp}\n{}\n{}",
            sha256_b64url(&der),
            sha256_b64url(&next.csr_der())
        );
        json!({
            "mode": "mtls-renewal",
            "certificate": leaf_pem(certificate),
            "timestamp": timestamp,
            "signature": self.sign(text.as_bytes()),
        })
    }
}

/// The first certificate of a PEM chain, PEM.
pub fn leaf_pem(chain: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----\n";
    let end = chain.find(END).map_or(chain.len(), |at| at + END.len());
    chain[..end].to_owned()
}

/// The first certificate of a PEM chain, DER.
pub fn leaf_der(chain: &str) -> Vec<u8> {
    let leaf = leaf_pem(chain);
    let (label, der) = x509_cert::der::pem::decode_vec(leaf.as_bytes()).expect("a PEM certificate");
    assert_eq!(label, "CERTIFICATE");
    der
}

/// The first certificate of a PEM chain, parsed.
pub fn leaf(chain: &str) -> Certificate {
    Certificate::from_der(&leaf_der(chain)).expect("a certificate")
}

/// Serial of the first certificate of a PEM chain, 32 lower-case hex digits.
pub fn serial(chain: &str) -> String {
    base16ct::lower::encode_string(leaf(chain).tbs_certificate().serial_number().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_repeats_its_request_and_differs_from_others() {
        let key = Key::generate();
        assert_eq!(key.csr(), key.clone().csr());
        assert_ne!(key.csr(), Key::generate().csr());
        let (_, der) = x509_cert::der::pem::decode_vec(key.csr().as_bytes()).unwrap();
        assert_eq!(der, key.csr_der());
        assert_eq!(key.spki_sha256().len(), 43);
    }
}
