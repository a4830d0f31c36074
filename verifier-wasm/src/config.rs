//! Secrets of the worker, read and checked once per isolate (PROTOCOL, Worker secrets).

use protocol::Code;
use verifier::Denial;
use verifier::issuance::IssuingCa;
use worker::Env;

use crate::platform::webcrypto::{SigningKey, WebCrypto};

/// Token hashes: enough for the admin and service routes.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// SHA-256 of each admin token.
    pub admin_tokens: Vec<[u8; 32]>,
    /// SHA-256 of each service token.
    pub service_tokens: Vec<[u8; 32]>,
}

/// The issuing CA and its key: enough to sign.
#[derive(Debug)]
pub struct Authority {
    /// Certificates, checked.
    pub ca: IssuingCa,
    /// Private key of the first certificate.
    pub key: SigningKey,
    /// CRL of the root, PEM.
    pub root_crl: String,
}

/// A secret's text; empty counts as absent.
fn secret(env: &Env, name: &str) -> Option<String> {
    env.secret(name).ok().map(|value| value.to_string()).filter(|value| !value.trim().is_empty())
}

/// One to four SHA-256 in hex, comma-separated.
fn hashes(text: &str) -> Option<Vec<[u8; 32]>> {
    let hashes: Option<Vec<[u8; 32]>> = text.split(',').map(|part| from_hex(part.trim())).collect();
    hashes.filter(|hashes| (1..=4).contains(&hashes.len()))
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let bytes: Vec<u8> = digits?
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0_u8, |byte, nibble| byte.wrapping_shl(4) | nibble))
        .collect();
    (text.len() == 64).then(|| bytes.try_into().ok()).flatten()
}

/// What is wrong with the secrets, each named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing(Vec<String>);

impl Missing {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one thing to the list.
    pub fn add(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    /// Adds everything of another list.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// The 503 that lists them.
    pub fn denial(&self) -> Denial {
        Denial {
            retry_after: Some(30),
            ..Denial::new(
                Code::NotConfigured,
                format!("the operator has not finished setting this verifier up: {}", self.0.join("; ")),
            )
        }
    }
}

impl Secrets {
    /// Token hashes; what is absent or malformed is listed, and admits nobody.
    pub fn load(env: &Env) -> (Self, Missing) {
        let mut missing = Missing::default();
        let mut read = |name: &str| match secret(env, name) {
            None => {
                missing.add(format!("secret {name} is missing"));
                Vec::new()
            }
            Some(text) => hashes(&text).unwrap_or_else(|| {
                missing.add(format!("secret {name} must be one to four SHA-256 in hex, comma-separated"));
                Vec::new()
            }),
        };
        let secrets = Self { admin_tokens: read("ADMIN_TOKEN_SHA256"), service_tokens: read("SERVICE_TOKEN_SHA256") };
        (secrets, missing)
    }
}

impl Authority {
    /// Imports the issuing CA, and proves that its key and certificate belong together.
    pub async fn load(env: &Env) -> Result<Self, Missing> {
        let mut missing = Missing::default();
        let mut read = |name: &str| {
            let value = secret(env, name);
            if value.is_none() {
                missing.add(format!("secret {name} is missing"));
            }
            value.unwrap_or_default()
        };
        let (key, certificate) = (read("CA_PRIVATE_KEY"), read("CA_CERTIFICATE"));
        let (roots, root_crl) = (read("CA_ROOTS"), read("CA_ROOT_CRL"));
        if !missing.is_empty() {
            return Err(missing);
        }
        let ca = match IssuingCa::from_pem(&certificate, &roots) {
            Ok(ca) => ca,
            Err(error) => {
                missing.add(format!("CA_CERTIFICATE and CA_ROOTS: {error}"));
                return Err(missing);
            }
        };
        if let Err(error) = ca.verify_signatures(&WebCrypto).await {
            missing.add(format!("CA_CERTIFICATE and CA_ROOTS: {error}"));
            return Err(missing);
        }
        match import_key(&key, &ca).await {
            Ok(key) => Ok(Self { ca, key, root_crl }),
            Err(problem) => {
                missing.add(format!("CA_PRIVATE_KEY: {problem}"));
                Err(missing)
            }
        }
    }
}

async fn import_key(pem: &str, ca: &IssuingCa) -> Result<SigningKey, &'static str> {
    use verifier::keys::SignatureAlgorithm;
    use verifier::ports::{IssuingKey as _, SignatureVerifier as _};

    const PROBE: &[u8] = b"rootpilot-edge: do this key and this certificate belong together?";
    let der = verifier::issuance::private_key_der(pem).ok_or("not a PKCS#8 PEM private key")?;
    let key = SigningKey::import(&der).await.map_err(|_| "not a P-256 key")?;
    let signature = key.sign(PROBE).await.map_err(|_| "cannot sign")?;
    let fits = WebCrypto
        .verify(ca.public_key(), SignatureAlgorithm::Es256, PROBE, &signature)
        .await
        .map_err(|_| "cannot verify")?;
    if fits { Ok(key) } else { Err("does not belong to the first certificate of CA_CERTIFICATE") }
}
