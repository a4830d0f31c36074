//! What the tests of issuance share: keys, a CA in a folder, and the `openssl` command as second opinion.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod runner_key;
pub mod tampered;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use p256::ecdsa::SigningKey;
use p256::ecdsa::signature::Signer;
use pollster::block_on;
use sha2::{Digest, Sha256};
use verifier::UnixTime;
use verifier::issuance::{CaCertificate, IssuingCa, RootCrl, SignedCrl, VerifiedCsr, ca};
use verifier::keys::PublicKey;
use verifier::ports::{BackendError, Entropy, IssuingKey};
use verifier::registry::Allotment;

/// 2026-09-21T14:13:20Z.
pub const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);
pub const TRUST_DOMAIN: &str = "edge.example.com";
pub const RUNNER_ID: &str = "mfzwizltmfzwizltmfzwizltab";

/// A P-256 key that is the same in every run.
#[derive(Clone)]
pub struct Key(pub SigningKey);

impl Key {
    pub fn new(name: &str) -> Self {
        Self(SigningKey::from_slice(&Sha256::digest(name)).unwrap())
    }

    pub fn public(&self) -> PublicKey {
        PublicKey::p256(self.0.verifying_key().to_sec1_point(false).as_bytes()).unwrap()
    }

    pub fn sign_raw(&self, message: &[u8]) -> [u8; 64] {
        let signature: p256::ecdsa::Signature = self.0.sign(message);
        signature.to_bytes().into()
    }
}

impl IssuingKey for Key {
    async fn sign(&self, message: &[u8]) -> Result<[u8; 64], BackendError> {
        Ok(self.sign_raw(message))
    }
}

/// Octets that follow from a name: serials that differ but repeat.
pub struct Repeatable(pub &'static str);

impl Entropy for Repeatable {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        let hash = Sha256::digest(self.0);
        buffer.copy_from_slice(&hash[..buffer.len()]);
        Ok(())
    }
}

/// Root, issuing CA and root CRL as `edgectl ca init` makes them.
#[derive(Clone)]
pub struct Authority {
    pub root_key: Key,
    pub root: CaCertificate,
    pub issuing_key: Key,
    pub issuing: CaCertificate,
    pub root_crl: SignedCrl,
    pub ca: IssuingCa,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        Self::made_at(name, NOW)
    }

    pub fn made_at(name: &str, now: UnixTime) -> Self {
        let root_key = Key::new(&format!("{name} root"));
        let issuing_key = Key::new(&format!("{name} issuing"));
        block_on(async {
            let root = ca::root("Example Inc", &root_key.public(), &root_key, now, &Repeatable("root")).await.unwrap();
            let issuing =
                ca::issuing("Example Inc", &root, &root_key, &issuing_key.public(), now, &Repeatable("issuing"))
                    .await
                    .unwrap();
            let root_crl = RootCrl::default().sign(&root, &root_key, now).await.unwrap();
            let ca = IssuingCa::from_pem(&issuing.to_pem(), &root.to_pem()).unwrap();
            Self { root_key, root, issuing_key, issuing, root_crl, ca }
        })
    }
}

/// An allotment of an hour for the key of `csr`.
pub fn allotment(csr: &VerifiedCsr) -> Allotment {
    Allotment {
        tenant: "acme".to_owned(),
        runner_id: RUNNER_ID.to_owned(),
        serial: "4a0102030405060708090a0b0c0d0e0f".to_owned(),
        spki_sha256: verifier::encoding::hex(csr.spki_sha256()),
        not_before: NOW.plus(-60),
        not_after: NOW.plus(3600),
        reattest_before: None,
    }
}

/// Files that `openssl` reads.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn openssl(&self, args: &[&str]) -> Output {
        Command::new("openssl").args(args).current_dir(self.path()).output().expect("openssl is installed")
    }

    /// Standard output of a command that must succeed.
    pub fn openssl_ok(&self, args: &[&str]) -> String {
        let output = self.openssl(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "openssl {args:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}
