//! Two signature back ends, one answer: Project Wycheproof's vectors and the token vectors, in wasm, by WebCrypto and by Rust code.
#![cfg(target_arch = "wasm32")]

use verifier::ports::SignatureVerifier;
use verifier::rust_crypto::RustCrypto;
use verifier::suites::{self, Report, oidc};
use verifier_wasm::platform::webcrypto::WebCrypto;
use wasm_bindgen_test::wasm_bindgen_test;

/// Both answered every vector as it must be, and alike where it may be either.
fn agree(web: &Report, rust: &Report, asked: usize) {
    assert_eq!(web.wrong, [""; 0], "WebCrypto");
    assert_eq!(rust.wrong, [""; 0], "Rust");
    assert_eq!(web, rust);
    assert_eq!(web.asked, asked);
}

#[wasm_bindgen_test]
async fn rsa_pkcs1() {
    let (web, rust) = (suites::rsa_pkcs1(&WebCrypto).await.unwrap(), suites::rsa_pkcs1(&RustCrypto).await.unwrap());
    agree(&web, &rust, 2325);
}

#[wasm_bindgen_test]
async fn ecdsa_p1363() {
    let (web, rust) = (suites::ecdsa_p1363(&WebCrypto).await.unwrap(), suites::ecdsa_p1363(&RustCrypto).await.unwrap());
    agree(&web, &rust, 542);
}

#[wasm_bindgen_test]
async fn ecdsa_der() {
    let (web, rust) = (suites::ecdsa_der(&WebCrypto).await.unwrap(), suites::ecdsa_der(&RustCrypto).await.unwrap());
    agree(&web, &rust, 988);
}

#[wasm_bindgen_test]
async fn ed25519() {
    let (web, rust) = (suites::ed25519(&WebCrypto).await.unwrap(), suites::ed25519(&RustCrypto).await.unwrap());
    agree(&web, &rust, 151);
}

macro_rules! vector_files {
    ($($name:literal)+) => {
        fn vector_file(name: &str) -> Option<Vec<u8>> {
            match name {
                $($name => Some(include_bytes!(concat!("../../tests/vectors/oidc-tokens/", $name)).to_vec()),)+
                _ => None,
            }
        }
    };
}

vector_files! {
    "eks_keys.json" "gke_jwks.json" "jwks_es256_mixed.json" "jwks_no_alg_no_use.json" "jwks_no_kid.json" "jwks_padded_b64.json"
    "jwks_unknown_kty_akp.json" "jwks_use_enc_same_kid.json"
}

/// Every outcome in full: identity and use, or refusal.
async fn outcomes(backend: &impl SignatureVerifier) -> Vec<String> {
    let index = include_str!("../../tests/vectors/oidc-tokens/index.json");
    let outcomes = oidc::run(backend, index, vector_file).await.unwrap();
    let faults: Vec<String> = outcomes.iter().filter_map(oidc::Outcome::fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    outcomes.iter().map(|outcome| format!("{}: {:?}", outcome.case.id, outcome.result)).collect()
}

#[wasm_bindgen_test]
async fn token_vectors() {
    let (web, rust) = (outcomes(&WebCrypto).await, outcomes(&RustCrypto).await);
    assert_eq!(web, rust);
    assert!(web.len() >= 55);
}
