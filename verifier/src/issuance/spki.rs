//! SubjectPublicKeyInfo to and from checked keys (CHECKS I1; RFC 3279, RFC 5480, RFC 8410).

use der::asn1::{AnyRef, BitString, BitStringRef, UintRef};
use der::oid::db::{rfc5912, rfc8410};
use der::{Decode, Sequence};
use thiserror::Error;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};

use crate::encoding::sha256;
use crate::keys::{KeyError, KeyMaterial, PublicKey};

/// A SubjectPublicKeyInfo that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SpkiError {
    /// Not RSA, P-256, P-384 or Ed25519.
    #[error("the key must be P-256, P-384, Ed25519 or RSA")]
    Algorithm,
    /// Not the form that the algorithm's RFC gives.
    #[error("the public key is not encoded as its algorithm demands")]
    Encoding,
    /// The key itself.
    #[error("{0}")]
    Key(#[from] KeyError),
}

#[derive(Sequence)]
struct RsaPublicKey<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

impl PublicKey {
    /// From a parsed SubjectPublicKeyInfo.
    pub fn from_spki(spki: &SubjectPublicKeyInfoRef<'_>) -> Result<Self, SpkiError> {
        let bits = spki.subject_public_key.as_bytes().ok_or(SpkiError::Encoding)?;
        let parameters = spki.algorithm.parameters;
        match spki.algorithm.oid {
            rfc5912::ID_EC_PUBLIC_KEY => match parameters.and_then(|curve| curve.decode_as().ok()) {
                Some(rfc5912::SECP_256_R_1) => Ok(Self::p256(bits)?),
                Some(rfc5912::SECP_384_R_1) => Ok(Self::p384(bits)?),
                Some(_) => Err(SpkiError::Algorithm),
                None => Err(SpkiError::Encoding),
            },
            rfc5912::RSA_ENCRYPTION if parameters.is_some_and(AnyRef::is_null) => {
                let key = RsaPublicKey::from_der(bits).map_err(|_| SpkiError::Encoding)?;
                Ok(Self::rsa(key.modulus.as_bytes(), key.exponent.as_bytes())?)
            }
            rfc8410::ID_ED_25519 if parameters.is_none() => Ok(Self::ed25519(bits)?),
            rfc5912::RSA_ENCRYPTION | rfc8410::ID_ED_25519 => Err(SpkiError::Encoding),
            _ => Err(SpkiError::Algorithm),
        }
    }
}

/// The SubjectPublicKeyInfo of a P-256 key, which is what our CAs have; `None` for other keys.
pub fn p256_spki(key: &PublicKey) -> Option<SubjectPublicKeyInfoOwned> {
    let KeyMaterial::P256(point) = key.material() else { return None };
    let spki = SubjectPublicKeyInfoRef {
        algorithm: x509_cert::spki::AlgorithmIdentifierRef {
            oid: rfc5912::ID_EC_PUBLIC_KEY,
            parameters: Some(AnyRef::from(&rfc5912::SECP_256_R_1)),
        },
        subject_public_key: BitStringRef::from_bytes(point).ok()?,
    };
    Some(der::referenced::RefToOwned::ref_to_owned(&spki))
}

/// Key identifier: leftmost 160 bits of SHA-256 over the key's BIT STRING (RFC 7093 section 2, method 1).
pub fn key_identifier(subject_public_key: &BitString) -> [u8; 20] {
    let hash = sha256(subject_public_key.raw_bytes());
    let mut identifier = [0; 20];
    for (to, from) in identifier.iter_mut().zip(hash) {
        *to = from;
    }
    identifier
}
