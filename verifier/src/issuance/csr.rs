//! PKCS #10 certificate signing requests (CHECKS I1, RFC 2986).
//!
//! Two steps, two types: [`UnverifiedCsr`] is text that parsed, [`VerifiedCsr`] is the public key of someone who holds its private half. Only
//! the public key is taken: subject and attributes must be well-formed and are then forgotten, so that nothing a request asks for can
//! reach a certificate.

use der::referenced::OwnedToRef;
use der::{Decode, Encode};
use protocol::{Code, limits};
use x509_cert::request::CertReqInfo;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::pem;
use super::signed::Signed;
use crate::Denial;
use crate::encoding::{from_b64url, sha256};
use crate::keys::PublicKey;
use crate::ports::SignatureVerifier;

/// Label of RFC 7468 section 7; the older `NEW CERTIFICATE REQUEST` is not taken.
const LABEL: &str = "CERTIFICATE REQUEST";

/// A CSR that parsed, with an acceptable key. Nothing is proven yet.
#[derive(Debug, Clone)]
pub struct UnverifiedCsr {
    der: Vec<u8>,
    spki: SubjectPublicKeyInfoOwned,
    spki_der: Vec<u8>,
    key: PublicKey,
}

/// A CSR whose sender holds the private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedCsr {
    spki: SubjectPublicKeyInfoOwned,
    spki_der: Vec<u8>,
    spki_sha256: [u8; 32],
    der_sha256: [u8; 32],
    key: PublicKey,
}

impl UnverifiedCsr {
    /// From the `csr` field: PEM, or base64url of DER when it does not start with `-----BEGIN` (PROTOCOL, Enroll).
    pub fn parse(text: &str) -> Result<Self, Denial> {
        if text.len() > limits::CSR {
            return Err(Denial::malformed("csr is longer than 8 KiB"));
        }
        let der = if text.starts_with("-----BEGIN") {
            pem::decode_one(LABEL, text).ok_or_else(|| refused("not one PEM block labelled CERTIFICATE REQUEST"))?
        } else {
            from_b64url(text).ok_or_else(|| refused("neither PEM nor base64url without padding"))?
        };
        Self::from_der(der)
    }

    /// From DER; nothing may follow it.
    pub fn from_der(der: Vec<u8>) -> Result<Self, Denial> {
        if der.len() > limits::CSR {
            return Err(Denial::malformed("csr is longer than 8 KiB"));
        }
        let not_der = |_| refused("not the DER of one PKCS #10 request");
        let signed = Signed::from_der(&der).map_err(not_der)?;
        let info: CertReqInfo = signed.content.decode_as().map_err(not_der)?;
        let key = PublicKey::from_spki(&info.public_key.owned_to_ref()).map_err(|error| refused(&error.to_string()))?;
        let spki_der = info.public_key.to_der().map_err(not_der)?;
        Ok(Self { spki: info.public_key, spki_der, key, der })
    }

    /// Checks the self-signature: the proof that the sender holds the private key.
    pub async fn verify(self, verifier: &impl SignatureVerifier) -> Result<VerifiedCsr, Denial> {
        let signed = Signed::from_der(&self.der).map_err(|_| refused("not the DER of one PKCS #10 request"))?;
        match signed.is_by(&self.key, verifier).await {
            Ok(true) => Ok(VerifiedCsr {
                spki_sha256: sha256(&self.spki_der),
                der_sha256: sha256(&self.der),
                spki: self.spki,
                spki_der: self.spki_der,
                key: self.key,
            }),
            Ok(false) => Err(refused("its signature is not by its own key, or not of the algorithm for that key")),
            Err(error) => Err(Denial::new(Code::Internal, error.to_string())),
        }
    }
}

impl VerifiedCsr {
    /// The key, for verifying further signatures.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// SubjectPublicKeyInfo, parsed.
    pub const fn spki(&self) -> &SubjectPublicKeyInfoOwned {
        &self.spki
    }

    /// SubjectPublicKeyInfo, DER as received.
    pub fn spki_der(&self) -> &[u8] {
        &self.spki_der
    }

    /// SHA-256 of [`Self::spki_der`].
    pub const fn spki_sha256(&self) -> &[u8; 32] {
        &self.spki_sha256
    }

    /// SHA-256 of the whole request's DER.
    pub const fn der_sha256(&self) -> &[u8; 32] {
        &self.der_sha256
    }
}

fn refused(why: &str) -> Denial {
    Denial::new(Code::CsrInvalid, ["csr: ", why].concat())
}
