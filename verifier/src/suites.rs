//! Vectors that every signature back end must answer alike: Project Wycheproof's RSA PKCS#1, ECDSA and Ed25519 sets, and our tokens
//! ([`oidc`]).
//!
//! A suite takes any [`SignatureVerifier`], so that the native back end runs it in a native test and WebCrypto runs it in wasm.

pub mod oidc;

use wycheproof::{TestResult, ecdsa, eddsa, rsa_pkcs1_verify};

use crate::issuance::signed::ecdsa_from_der;
use crate::keys::{KeyError, PublicKey, SignatureAlgorithm};
use crate::ports::{BackendError, SignatureVerifier};

/// What a back end made of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Vectors that reached the back end.
    pub asked: usize,
    /// Of those, accepted.
    pub accepted: usize,
    /// Vectors whose key our own checks refused, with the reason.
    pub keys_refused: Vec<(&'static str, KeyError)>,
    /// Vectors answered against their expectation.
    pub wrong: Vec<String>,
    /// Answers where the vectors allow both; the back ends must still agree.
    pub discretionary: Vec<(String, bool)>,
}

impl Report {
    fn note(&mut self, name: String, expected: TestResult, answer: Result<bool, BackendError>) {
        self.asked = self.asked.saturating_add(1);
        let accepted = match answer {
            Ok(accepted) => accepted,
            Err(error) => return self.wrong.push(format!("{name}: {error}")),
        };
        self.accepted = self.accepted.saturating_add(usize::from(accepted));
        match expected {
            TestResult::Valid if !accepted => self.wrong.push(format!("{name}: refused a valid signature")),
            TestResult::Invalid if accepted => self.wrong.push(format!("{name}: accepted an invalid signature")),
            TestResult::Acceptable => self.discretionary.push((name, accepted)),
            TestResult::Valid | TestResult::Invalid => {}
        }
    }
}

/// RSA PKCS#1 v1.5 of 2048 to 8192 bits; sets of 8192 bits must be refused by our cap before the back end sees them.
pub async fn rsa_pkcs1(backend: &impl SignatureVerifier) -> Result<Report, String> {
    use SignatureAlgorithm::{Rs256, Rs384, Rs512};
    use rsa_pkcs1_verify::{TestName, TestSet};
    let mut report = Report::default();
    for (name, algorithm) in [
        (TestName::Rsa2048Sha256, Rs256),
        (TestName::Rsa3072Sha256, Rs256),
        (TestName::Rsa4096Sha256, Rs256),
        (TestName::Rsa8192Sha256, Rs256),
        (TestName::Rsa2048Sha384, Rs384),
        (TestName::Rsa3072Sha384, Rs384),
        (TestName::Rsa4096Sha384, Rs384),
        (TestName::Rsa2048Sha512, Rs512),
        (TestName::Rsa3072Sha512, Rs512),
        (TestName::Rsa4096Sha512, Rs512),
    ] {
        let set = TestSet::load(name).map_err(|error| error.to_string())?;
        for group in set.test_groups {
            let modulus = without_leading_zeros(&group.key.n);
            let exponent = without_leading_zeros(&group.key.e);
            match PublicKey::rsa(modulus, exponent) {
                Err(error) => report.keys_refused.extend(group.tests.iter().map(|_| ("rsa", error))),
                Ok(key) => {
                    for test in group.tests {
                        let answer = backend.verify(&key, algorithm, &test.msg, &test.sig).await;
                        report.note(format!("{name:?} {} {}", test.tc_id, test.comment), test.result, answer);
                    }
                }
            }
        }
    }
    Ok(report)
}

/// ECDSA on P-256 and P-384 with the hash of JWS, signatures as r‖s.
pub async fn ecdsa_p1363(backend: &impl SignatureVerifier) -> Result<Report, String> {
    ecdsa_sets(
        backend,
        [ecdsa::TestName::EcdsaSecp256r1Sha256P1363, ecdsa::TestName::EcdsaSecp384r1Sha384P1363],
        |_, signature| Some(signature.to_vec()),
    )
    .await
}

/// ECDSA on P-256 and P-384 as in CSRs and certificates: DER, turned into r‖s by the strict reader those use.
pub async fn ecdsa_der(backend: &impl SignatureVerifier) -> Result<Report, String> {
    let names = [ecdsa::TestName::EcdsaSecp256r1Sha256, ecdsa::TestName::EcdsaSecp384r1Sha384];
    ecdsa_sets(backend, names, |width, der| match width {
        32 => ecdsa_from_der::<32>(der),
        _ => ecdsa_from_der::<48>(der),
    })
    .await
}

async fn ecdsa_sets(
    backend: &impl SignatureVerifier,
    names: [ecdsa::TestName; 2],
    to_p1363: impl Fn(usize, &[u8]) -> Option<Vec<u8>>,
) -> Result<Report, String> {
    let mut report = Report::default();
    for name in names {
        let set = ecdsa::TestSet::load(name).map_err(|error| error.to_string())?;
        for group in set.test_groups {
            let (key, algorithm, width) = match group.key.key.len() {
                65 => (PublicKey::p256(&group.key.key), SignatureAlgorithm::Es256, 32),
                _ => (PublicKey::p384(&group.key.key), SignatureAlgorithm::Es384, 48),
            };
            match key {
                Err(error) => report.keys_refused.extend(group.tests.iter().map(|_| ("ec", error))),
                Ok(key) => {
                    for test in group.tests {
                        let answer = match to_p1363(width, &test.sig) {
                            Some(signature) => backend.verify(&key, algorithm, &test.msg, &signature).await,
                            None => Ok(false),
                        };
                        report.note(format!("{name:?} {} {}", test.tc_id, test.comment), test.result, answer);
                    }
                }
            }
        }
    }
    Ok(report)
}

/// Ed25519.
pub async fn ed25519(backend: &impl SignatureVerifier) -> Result<Report, String> {
    let mut report = Report::default();
    let set = eddsa::TestSet::load(eddsa::TestName::Ed25519).map_err(|error| error.to_string())?;
    for group in set.test_groups {
        match PublicKey::ed25519(&group.key.pk) {
            Err(error) => report.keys_refused.extend(group.tests.iter().map(|_| ("ed25519", error))),
            Ok(key) => {
                for test in group.tests {
                    let answer = backend.verify(&key, SignatureAlgorithm::EdDsa, &test.msg, &test.sig).await;
                    report.note(format!("Ed25519 {} {}", test.tc_id, test.comment), test.result, answer);
                }
            }
        }
    }
    Ok(report)
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|octet| **octet == 0).count();
    number.get(zeros..).unwrap_or_default()
}
