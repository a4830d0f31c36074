//! Certificates that this verifier did not make for this runner, made by `openssl` (CHECKS I4).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use edge_tests::stack::{AUDIENCE, Key, Stack, evidence};

use crate::support::{Held, Shared, assert_certificate_invalid, enroll_pod};

static STACK: Shared = Shared::new("state-foreign");

/// Runs `openssl` and returns what it printed.
#[track_caller]
pub fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is installed");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "openssl {arguments:?}\n{text}");
    text
}

/// A certificate to be forged; [`Self::of`] is the one that the verifier itself made, but for its dates.
pub struct Forged<'a> {
    /// Folder of `edgectl ca init` whose issuing CA signs.
    pub ca: PathBuf,
    /// Key to be certified.
    pub key: &'a Key,
    /// Runner named by subject and SPIFFE id.
    pub runner_id: &'a str,
    /// 32 hex digits.
    pub serial: String,
    /// Extended key usage.
    pub usage: &'static str,
    /// Lifetime.
    pub days: &'static str,
}

impl<'a> Forged<'a> {
    /// Everything as in `held`.
    pub fn of(stack: &Stack, held: &'a Held) -> Self {
        Self {
            ca: stack.folder().join("ca"),
            key: &held.key,
            runner_id: &held.runner_id,
            serial: held.serial(),
            usage: "clientAuth",
            days: "1",
        }
    }

    /// The certificate, PEM.
    pub fn make(&self, folder: &Path) -> String {
        let at = |name: &str| folder.join(name).display().to_string();
        fs::write(at("forged.csr"), self.key.csr()).unwrap();
        let extensions = format!(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={}\n\
             subjectAltName=URI:spiffe://edge.example.com/tenant/acme/runner/{}\n\
             subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always\n",
            self.usage, self.runner_id
        );
        fs::write(at("forged.ext"), extensions).unwrap();
        let subject = format!("/O=acme/CN={}", self.runner_id);
        let serial = format!("0x{}", self.serial);
        let (ca, ca_key) = (self.ca.join("issuing.pem"), self.ca.join("issuing.key.pem"));
        openssl(&[
            "x509",
            "-req",
            "-sha256",
            "-in",
            &at("forged.csr"),
            "-CA",
            ca.to_str().unwrap(),
            "-CAkey",
            ca_key.to_str().unwrap(),
            "-subj",
            &subject,
            "-set_serial",
            &serial,
            "-days",
            self.days,
            "-extfile",
            &at("forged.ext"),
            "-out",
            &at("forged.pem"),
        ]);
        fs::read_to_string(at("forged.pem")).unwrap()
    }
}

/// Another CA with the very same names.
pub fn other_ca(stack: &Stack) -> PathBuf {
    let folder = stack.folder().join("other-ca");
    if !folder.exists() {
        let out = folder.display().to_string();
        let _ = stack.edgectl(&["ca", "init", "--organization", "Example Inc", "--out", &out]).expect(0);
    }
    folder
}

#[test]
fn only_the_certificate_that_the_record_knows_renews() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "forged");
    let (other, _) = enroll_pod(&stack, "forged-other");
    let thief = Key::generate();
    let forged = || Forged::of(&stack, &held);
    let of_another = other.serial();
    let unknown = format!("4{}", "0123456789abcdef0123456789abcde");
    let ask = |key: &Key, forged: &Forged<'_>| {
        let certificate = forged.make(stack.folder());
        let next = Key::generate();
        let proof = key.renewal(&certificate, AUDIENCE, stack.now(), &next);
        stack.client().post("/v1/renew", &evidence::request(&next, &proof))
    };
    for (what, key, forged) in [
        ("another CA of the same names", &held.key, Forged { ca: other_ca(&stack), ..forged() }),
        ("the same name and serial, another key", &thief, Forged { key: &thief, ..forged() }),
        ("the same name, another key and serial", &thief, Forged { key: &thief, serial: unknown.clone(), ..forged() }),
        ("a serial that was never allotted", &held.key, Forged { serial: unknown, ..forged() }),
        ("the serial of another runner", &held.key, Forged { serial: of_another, ..forged() }),
        ("the name of another runner", &held.key, Forged { runner_id: &other.runner_id, ..forged() }),
        ("for servers only", &held.key, Forged { usage: "serverAuth", ..forged() }),
        ("for code signing", &held.key, Forged { usage: "codeSigning", ..forged() }),
        ("ended", &held.key, Forged { days: "-1", ..forged() }),
    ] {
        println!("{what}");
        assert_certificate_invalid(&ask(key, &forged));
    }
    assert_eq!(stack.admin().runner("acme", &held.runner_id).serial, held.serial(), "nothing was allotted");
    held.rotate(&stack);
}

#[test]
fn what_is_no_certificate_is_none() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "no-certificate");
    let next = Key::generate();
    let mut proof = held.key.renewal(&held.certificate, AUDIENCE, stack.now(), &next);
    for text in ["x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", held.certificate.as_str()] {
        proof["certificate"] = serde_json::json!(text);
        let answer = stack.client().post("/v1/renew", &evidence::request(&next, &proof));
        assert_eq!(answer.status / 100, 4, "{}", answer.text());
    }
    held.rotate(&stack);
}
