//! Projected service account tokens as the API server of a cluster makes them, and what can be
//! wrong with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::keys::{KeyRing, SigningKey};

/// The name space of the uids made from names, so that the same pod has the same uid again.
const UIDS: Uuid = Uuid::from_u128(0x5b0c_1f6e_8f0a_4c8e_9a53_9be1_6f6d_2f11);
const RS256_OCTETS: usize = 256;
const ES256_OCTETS: usize = 64;

/// What a token says and how it is signed. JSON `{}` is a good token for audience `edge.example.com`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenOptions {
    /// `iss`; the emulator's first issuer when absent.
    pub issuer: Option<String>,
    /// `aud`.
    pub audience: Vec<String>,
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub service_account: String,
    /// Name of the pod; its uid is made from it and the namespace unless `pod_uid` is given.
    pub pod: String,
    /// Uid of the pod.
    pub pod_uid: Option<String>,
    /// Name of the node.
    pub node: String,
    /// `exp − iat` in seconds.
    pub lifetime: i64,
    /// `iat` and `nbf`, Unix seconds; the emulator's now when absent.
    pub issued_at: Option<i64>,
    /// `jti`; random when absent.
    pub jti: Option<String>,
    /// Adds `kubernetes.io.warnafter`, as tokens with extended life have it.
    pub warn_after: bool,
    /// The claims of a legacy secret-based token instead of a projected one.
    pub legacy: bool,
    /// JSON merge patch (RFC 7396) on the claims: `null` removes.
    pub claims: Value,
    /// JSON merge patch on the JOSE header.
    pub header: Value,
    /// `kid` of the key to sign with, also one that is no longer published; the signing key when absent.
    pub sign_with: Option<String>,
    /// How it is signed.
    pub signature: SignatureKind,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: vec!["edge.example.com".to_owned()],
            namespace: "rootpilot".to_owned(),
            service_account: "runner".to_owned(),
            pod: "runner-674f595ff9-q6w4q".to_owned(),
            pod_uid: None,
            node: "node-1".to_owned(),
            lifetime: 3_600,
            issued_at: None,
            jti: None,
            warn_after: false,
            legacy: false,
            claims: json!({}),
            header: json!({}),
            sign_with: None,
            signature: SignatureKind::Good,
        }
    }
}

/// How a token is signed. The header says the same in every case, unless it is patched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureKind {
    /// By the key that `kid` names.
    #[default]
    Good,
    /// By a key no issuer publishes.
    Stranger,
    /// Good, then one bit is flipped.
    Flipped,
    /// Good, over other claims.
    OtherClaims,
    /// No octets.
    Empty,
    /// All octets zero.
    Zero,
    /// HMAC-SHA-256 with the public key's PEM text as the secret.
    HmacWithPublicKey,
}

/// A token that cannot be minted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// `sign_with` names no key of the issuer.
    #[error("no key {0}")]
    UnknownKey(String),
}

/// Mints a compact JWS.
pub fn mint(
    options: &TokenOptions,
    issuer: &str,
    ring: &KeyRing,
    stranger: &SigningKey,
    now: i64,
) -> Result<String, MintError> {
    let key = match &options.sign_with {
        Some(kid) => ring.key(kid).ok_or_else(|| MintError::UnknownKey(kid.clone()))?,
        None => ring.signer(),
    };
    let mut header = json!({"alg": key.algorithm, "kid": key.kid});
    json_patch::merge(&mut header, &options.header);
    let mut claims =
        if options.legacy { legacy_claims(options, issuer) } else { projected_claims(options, issuer, now) };
    json_patch::merge(&mut claims, &options.claims);
    let input = signing_input(&header, &claims);
    let signature = sign(options.signature, key, stranger, &input);
    Ok(format!("{input}.{signature}"))
}

fn signing_input(header: &Value, claims: &Value) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn sign(kind: SignatureKind, key: &SigningKey, stranger: &SigningKey, input: &str) -> String {
    let input = input.as_bytes();
    match kind {
        SignatureKind::Good => key.sign(input),
        SignatureKind::Stranger => stranger.sign(input),
        SignatureKind::Flipped => {
            let mut octets = URL_SAFE_NO_PAD.decode(key.sign(input)).expect("we encoded it");
            octets[0] ^= 1;
            URL_SAFE_NO_PAD.encode(octets)
        }
        SignatureKind::OtherClaims => key.sign(b"e30.e30"),
        SignatureKind::Empty => String::new(),
        SignatureKind::Zero => URL_SAFE_NO_PAD.encode(vec![
            0;
            match key.algorithm {
                super::keys::KeyAlgorithm::RS256 => RS256_OCTETS,
                super::keys::KeyAlgorithm::ES256 => ES256_OCTETS,
            }
        ]),
        SignatureKind::HmacWithPublicKey => key.hmac_with_public_key(input),
    }
}

fn uid(kind: &str, name: &str) -> String {
    Uuid::new_v5(&UIDS, format!("{kind}/{name}").as_bytes()).to_string()
}

/// The claims of a token of the `TokenRequest` API, bound to a pod.
fn projected_claims(options: &TokenOptions, issuer: &str, now: i64) -> Value {
    let issued_at = options.issued_at.unwrap_or(now);
    let namespace = &options.namespace;
    let account = &options.service_account;
    let mut kubernetes = json!({
        "namespace": namespace,
        "node": {"name": options.node, "uid": uid("node", &options.node)},
        "pod": {
            "name": options.pod,
            "uid": options.pod_uid.clone().unwrap_or_else(|| uid("pod", &format!("{namespace}/{}", options.pod))),
        },
        "serviceaccount": {
            "name": account,
            "uid": uid("serviceaccount", &format!("{namespace}/{account}")),
        },
    });
    if options.warn_after {
        kubernetes["warnafter"] = json!(issued_at + 3_607);
    }
    json!({
        "aud": options.audience,
        "exp": issued_at + options.lifetime,
        "iat": issued_at,
        "iss": issuer,
        "jti": options.jti.clone().unwrap_or_else(|| Uuid::new_v4().to_string()),
        "kubernetes.io": kubernetes,
        "nbf": issued_at,
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}

/// The claims of a token out of a service account secret: no audience, no end, no pod.
fn legacy_claims(options: &TokenOptions, _issuer: &str) -> Value {
    let namespace = &options.namespace;
    let account = &options.service_account;
    json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": format!("{account}-token-x7k2p"),
        "kubernetes.io/serviceaccount/service-account.name": account,
        "kubernetes.io/serviceaccount/service-account.uid": uid("serviceaccount", &format!("{namespace}/{account}")),
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}
