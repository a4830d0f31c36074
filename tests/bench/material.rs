//! Keys, CSRs and tokens, made before the clock starts, and what is read out of the answers after it stopped.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use edge_tests::emulators::{OidcIssuer, TokenOptions};
use edge_tests::stack::{Key, b64url, evidence, leaf};
use serde::Deserialize;
use serde_json::json;
use x509_cert::der::Encode as _;

use crate::interrupt;
use crate::load::Shot;

/// Pods of many tenants, each with a key of its own and a fresh token.
#[derive(Debug, Clone)]
pub struct Pods {
    /// Which key each sends.
    pub keys: Vec<Key>,
    /// `POST /v1/enroll`.
    pub shots: Arc<[Shot]>,
}

impl From<Vec<(Key, Shot)>> for Pods {
    fn from(pairs: Vec<(Key, Shot)>) -> Self {
        let (keys, shots): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        Self { keys, shots: shots.into() }
    }
}

/// Who makes tokens.
#[derive(Debug, Clone, Copy)]
pub struct Mint<'a> {
    /// The issuer.
    pub issuer: &'a OidcIssuer,
    /// `kid` of the key to sign with; the issuer's first, RSA, when `None`.
    pub key: Option<&'a str>,
}

impl<'a> Mint<'a> {
    /// RS256, as GKE and EKS sign.
    pub const fn rs256(issuer: &'a OidcIssuer) -> Self {
        Self { issuer, key: None }
    }

    /// A token of a pod of `tenant`.
    pub fn token(self, tenant: &str, pod: usize) -> String {
        self.issuer.token(&TokenOptions {
            namespace: tenant.to_owned(),
            pod: format!("runner-{pod}"),
            sign_with: self.key.map(str::to_owned),
            ..TokenOptions::default()
        })
    }

    /// Pods with the numbers `range`; pod `n` is of the tenant `n` modulo their number.
    pub fn pods(self, tenants: &[String], range: Range<usize>) -> Pods {
        let half = usize::midpoint(range.start, range.end);
        let (mut first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| self.make(tenants, range.start..half));
            let second = self.make(tenants, half..range.end);
            (first.join().expect("making keys does not fail"), second)
        });
        first.extend(second);
        Pods::from(first)
    }

    /// The same beside load that is under way.
    pub fn pods_on_one_thread(self, tenants: &[String], range: Range<usize>) -> Pods {
        Pods::from(self.make(tenants, range))
    }

    fn make(self, tenants: &[String], range: Range<usize>) -> Vec<(Key, Shot)> {
        // Cut short by a signal, so that the next step finds out soon.
        let pods = range.take_while(|_| interrupt::check().is_ok());
        pods.map(|pod| self.pod(&tenants[pod % tenants.len()], pod)).collect()
    }

    fn pod(self, tenant: &str, pod: usize) -> (Key, Shot) {
        let key = Key::generate();
        let body = evidence::request(&key, &evidence::token("gke-oidc", &self.token(tenant, pod)));
        (key, Shot::json(body.to_string(), None))
    }

    /// `POST /v1/verify` that only looks, for pods of one tenant.
    pub fn verifications(self, tenant: &str, count: usize, bearer: &str) -> Arc<[Shot]> {
        let shot = |pod| {
            let attestation = evidence::token("gke-oidc", &self.token(tenant, pod));
            let key = b64url(&rand::random::<[u8; 32]>());
            let body = json!({"attestation": attestation, "spki_sha256": key, "consume": false});
            Shot::json(body.to_string(), Some(bearer))
        };
        (0..count).map(shot).collect()
    }
}

/// Answer of `/v1/verify`, as far as it is checked.
#[derive(Deserialize)]
struct Appraised<'a> {
    decision: &'a str,
    tenant: &'a str,
    consumed: bool,
    #[serde(borrow)]
    trace: Vec<Checked<'a>>,
}

#[derive(Deserialize)]
struct Checked<'a> {
    outcome: &'a str,
}

/// Allowed, every check passed, nothing used up.
pub fn is_allowed(body: &[u8]) -> Result<()> {
    let answer: Appraised<'_> = serde_json::from_slice(body)?;
    let passed = answer.trace.len() == 9 && answer.trace.iter().all(|check| check.outcome == "pass");
    ensure!(answer.decision == "allow" && !answer.tenant.is_empty() && !answer.consumed && passed, "not allowed");
    Ok(())
}

/// Answer of `/v1/enroll`, as far as it is checked while the clock runs.
#[derive(Debug, Deserialize)]
pub struct Enrolled<'a> {
    /// Runner.
    pub runner_id: &'a str,
    /// Tenant.
    pub tenant: &'a str,
    /// Chain, PEM.
    #[serde(borrow)]
    pub certificate: std::borrow::Cow<'a, str>,
}

/// Holds a certificate.
pub fn is_enrolled(body: &[u8]) -> Result<()> {
    let answer: Enrolled<'_> = serde_json::from_slice(body)?;
    ensure!(answer.certificate.starts_with("-----BEGIN CERTIFICATE-----"), "no certificate");
    Ok(())
}

/// Runners and serials of a set of answers, each certificate parsed.
#[derive(Debug, Default)]
pub struct Certificates {
    /// (tenant, runner id) in order of the answers.
    pub runners: Vec<(String, String)>,
    /// Runner ids or serials seen before.
    pub duplicates: usize,
    seen: HashSet<String>,
}

impl Certificates {
    /// Reads the answers to `pods`: each certificate must be for its key and name its runner.
    pub fn read(pods: &Pods, answers: &[(usize, Bytes)]) -> Result<Self> {
        let mut certificates = Self::default();
        for (index, body) in answers {
            let answer: Enrolled<'_> = serde_json::from_slice(body)?;
            certificates.add(&pods.keys[*index], &answer)?;
        }
        Ok(certificates)
    }

    fn add(&mut self, key: &Key, answer: &Enrolled<'_>) -> Result<()> {
        let certificate = leaf(&answer.certificate);
        let content = certificate.tbs_certificate();
        let of_key = content.subject_public_key_info().to_der().context("a key that was parsed")?;
        ensure!(of_key == key.spki(), "the certificate of {} is for another key", answer.runner_id);
        let subject = content.subject().to_string();
        ensure!(subject.contains(&format!("CN={}", answer.runner_id)), "a certificate of {subject}");
        let serial = base16ct::lower::encode_string(content.serial_number().as_bytes());
        for name in [format!("serial {serial}"), format!("runner {}", answer.runner_id)] {
            self.duplicates += usize::from(!self.seen.insert(name));
        }
        self.runners.push((answer.tenant.to_owned(), answer.runner_id.to_owned()));
        Ok(())
    }
}
