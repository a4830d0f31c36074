//! JWK sets (CHECKS K4, K8): what is kept can verify and nothing else, one bad key never spoils the set, and a key's id only selects.

use serde_json::{Map, Value, json};
use verifier::jose::JwkSet;
use verifier::jose::jwk::{MAX_KEYS, MAX_TRIED};
use verifier::keys::{KeyMaterial, PublicKey, SignatureAlgorithm};

/// One answer of a JWKS host.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(set) = JwkSet::parse(input) else { return false };
    assert!((1..=MAX_KEYS).contains(&set.keys().len()));
    for key in set.keys() {
        let again = match key.key().material() {
            KeyMaterial::Rsa { modulus } => PublicKey::rsa(modulus, &[1, 0, 1]),
            KeyMaterial::P256(point) => PublicKey::p256(point),
            other => panic!("{other:?}"),
        };
        assert_eq!(again.as_ref(), Ok(key.key()));
        assert!(set.has(key.kid()) || key.kid().is_none());
        for algorithm in [SignatureAlgorithm::Rs256, SignatureAlgorithm::Es256] {
            let tried: Vec<&PublicKey> = set.candidates(key.kid(), algorithm).collect();
            assert!(tried.len() <= MAX_TRIED);
            assert!(tried.iter().all(|key| key.algorithm() == algorithm));
            assert_eq!(set.check(key.kid(), algorithm).is_ok(), !tried.is_empty());
        }
    }
    // CHECKS K4: without a `kid` only a single key is tried; an id is equal or it is not.
    assert_eq!(set.has(None), set.keys().len() == 1);
    assert!(!set.has(Some("an id that no set of the corpus has")));
    with_a_bad_key_more(input, &set);
    true
}

/// Adds keys that are none; makes every key of the set private; and compares.
fn with_a_bad_key_more(input: &[u8], set: &JwkSet) {
    let mut document: Map<String, Value> = serde_json::from_slice(input).unwrap();
    let Some(Value::Array(keys)) = document.get_mut("keys") else { panic!("no keys") };
    if duplicates_are_lost(input, set, &json!({ "keys": keys })) {
        return;
    }
    if keys.len() < MAX_KEYS {
        for bad in [
            json!({"kty": "AKP", "alg": "ML-DSA-65"}),
            json!(5),
            json!({"kty": "oct", "k": "AA"}),
            json!({"kty": "RSA"}),
        ] {
            let more = [[bad].as_slice(), keys].concat();
            let more = json!({ "keys": more }).to_string();
            assert_eq!(JwkSet::parse(more.as_bytes()).as_ref(), Ok(set), "{more}");
        }
    }
    for private in ["d", "p", "k"] {
        let mut keys = keys.clone();
        keys.iter_mut().filter_map(Value::as_object_mut).for_each(|key| {
            key.insert(private.to_owned(), json!("AA"));
        });
        assert!(JwkSet::parse(json!({ "keys": keys }).to_string().as_bytes()).is_err());
    }
}

/// The other reader keeps the last of equal members, so that its copy of such a set is another set.
fn duplicates_are_lost(input: &[u8], set: &JwkSet, copy: &Value) -> bool {
    input.is_empty() || JwkSet::parse(copy.to_string().as_bytes()).as_ref() != Ok(set)
}
