//! Signing keys of an issuer: the one that signs, those that are published, and their rotation.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use p256::elliptic_curve::Generate as _;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use rsa::pkcs8::{DecodePrivateKey as _, Document, EncodePublicKey as _, LineEnding};
use rsa::signature::{SignatureEncoding as _, Signer as _};
use rsa::traits::{PrivateKeyParts as _, PublicKeyParts as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const RSA_BITS: usize = 2048;
/// Keys to begin with; when they are used up, new ones are generated.
const RSA_PEMS: [&str; 3] =
    [include_str!("keys/rsa-1.pem"), include_str!("keys/rsa-2.pem"), include_str!("keys/rsa-3.pem")];
const P256_PEM: &str = include_str!("keys/p256-1.pem");

/// Algorithms an issuer can sign with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyAlgorithm {
    /// RSA 2048 with SHA-256, as GKE and EKS sign.
    #[default]
    RS256,
    /// P-256 with SHA-256.
    ES256,
}

/// How `kid`s look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KidStyle {
    /// base64url of SHA-256 of the public key: upstream Kubernetes and GKE.
    Hash,
    /// 40 hex digits: EKS.
    Hex,
}

/// Where new keys come from. The first ones are fixed, so that a restart publishes the same.
#[derive(Debug, Default)]
pub struct KeyMaker {
    rsa_used: usize,
    p256_used: usize,
}

impl KeyMaker {
    /// A key that was not handed out before.
    pub fn make(&mut self, algorithm: KeyAlgorithm, style: KidStyle) -> SigningKey {
        match algorithm {
            KeyAlgorithm::RS256 => {
                let fixed = RSA_PEMS.get(self.rsa_used);
                self.rsa_used += 1;
                let key = match fixed {
                    Some(pem) => rsa::PrivateKey::from_pkcs8_pem(pem).expect("a key file of this folder"),
                    None => rsa::PrivateKey::new(&mut rand::rng(), RSA_BITS).expect("2048 bits can be generated"),
                };
                SigningKey::rsa(key, style)
            }
            KeyAlgorithm::ES256 => {
                self.p256_used += 1;
                let key = if self.p256_used == 1 {
                    p256::SecretKey::from_pkcs8_pem(P256_PEM).expect("a key file of this folder")
                } else {
                    p256::SecretKey::generate_from_rng(&mut rand::rng())
                };
                SigningKey::p256(&key, style)
            }
        }
    }
}

/// A key pair with its `kid`.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// Key id.
    pub kid: String,
    /// What it signs.
    pub algorithm: KeyAlgorithm,
    pair: KeyPair,
    jwk: Value,
    public_pem: String,
    private_members: Value,
}

#[derive(Debug, Clone)]
enum KeyPair {
    Rsa(rsa::pkcs1v15::SigningKey<Sha256>),
    P256(p256::ecdsa::SigningKey),
}

impl SigningKey {
    fn rsa(key: rsa::PrivateKey, style: KidStyle) -> Self {
        let public = key.to_public_key();
        let member = |number: &rsa::BoxedUint| encode(&number.to_be_bytes_trimmed_vartime());
        let kid = kid(&public.to_public_key_der().expect("a valid key encodes"), style);
        Self {
            jwk: json!({
                "kty": "RSA", "alg": "RS256", "use": "sig", "kid": kid,
                "n": member(public.n()), "e": member(public.e()),
            }),
            private_members: json!({
                "d": member(key.d()), "p": member(&key.primes()[0]), "q": member(&key.primes()[1]),
            }),
            kid,
            algorithm: KeyAlgorithm::RS256,
            public_pem: public.to_public_key_pem(LineEnding::LF).expect("a valid key encodes"),
            pair: KeyPair::Rsa(rsa::pkcs1v15::SigningKey::new(key)),
        }
    }

