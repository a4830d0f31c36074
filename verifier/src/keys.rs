//! Public keys in the one form both signature back ends take, checked before either sees them.
//!
//! Accepted (CHECKS I1, K4): RSA of 2048 to 4096 bits with an odd modulus and e = 65537, points on P-256 and P-384, Ed25519.

use thiserror::Error;

/// RSA public exponent; no other is accepted.
pub const RSA_EXPONENT: u32 = 65_537;

/// A public key whose parameters have been checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicKey(Inner);

/// Checked parameters, for the back ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Inner {
    Rsa(Vec<u8>),
    P256([u8; 65]),
    P384([u8; 97]),
    Ed25519([u8; 32]),
}

/// View of a [`PublicKey`] for a signature back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMaterial<'a> {
    /// Modulus, big-endian without leading zeros; the exponent is [`RSA_EXPONENT`].
    Rsa {
        /// Modulus.
        modulus: &'a [u8],
    },
    /// Uncompressed SEC 1 point: 4, x, y.
    P256(&'a [u8; 65]),
    /// Uncompressed SEC 1 point: 4, x, y.
    P384(&'a [u8; 97]),
    /// RFC 8032 public key.
    Ed25519(&'a [u8; 32]),
}

/// Signature algorithms, each with one hash (RFC 7518, RFC 8037). ECDSA signatures are r‖s (P1363) at this border.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignatureAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384: CSRs only.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512: CSRs only.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// A key that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Modulus outside 2048 … 4096 bits.
    #[error("RSA modulus must have 2048 to 4096 bits")]
    RsaSize,
    /// Exponent other than 65537.
    #[error("RSA exponent must be 65537")]
    RsaExponent,
    /// Even modulus, or one with leading zeros.
    #[error("RSA modulus is not a valid one")]
    RsaModulus,
    /// Not an uncompressed point of the curve.
    #[error("EC point is not on its curve")]
    Point,
    /// Not 32 octets.
    #[error("Ed25519 key must have 32 octets")]
    Ed25519,
}

impl PublicKey {
    /// RSA from big-endian modulus and exponent without leading zeros.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let (Some(first), Some(last)) = (modulus.first(), modulus.last()) else { return Err(KeyError::RsaSize) };
        let bits = modulus.len().saturating_mul(8).saturating_sub(first.leading_zeros() as usize);
        if *first == 0 {
            return Err(KeyError::RsaModulus);
        }
        if !(2048..=4096).contains(&bits) {
            return Err(KeyError::RsaSize);
        }
        if last & 1 == 0 {
            return Err(KeyError::RsaModulus);
        }
        if exponent != [1, 0, 1] {
            return Err(KeyError::RsaExponent);
        }
        Ok(Self(Inner::Rsa(modulus.to_vec())))
    }

    /// P-256 from an uncompressed SEC 1 point.
    pub fn p256(point: &[u8]) -> Result<Self, KeyError> {
        let point: [u8; 65] = point.try_into().map_err(|_| KeyError::Point)?;
        match p256::PublicKey::from_sec1_bytes(&point) {
            Ok(_) if point.first() == Some(&4) => Ok(Self(Inner::P256(point))),
            _ => Err(KeyError::Point),
        }
    }

    /// P-384 from an uncompressed SEC 1 point.
    pub fn p384(point: &[u8]) -> Result<Self, KeyError> {
        let point: [u8; 97] = point.try_into().map_err(|_| KeyError::Point)?;
        match p384::PublicKey::from_sec1_bytes(&point) {
            Ok(_) if point.first() == Some(&4) => Ok(Self(Inner::P384(point))),
            _ => Err(KeyError::Point),
        }
    }

    /// Ed25519 from its 32 octets.
    pub fn ed25519(key: &[u8]) -> Result<Self, KeyError> {
        Ok(Self(Inner::Ed25519(key.try_into().map_err(|_| KeyError::Ed25519)?)))
    }

    /// The parameters, for a back end.
    pub fn material(&self) -> KeyMaterial<'_> {
        match &self.0 {
            Inner::Rsa(modulus) => KeyMaterial::Rsa { modulus },
            Inner::P256(point) => KeyMaterial::P256(point),
            Inner::P384(point) => KeyMaterial::P384(point),
            Inner::Ed25519(key) => KeyMaterial::Ed25519(key),
        }
    }

    /// The one algorithm of JWS, renewals and our CSRs for this kind of key.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        match &self.0 {
            Inner::Rsa(_) => SignatureAlgorithm::Rs256,
            Inner::P256(_) => SignatureAlgorithm::Es256,
            Inner::P384(_) => SignatureAlgorithm::Es384,
            Inner::Ed25519(_) => SignatureAlgorithm::EdDsa,
        }
    }
}
