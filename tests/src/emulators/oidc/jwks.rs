//! The published key set, and the shapes in which it can be wrong.

use serde_json::{Value, json};

use super::keys::{KeyRing, SigningKey};
use crate::emulators::fault::JwksShape;

const MANY: usize = 5_000;

/// The key set of a ring in the given shape, in the right one when `None`.
pub fn document(ring: &KeyRing, stranger: &SigningKey, shape: Option<JwksShape>) -> Value {
    let good: Vec<Value> = ring.published().map(SigningKey::jwk).cloned().collect();
    let keys = match shape {
        None => good,
        Some(JwksShape::ManyKeys) => {
            let others = (0..MANY).map(|number| with(stranger.jwk(), "kid", json!(format!("other-{number}"))));
            others.chain(good).collect()
        }
        Some(JwksShape::UnknownKty) => {
            let unknown = json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "post-quantum", "pub": "AAAA", "use": "sig"});
            std::iter::once(unknown).chain(good).collect()
        }
        Some(JwksShape::DuplicateKids) => {
            good.iter().flat_map(|key| [with(stranger.jwk(), "kid", key["kid"].clone()), key.clone()]).collect()
        }
        Some(JwksShape::NoAlg) => good.iter().map(|key| without(key, "alg")).collect(),
        Some(JwksShape::NoKid) => good.iter().map(|key| without(key, "kid")).collect(),
        Some(JwksShape::MalformedBase64) => {
            let bad = malformed(&with(stranger.jwk(), "kid", json!("malformed")));
            std::iter::once(bad).chain(good).collect()
        }
        Some(JwksShape::AllMalformed) => good.iter().map(malformed).collect(),
        Some(JwksShape::PrivateMembers) => ring
            .published()
            .map(|key| {
                let mut jwk = key.jwk().clone();
                json_patch::merge(&mut jwk, key.private_members());
                jwk
            })
            .collect(),
        Some(JwksShape::Empty) => Vec::new(),
        Some(JwksShape::Null) => return json!({"keys": null}),
        Some(JwksShape::NotAKeySet) => return json!({"error": "unavailable"}),
    };
    json!({"keys": keys})
}

fn with(key: &Value, member: &str, value: Value) -> Value {
    let mut key = key.clone();
    key[member] = value;
    key
}

fn without(key: &Value, member: &str) -> Value {
    let mut key = key.clone();
    if let Some(members) = key.as_object_mut() {
        members.remove(member);
    }
    key
}

/// The key with `n` (or `x`) that no base64url decoder takes.
fn malformed(key: &Value) -> Value {
    let member = if key["kty"] == "RSA" { "n" } else { "x" };
    let text = key[member].as_str().unwrap_or_default();
    with(key, member, json!(format!("{text}+/=*")))
}
