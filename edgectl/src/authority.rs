//! The certificate authority and tokens of a deployment, made on the operator's machine with the system's randomness.
//!
//! What is in the certificates is decided by [`verifier::issuance::ca`]. Out of scope: where files go.

use p256::SecretKey;
use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use verifier::UnixTime;
use verifier::encoding::{b64url, hex, sha256};
use verifier::issuance::{CaCertificate, IssuingCa, RootCrl, SignedCrl, ca};
use verifier::ports::Entropy as _;
use verifier::rust_crypto::{RustCrypto, RustIssuingKey};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// A P-256 key with its PKCS#8 PEM.
pub struct CaKey {
    key: RustIssuingKey,
    /// PKCS#8 PEM.
    pub pem: Zeroizing<String>,
}

/// A CA with its key.
pub struct CertificateAuthority {
    /// Its key.
    pub key: CaKey,
    /// Its certificate.
    pub certificate: CaCertificate,
}

/// A bearer token and what the worker keeps of it.
pub struct Bearer {
    /// Shown to its owner only.
    pub token: Zeroizing<String>,
    /// SHA-256, lower-case hex.
    pub sha256: String,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Authority(error.to_string())
}

impl CaKey {
    /// A new key.
    pub fn generate() -> Result<Self, Failure> {
        let mut scalar = Zeroizing::new([0; 32]);
        loop {
            RustCrypto.fill(scalar.as_mut()).map_err(failed)?;
            // All but 2^-32 of the scalars are valid.
            if let Ok(secret) = SecretKey::from_slice(scalar.as_ref()) {
                let pem = secret.to_pkcs8_pem(LineEnding::LF).map_err(failed)?;
                return Self::from_pem(pem);
            }
        }
    }

    /// A key that was kept.
    pub fn from_pem(pem: Zeroizing<String>) -> Result<Self, Failure> {
        let key = RustIssuingKey::from_pkcs8_pem(&pem).map_err(failed)?;
        Ok(Self { key, pem })
    }
}

impl CertificateAuthority {
    /// A new root.
    pub fn root(organization: &str, now: UnixTime) -> Result<Self, Failure> {
        let key = CaKey::generate()?;
        let public = key.key.public_key().map_err(failed)?;
        let certificate =
            pollster::block_on(ca::root(organization, &public, &key.key, now, &RustCrypto)).map_err(failed)?;
        Ok(Self { key, certificate })
    }

    /// A root that was kept; key and certificate must belong together.
    pub fn load(key_pem: Zeroizing<String>, certificate_pem: &str) -> Result<Self, Failure> {
        let key = CaKey::from_pem(key_pem)?;
        let certificate = one_certificate(certificate_pem)?;
        if key.key.public_key().map_err(failed)? != *certificate.key() {
            return Err(failed("the root's key and certificate do not belong together"));
        }
        Ok(Self { key, certificate })
    }

    /// A new issuing CA below this root.
    pub fn issuing(&self, organization: &str, now: UnixTime) -> Result<Self, Failure> {
        let key = CaKey::generate()?;
        let public = key.key.public_key().map_err(failed)?;
        let made = ca::issuing(organization, &self.certificate, &self.key.key, &public, now, &RustCrypto);
        Ok(Self { certificate: pollster::block_on(made).map_err(failed)?, key })
    }

    /// This root's next CRL.
    pub fn sign_crl(&self, list: &RootCrl, now: UnixTime) -> Result<SignedCrl, Failure> {
        pollster::block_on(list.sign(&self.certificate, &self.key.key, now)).map_err(failed)
    }

    /// What this root's last CRL says.
    pub fn read_crl(&self, pem: &str) -> Result<RootCrl, Failure> {
        pollster::block_on(RootCrl::read(pem, &self.certificate, &RustCrypto)).map_err(failed)
    }

    /// Puts an issuing CA below this root on the list.
    pub fn revoke(&self, list: &mut RootCrl, certificate: &CaCertificate, now: UnixTime) -> Result<(), Failure> {
        pollster::block_on(list.revoke(certificate, &self.certificate, now, &RustCrypto)).map_err(failed)
    }
}

/// The single certificate of a PEM file.
pub fn one_certificate(pem: &str) -> Result<CaCertificate, Failure> {
    let mut all = CaCertificate::all_from_pem(pem).map_err(failed)?;
    match (all.pop(), all.is_empty()) {
        (Some(certificate), true) => Ok(certificate),
        _ => Err(failed("more than one certificate where one is expected")),
    }
}

/// The same checks the worker makes of its secrets, signatures included.
pub fn check_secrets(ca_certificate: &str, ca_roots: &str) -> Result<(), Failure> {
    let ca = IssuingCa::from_pem(ca_certificate, ca_roots).map_err(failed)?;
    pollster::block_on(ca.verify_signatures(&RustCrypto)).map_err(failed)
}

impl Bearer {
    /// A new token of 256 random bits; `kind` makes it recognizable, also to secret scanners.
    pub fn generate(kind: &str) -> Result<Self, Failure> {
        let mut octets = Zeroizing::new([0; 32]);
        RustCrypto.fill(octets.as_mut()).map_err(failed)?;
        let token = Zeroizing::new([kind, "_", &b64url(octets.as_ref())].concat());
        let sha256 = hex(&sha256(token.as_bytes()));
        Ok(Self { token, sha256 })
    }
}
