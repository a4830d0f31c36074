//! Native signature back end: `jsonwebtoken`'s RustCrypto verifiers, `p256` for the issuing key, the system's randomness.
//!
//! For tests, tools and anything that runs outside of the edge. It builds for wasm too, where a test holds it and WebCrypto to the same
//! answers ([`crate::suites`]). Keys are checked before they come here ([`PublicKey`]).

use jsonwebtoken::{Algorithm, DecodingKey};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey as _;

use crate::encoding::b64url;
use crate::keys::{KeyMaterial, PublicKey, SignatureAlgorithm};
use crate::ports::{BackendError, Entropy, IssuingKey, SignatureVerifier};

/// The back end; it has no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct RustCrypto;

impl RustCrypto {
    /// [`SignatureVerifier::verify`] without a future: this back end never waits.
    pub fn verify_now(
        self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError> {
        let algorithm = match algorithm {
            SignatureAlgorithm::Rs256 => Algorithm::RS256,
            SignatureAlgorithm::Rs384 => Algorithm::RS384,
            SignatureAlgorithm::Rs512 => Algorithm::RS512,
            SignatureAlgorithm::Es256 => Algorithm::ES256,
            SignatureAlgorithm::Es384 => Algorithm::ES384,
            SignatureAlgorithm::EdDsa => Algorithm::EdDSA,
        };
        let key = match key.material() {
            KeyMaterial::Rsa { modulus } => DecodingKey::from_rsa_raw_components(modulus, &[1, 0, 1]),
            KeyMaterial::P256(point) => DecodingKey::from_ec_der(point),
            KeyMaterial::P384(point) => DecodingKey::from_ec_der(point),
            KeyMaterial::Ed25519(key) => DecodingKey::from_ed_der(key),
        };
        jsonwebtoken::crypto::verify(&b64url(signature), message, &key, algorithm)
            .map_err(|error| BackendError(error.to_string()))
    }
}

impl SignatureVerifier for RustCrypto {
    async fn verify(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError> {
        self.verify_now(key, algorithm, message, signature)
    }
}

impl Entropy for RustCrypto {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        getrandom::fill(buffer).map_err(|error| BackendError(error.to_string()))
    }
}

/// The issuing CA's key in memory. Signatures are deterministic (RFC 6979).
#[derive(Clone)]
pub struct RustIssuingKey(SigningKey);

impl RustIssuingKey {
    /// From PKCS#8 PEM, P-256.
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, BackendError> {
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|error| BackendError(error.to_string()))
    }

    /// From the scalar, big-endian.
    pub fn from_scalar(scalar: &[u8; 32]) -> Result<Self, BackendError> {
        SigningKey::from_slice(scalar).map(Self).map_err(|error| BackendError(error.to_string()))
    }

    /// A new key.
    pub fn generate(entropy: &impl Entropy) -> Result<Self, BackendError> {
        let mut scalar = [0; 32];
        // All but 2^-32 of the scalars are valid.
        for _ in 0..4 {
            entropy.fill(&mut scalar)?;
            if let Ok(key) = Self::from_scalar(&scalar) {
                return Ok(key);
            }
        }
        Err(BackendError("no valid scalar".to_owned()))
    }

    /// Its public key.
    pub fn public_key(&self) -> Result<PublicKey, BackendError> {
        PublicKey::p256(self.0.verifying_key().to_sec1_point(false).as_bytes())
            .map_err(|error| BackendError(error.to_string()))
    }
}

impl std::fmt::Debug for RustIssuingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RustIssuingKey(…)")
    }
}

impl IssuingKey for RustIssuingKey {
    async fn sign(&self, message: &[u8]) -> Result<[u8; 64], BackendError> {
        let signature: Signature = self.0.try_sign(message).map_err(|error| BackendError(error.to_string()))?;
        Ok(signature.to_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::from_b64url;

    /// RFC 7515 appendix A.2 and A.3, RFC 8037 appendix A.4: the other side's signatures, under the right key and hash only.
    #[test]
    fn examples_of_the_rfcs() {
        let octets = |text: &str| from_b64url(text).unwrap();
        let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let rsa = PublicKey::rsa(
            &octets(
                "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
            ),
            &[1, 0, 1],
        )
        .unwrap();
        let message = format!("eyJhbGciOiJSUzI1NiJ9.{payload}");
        let signature = octets(
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        );
        let rs256 = |message: &str, signature: &[u8], algorithm| {
            RustCrypto.verify_now(&rsa, algorithm, message.as_bytes(), signature).unwrap()
        };
        assert!(rs256(&message, &signature, SignatureAlgorithm::Rs256));
        assert!(!rs256(&message, &signature, SignatureAlgorithm::Rs384));
        assert!(!rs256(&message, &signature[1..], SignatureAlgorithm::Rs256));
        assert!(!rs256(&message, &[], SignatureAlgorithm::Rs256));
        assert!(!rs256(&message[1..], &signature, SignatureAlgorithm::Rs256));

        let ec = PublicKey::p256(
            &[
                &[4][..],
                &octets("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
                &octets("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"),
            ]
            .concat(),
        )
        .unwrap();
        let message = format!("eyJhbGciOiJFUzI1NiJ9.{payload}");
        let signature =
            octets("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q");
        let es256 = |signature: &[u8]| {
            RustCrypto.verify_now(&ec, SignatureAlgorithm::Es256, message.as_bytes(), signature).unwrap()
        };
        assert!(es256(&signature));
        for bad in [&[0; 64][..], &[0; 63], &[], &signature[..63], &[&signature[..], &[0]].concat()] {
            assert!(!es256(bad));
        }

        let ed = PublicKey::ed25519(&octets("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")).unwrap();
        let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature =
            octets("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg");
        assert!(RustCrypto.verify_now(&ed, SignatureAlgorithm::EdDsa, message, &signature).unwrap());
        assert!(!RustCrypto.verify_now(&ed, SignatureAlgorithm::EdDsa, message, &signature[1..]).unwrap());
    }

    #[test]
    fn issuing_key_signs_what_its_public_key_verifies() {
        let key = RustIssuingKey::generate(&RustCrypto).unwrap();
        let signature = pollster::block_on(key.sign(b"message")).unwrap();
        let public = key.public_key().unwrap();
        assert!(RustCrypto.verify_now(&public, SignatureAlgorithm::Es256, b"message", &signature).unwrap());
        assert!(!RustCrypto.verify_now(&public, SignatureAlgorithm::Es256, b"massage", &signature).unwrap());
        assert_eq!(format!("{key:?}"), "RustIssuingKey(…)");
    }
}