    fn p256(key: &p256::SecretKey, style: KidStyle) -> Self {
        let public = key.public_key();
        let point = public.to_sec1_point(false);
        let kid = kid(&public.to_public_key_der().expect("a valid key encodes"), style);
        Self {
            jwk: json!({
                "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": kid,
                "x": point.x().map(|x| encode(x)), "y": point.y().map(|y| encode(y)),
            }),
            private_members: json!({"d": encode(&key.to_bytes())}),
            kid,
            algorithm: KeyAlgorithm::ES256,
            public_pem: public.to_public_key_pem(LineEnding::LF).expect("a valid key encodes"),
            pair: KeyPair::P256(key.into()),
        }
    }

    /// JWS signature over `input`, base64url.
    pub fn sign(&self, input: &[u8]) -> String {
        match &self.pair {
            KeyPair::Rsa(key) => encode(&key.sign(input).to_bytes()),
            KeyPair::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(input);
                encode(&signature.to_bytes())
            }
        }
    }

    /// The attack of RFC 8725, 2.1: an HMAC whose key is the text of our public key.
    pub fn hmac_with_public_key(&self, input: &[u8]) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.public_pem.as_bytes());
        let mac = mac.expect("HMAC takes a key of any length").chain_update(input);
        encode(&mac.finalize().into_bytes())
    }

    /// The public key as published.
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// The members of the JWK that must never be published.
    pub fn private_members(&self) -> &Value {
        &self.private_members
    }
}

fn encode(octets: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

fn kid(spki: &Document, style: KidStyle) -> String {
    let hash = Sha256::digest(spki.as_bytes());
    match style {
        KidStyle::Hash => URL_SAFE_NO_PAD.encode(hash),
        KidStyle::Hex => base16ct::lower::encode_string(&hash[..20]),
    }
}

/// How keys change: `{"keep_previous":true}` publishes the old key beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// What the new key signs.
    #[serde(default)]
    pub algorithm: KeyAlgorithm,
    /// Whether older keys stay published.
    #[serde(default = "yes")]
    pub keep_previous: bool,
    /// Whether the new key signs from now on; false publishes it ahead.
    #[serde(default = "yes")]
    pub sign_with_new: bool,
}

fn yes() -> bool {
    true
}

impl Default for Rotation {
    fn default() -> Self {
        Self { algorithm: KeyAlgorithm::RS256, keep_previous: true, sign_with_new: true }
    }
}

/// The keys of one issuer, oldest first. Dropped keys still sign when asked for by `kid`.
#[derive(Debug)]
pub struct KeyRing {
    keys: Vec<SigningKey>,
    published: Vec<String>,
    signer: String,
    style: KidStyle,
}

impl KeyRing {
    /// A ring with one key, published and signing.
    pub fn new(maker: &mut KeyMaker, algorithm: KeyAlgorithm, style: KidStyle) -> Self {
        let key = maker.make(algorithm, style);
        Self { published: vec![key.kid.clone()], signer: key.kid.clone(), keys: vec![key], style }
    }

    /// Rotates; answers the new `kid`.
    pub fn rotate(&mut self, maker: &mut KeyMaker, rotation: Rotation) -> String {
        let key = maker.make(rotation.algorithm, self.style);
        let kid = key.kid.clone();
        if !rotation.keep_previous {
            self.published.clear();
        }
        if rotation.sign_with_new {
            self.signer.clone_from(&kid);
        }
        self.published.push(kid.clone());
        self.keys.push(key);
        kid
    }

    /// Takes a key out of the published set; false when it is not in it.
    pub fn drop_key(&mut self, kid: &str) -> bool {
        let before = self.published.len();
        self.published.retain(|published| published != kid);
        self.published.len() < before
    }

    /// The key that signs.
    pub fn signer(&self) -> &SigningKey {
        self.key(&self.signer).expect("the signer is one of the keys")
    }

    /// A key by `kid`, published or not.
    pub fn key(&self, kid: &str) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.kid == kid)
    }

    /// The keys that are published, oldest first.
    pub fn published(&self) -> impl Iterator<Item = &SigningKey> {
        self.keys.iter().filter(|key| self.published.contains(&key.kid))
    }
}
