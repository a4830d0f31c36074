//! What a CSR and a certificate have in common: content, algorithm, signature (RFC 2986 section 4.2, RFC 5280 section 4.1.1).
//!
//! The content is kept as the octets that were signed. Signatures of ECDSA are DER here and r‖s at the border to the back ends.

use der::asn1::{AnyRef, BitStringRef, UintRef};
use der::oid::db::{rfc5912, rfc8410};
use der::{Decode, Encode, Sequence};
use x509_cert::spki::{AlgorithmIdentifierOwned, AlgorithmIdentifierRef};

use crate::keys::{KeyMaterial, PublicKey, SignatureAlgorithm};
use crate::ports::{BackendError, SignatureVerifier};

/// The outer shell of a CSR or certificate.
#[derive(Debug, Clone, Copy, Sequence)]
pub(crate) struct Signed<'a> {
    pub content: AnyRef<'a>,
    pub algorithm: AlgorithmIdentifierRef<'a>,
    pub signature: BitStringRef<'a>,
}

#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

impl Signed<'_> {
    /// The octets that were signed: DER has one form only, so they are those that were received.
    pub fn message(&self) -> der::Result<Vec<u8>> {
        self.content.to_der()
    }

    /// Whether `key` made the signature. An algorithm that does not fit the key, or a signature of the wrong shape, is `false`.
    pub async fn is_by(&self, key: &PublicKey, verifier: &impl SignatureVerifier) -> Result<bool, BackendError> {
        let (Some(algorithm), Ok(message)) = (algorithm_for(&self.algorithm, key), self.message()) else {
            return Ok(false);
        };
        let Some(bytes) = self.signature.as_bytes() else { return Ok(false) };
        let signature = match key.material() {
            KeyMaterial::P256(_) => ecdsa_from_der::<32>(bytes),
            KeyMaterial::P384(_) => ecdsa_from_der::<48>(bytes),
            KeyMaterial::Rsa { .. } | KeyMaterial::Ed25519(_) => Some(bytes.to_vec()),
        };
        match signature {
            Some(signature) => verifier.verify(key, algorithm, &message, &signature).await,
            None => Ok(false),
        }
    }
}

/// The algorithm named by `identifier`, when it is one that fits `key` (CHECKS I1). Parameters: absent for ECDSA and Ed25519
/// (RFC 5758 section 3.2, RFC 8410 section 3), NULL or absent for RSA (RFC 4055 section 5).
fn algorithm_for(identifier: &AlgorithmIdentifierRef<'_>, key: &PublicKey) -> Option<SignatureAlgorithm> {
    let absent = identifier.parameters.is_none();
    let null = identifier.parameters.is_none_or(AnyRef::is_null);
    match (key.material(), identifier.oid) {
        (KeyMaterial::P256(_), rfc5912::ECDSA_WITH_SHA_256) if absent => Some(SignatureAlgorithm::Es256),
        (KeyMaterial::P384(_), rfc5912::ECDSA_WITH_SHA_384) if absent => Some(SignatureAlgorithm::Es384),
        (KeyMaterial::Ed25519(_), rfc8410::ID_ED_25519) if absent => Some(SignatureAlgorithm::EdDsa),
        (KeyMaterial::Rsa { .. }, rfc5912::SHA_256_WITH_RSA_ENCRYPTION) if null => Some(SignatureAlgorithm::Rs256),
        (KeyMaterial::Rsa { .. }, rfc5912::SHA_384_WITH_RSA_ENCRYPTION) if null => Some(SignatureAlgorithm::Rs384),
        (KeyMaterial::Rsa { .. }, rfc5912::SHA_512_WITH_RSA_ENCRYPTION) if null => Some(SignatureAlgorithm::Rs512),
        _ => None,
    }
}

/// The one algorithm that our own CA signs with.
pub(crate) const fn ecdsa_with_sha256() -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned { oid: rfc5912::ECDSA_WITH_SHA_256, parameters: None }
}

/// `SEQUENCE { r, s }` to r‖s of `N` octets each. Strict DER: negative or padded integers and trailing octets are `None`.
pub(crate) fn ecdsa_from_der<const N: usize>(der: &[u8]) -> Option<Vec<u8>> {
    let signature = EcdsaSignature::from_der(der).ok()?;
    let mut raw = Vec::with_capacity(N.saturating_mul(2));
    for integer in [signature.r, signature.s] {
        let bytes = integer.as_bytes();
        raw.resize(raw.len().saturating_add(N.checked_sub(bytes.len())?), 0);
        raw.extend_from_slice(bytes);
    }
    Some(raw)
}

/// r‖s of P-256 to `SEQUENCE { r, s }`.
pub(crate) fn ecdsa_to_der(raw: &[u8; 64]) -> der::Result<Vec<u8>> {
    let (r, s) = raw.split_at(32);
    EcdsaSignature { r: UintRef::new(r)?, s: UintRef::new(s)? }.to_der()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecdsa_forms() {
        let mut raw = [0; 64];
        raw[31] = 0x80;
        raw[63] = 1;
        let der = ecdsa_to_der(&raw).unwrap();
        assert_eq!(der, [0x30, 7, 2, 2, 0, 0x80, 2, 1, 1]);
        assert_eq!(ecdsa_from_der::<32>(&der), Some(raw.to_vec()));
        let too_long = [&[0x30, 38, 2, 33][..], &[0x7f; 33], &[2, 1, 1]].concat();
        for bad in [
            &[][..],
            &raw,
            &[0x30, 7, 2, 2, 0, 0x80, 2, 1, 1, 0],
            &[0x30, 8, 2, 2, 0, 0x80, 2, 1, 1, 0],
            &[0x30, 6, 2, 1, 0x80, 2, 1, 1],
            &[0x30, 7, 2, 2, 0, 0x7f, 2, 1, 1],
            &[0x30, 0x81, 7, 2, 2, 0, 0x80, 2, 1, 1],
            &[0x30, 4, 2, 2, 0, 0x80],
            &too_long,
        ] {
            assert_eq!(ecdsa_from_der::<32>(bad), None, "{bad:02x?}");
        }
    }
}
