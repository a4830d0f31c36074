//! Signatures by WebCrypto: twelve times faster than Rust code in wasm (docs/performance.md).
//!
//! Keys arrive checked ([`PublicKey`]), are imported once and stay with the key they were made of. WebCrypto pairs any curve with any hash,
//! so the pairing is decided here from the algorithm, which the verifier derived from the key.

use js_sys::{Array, Uint8Array};
use verifier::keys::{KeyMaterial, PublicKey, SignatureAlgorithm};
use verifier::ports::{BackendError, Entropy, IssuingKey, SignatureVerifier};
use wasm_bindgen::JsValue;

use super::js;

mod binding {
    use js_sys::{Array, Uint8Array};
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = importKey, catch)]
        pub async fn import_key(
            format: &str,
            data: &JsValue,
            algorithm: &JsValue,
            extractable: bool,
            usages: &Array,
        ) -> Result<JsValue, JsValue>;

        #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = verify, catch)]
        pub async fn verify(
            algorithm: &JsValue,
            key: &JsValue,
            signature: &[u8],
            message: &[u8],
        ) -> Result<JsValue, JsValue>;

        #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = sign, catch)]
        pub async fn sign(algorithm: &JsValue, key: &JsValue, message: &[u8]) -> Result<JsValue, JsValue>;

        #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues, catch)]
        pub fn get_random_values(buffer: &Uint8Array) -> Result<JsValue, JsValue>;

        #[wasm_bindgen(js_namespace = crypto, js_name = randomUUID)]
        pub fn random_uuid() -> String;
    }
}

/// A fresh `x-request-id`.
pub fn request_id() -> String {
    binding::random_uuid()
}

/// WebCrypto as signature back end.
#[derive(Debug, Clone, Copy, Default)]
pub struct WebCrypto;

/// A key inside WebCrypto, not extractable, and what it is used with.
#[derive(Debug, Clone)]
struct Imported {
    key: JsValue,
    parameters: JsValue,
}

/// What stays with a public key: its import for one algorithm.
#[derive(Debug, Clone)]
struct Kept(SignatureAlgorithm, Imported);

fn backend(error: &JsValue) -> BackendError {
    BackendError(js::describe(error))
}

fn usages(usage: &str) -> Array {
    Array::of1(&JsValue::from_str(usage))
}

/// The parameters of `algorithm` for importKey and for verify: WebCrypto takes one object for both.
fn parameters(algorithm: SignatureAlgorithm) -> JsValue {
    let (name, hash, curve) = match algorithm {
        SignatureAlgorithm::Rs256 => ("RSASSA-PKCS1-v1_5", Some("SHA-256"), None),
        SignatureAlgorithm::Rs384 => ("RSASSA-PKCS1-v1_5", Some("SHA-384"), None),
        SignatureAlgorithm::Rs512 => ("RSASSA-PKCS1-v1_5", Some("SHA-512"), None),
        SignatureAlgorithm::Es256 => ("ECDSA", Some("SHA-256"), Some("P-256")),
        SignatureAlgorithm::Es384 => ("ECDSA", Some("SHA-384"), Some("P-384")),
        SignatureAlgorithm::EdDsa => ("Ed25519", None, None),
    };
    let mut entries = vec![("name", JsValue::from_str(name))];
    entries.extend(hash.map(|hash| ("hash", JsValue::from_str(hash))));
    entries.extend(curve.map(|curve| ("namedCurve", JsValue::from_str(curve))));
    js::object(&entries)
}

async fn import(key: &PublicKey, algorithm: SignatureAlgorithm) -> Result<Imported, BackendError> {
    let (parameters, verify) = (parameters(algorithm), usages("verify"));
    let imported = match key.material() {
        KeyMaterial::Rsa { modulus } => {
            let jwk = js::object(&[
                ("kty", JsValue::from_str("RSA")),
                ("n", JsValue::from_str(&verifier::encoding::b64url(modulus))),
                ("e", JsValue::from_str("AQAB")),
            ]);
            binding::import_key("jwk", &jwk, &parameters, false, &verify).await
        }
        KeyMaterial::P256(point) => {
            binding::import_key("raw", &Uint8Array::from(point.as_slice()), &parameters, false, &verify).await
        }
        KeyMaterial::P384(point) => {
            binding::import_key("raw", &Uint8Array::from(point.as_slice()), &parameters, false, &verify).await
        }
        KeyMaterial::Ed25519(key) => {
            binding::import_key("raw", &Uint8Array::from(key.as_slice()), &parameters, false, &verify).await
        }
    };
    imported.map(|key| Imported { key, parameters }).map_err(|error| backend(&error))
}

impl SignatureVerifier for WebCrypto {
    async fn verify(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError> {
        let made;
        let imported = match key.kept::<Kept>() {
            Some(Kept(of, imported)) if *of == algorithm => imported,
            _ => {
                made = import(key, algorithm).await?;
                key.keep(Kept(algorithm, made.clone()));
                &made
            }
        };
        // WebCrypto takes its copies before it returns the promise, so both may lie in wasm's memory.
        binding::verify(&imported.parameters, &imported.key, signature, message)
            .await
            .map(|valid| valid.is_truthy())
            .map_err(|error| backend(&error))
    }
}

/// The issuing CA's private key.
#[derive(Debug, Clone)]
pub struct SigningKey(Imported);

impl SigningKey {
    /// From PKCS#8 DER of a P-256 key.
    pub async fn import(pkcs8: &[u8]) -> Result<Self, BackendError> {
        let parameters = parameters(SignatureAlgorithm::Es256);
        binding::import_key("pkcs8", &Uint8Array::from(pkcs8), &parameters, false, &usages("sign"))
            .await
            .map(|key| Self(Imported { key, parameters }))
            .map_err(|error| backend(&error))
    }
}

impl IssuingKey for SigningKey {
    async fn sign(&self, message: &[u8]) -> Result<[u8; 64], BackendError> {
        let Self(Imported { key, parameters }) = self;
        let signature = binding::sign(parameters, key, message).await.map_err(|error| backend(&error))?;
        Uint8Array::new(&signature)
            .to_vec()
            .try_into()
            .map_err(|_| BackendError("signature of an unexpected length".to_owned()))
    }
}

/// `crypto.getRandomValues`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformEntropy;

impl Entropy for PlatformEntropy {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        let length = u32::try_from(buffer.len()).map_err(|_| BackendError("buffer too long".to_owned()))?;
        let random = Uint8Array::new_with_length(length);
        binding::get_random_values(&random).map_err(|error| backend(&error))?;
        random.copy_to(buffer);
        Ok(())
    }
}
