//! Signing keys of an issuer: the one that signs, those that are published, and their rotation.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use p256::elliptic_curve::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use rsa::traits::PrivateKeyParts as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const RSA_BITS: usize = 2048;
/// Keys to begin with; when they are used up, new ones are generated.
const RSA_PEMS: [&str; 3] = [
    include_str!("keys/rsa-1.pem"),
    include_str!("keys/rsa-2.pem"),
    include_str!("keys/rsa-3.pem"),
];
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
                    Some(pem) => {
                        rsa::PrivateKey::from_pkcs8_pem(pem).expect("a key file of this folder")
                    }
                    None => rsa::PrivateKey::new(&mut rand::rng(), RSA_BITS)
                        .expect("2048 bits can be generated"),
                };
                SigningKey::rsa(&key, style)
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
    encoding: EncodingKey,
    public_pem: String,
    private_members: Value,
}

impl SigningKey {
    fn rsa(key: &rsa::PrivateKey, style: KidStyle) -> Self {
        let public = key.to_public_key();
        let pkcs1 = key.to_pkcs1_der().expect("a valid key encodes");
        let member = |bytes: &[u8]| Value::from(URL_SAFE_NO_PAD.encode(bytes));
        let primes = key.primes();
        Self {
            kid: kid(
                public
                    .to_public_key_der()
                    .expect("a valid key encodes")
                    .as_bytes(),
                style,
            ),
            algorithm: KeyAlgorithm::RS256,
            encoding: EncodingKey::from_rsa_der(pkcs1.as_bytes()),
            public_pem: public
                .to_public_key_pem(LineEnding::LF)
                .expect("a valid key encodes"),
            private_members: json!({
                "d": member(&key.d().to_be_bytes_trimmed_vartime()),
                "p": member(&primes[0].to_be_bytes_trimmed_vartime()),
                "q": member(&primes[1].to_be_bytes_trimmed_vartime()),
            }),
        }
    }

    fn p256(key: &p256::SecretKey, style: KidStyle) -> Self {
        let public = key.public_key();
        let pkcs8 = key.to_pkcs8_der().expect("a valid key encodes");
        Self {
            kid: kid(
                public
                    .to_public_key_der()
                    .expect("a valid key encodes")
                    .as_bytes(),
                style,
            ),
            algorithm: KeyAlgorithm::ES256,
            encoding: EncodingKey::from_ec_der(pkcs8.as_bytes()),
            public_pem: public
                .to_public_key_pem(LineEnding::LF)
                .expect("a valid key encodes"),
            private_members: json!({"d": URL_SAFE_NO_PAD.encode(key.to_bytes())}),
        }
    }

    /// JWS signature over `input`, base64url.
    pub fn sign(&self, input: &[u8]) -> String {
        jsonwebtoken::crypto::sign(input, &self.encoding, self.jws_algorithm())
            .expect("a valid key signs")
    }

    /// The attack of RFC 8725, 2.1: an HMAC whose key is the text of our public key.
    pub fn hmac_with_public_key(&self, input: &[u8]) -> String {
        EncodingKey::from_secret(self.public_pem.as_bytes())
            .and_then(|key| jsonwebtoken::crypto::sign(input, &key, Algorithm::HS256))
            .expect("a PEM text is long enough for an HMAC key")
    }

    fn jws_algorithm(&self) -> Algorithm {
        match self.algorithm {
            KeyAlgorithm::RS256 => Algorithm::RS256,
            KeyAlgorithm::ES256 => Algorithm::ES256,
        }
    }

    /// The public key as published.
    pub fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.encoding, self.jws_algorithm())
            .expect("a valid key has a JWK");
        let mut jwk = serde_json::to_value(jwk).expect("a JWK is JSON");
        jwk["kid"] = Value::from(self.kid.as_str());
        jwk["use"] = Value::from("sig");
        jwk
    }

    /// The members of the JWK that must never be published.
    pub fn private_members(&self) -> &Value {
        &self.private_members
    }
}

fn kid(spki: &[u8], style: KidStyle) -> String {
    let hash = Sha256::digest(spki);
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
        Self {
            algorithm: KeyAlgorithm::RS256,
            keep_previous: true,
            sign_with_new: true,
        }
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
        Self {
            published: vec![key.kid.clone()],
            signer: key.kid.clone(),
            keys: vec![key],
            style,
        }
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
        self.key(&self.signer)
            .expect("the signer is one of the keys")
    }

    /// A key by `kid`, published or not.
    pub fn key(&self, kid: &str) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.kid == kid)
    }

    /// The keys that are published, oldest first.
    pub fn published(&self) -> impl Iterator<Item = &SigningKey> {
        self.keys
            .iter()
            .filter(|key| self.published.contains(&key.kid))
    }
}
