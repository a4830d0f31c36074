//! A new issuing CA, and one whose key was stolen: `edgectl ca rotate` and `ca revoke`, offline, as openssl sees them and as runners do.

use std::fs;
use std::path::Path;
use std::process::Command;

use edge_tests::stack::{Key, Options, Stack};
use serde_json::Value;

use crate::foreign::openssl;
use crate::support::{Held, assert_certificate_invalid, enroll_pod};

/// Runs `edgectl ca …`; a name that begins with @ is in the stack's folder.
#[track_caller]
fn ca(stack: &Stack, arguments: &[&str]) -> Value {
    let at = |argument: &&str| match argument.strip_prefix('@') {
        Some(name) => stack.folder().join(name).display().to_string(),
        None => (*argument).to_owned(),
    };
    let arguments: Vec<String> = ["ca"].iter().chain(arguments).map(at).collect();
    stack.edgectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect(0).json()
}

/// Gives the worker the secrets of this directory beside those it has.
fn take_secrets(stack: &mut Stack, directory: &str) {
    let (present, new) = (stack.folder().join("ca/worker-secrets.json"), stack.folder().join(directory));
    let read = |file: &Path| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let (mut secrets, changed) = (read(&present), read(&new.join("worker-secrets.json")));
    secrets.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    fs::write(&present, secrets.to_string()).unwrap();
    stack.restart();
}

/// What openssl says of a runner's chain, every CA of it checked against these lists.
fn verdict(stack: &Stack, held: &Held, lists: &[&str]) -> Result<(), String> {
    let at = |name: &str| stack.folder().join(name).display().to_string();
    fs::write(at("chain.pem"), &held.certificate).unwrap();
    let lists: String = lists.iter().map(|list| fs::read_to_string(at(list)).unwrap()).collect();
    fs::write(at("lists.pem"), lists).unwrap();
    let output = Command::new("openssl")
        .args(["verify", "-crl_check_all", "-purpose", "sslclient", "-CAfile"])
        .arg(stack.root_file())
        .args(["-CRLfile", &at("lists.pem"), "-untrusted", &at("chain.pem"), &at("chain.pem")])
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The issuing CA's present list, kept under this name.
fn keep_list(stack: &Stack, name: &str) {
    let path = |name: &str| stack.folder().join(name).display().to_string();
    fs::write(path("crl.der"), stack.admin().crl()).unwrap();
    openssl(&["crl", "-inform", "DER", "-in", &path("crl.der"), "-out", &path(name)]);
}

#[test]
fn runners_move_to_a_new_issuing_ca_and_a_stolen_one_is_refused() {
    let mut stack = Stack::start(Options::new("state-issuing-ca"));
    let (old, _) = enroll_pod(&stack, "moves");
    let (late, _) = enroll_pod(&stack, "comes-late");
    keep_list(&stack, "former.crl.pem");
    verdict(&stack, &old, &["former.crl.pem", "ca/root.crl.pem"]).unwrap();

    // For age: both are listed, certificates of the old one renew, and relying parties go on with the old one's last list.
    ca(&stack, &["rotate", "--from", "@ca", "--out", "@ca-2"]);
    take_secrets(&mut stack, "ca-2");
    keep_list(&stack, "present.crl.pem");
    let lists = ["former.crl.pem", "present.crl.pem", "ca-2/root.crl.pem"];
    let moved = old.rotate(&stack);
    assert_eq!(moved.runner_id, old.runner_id);
    for held in [&old, &moved] {
        verdict(&stack, held, &lists).unwrap();
    }

    // The old one's key turns out to be stolen: off the worker's list, onto the root's.
    fs::copy(stack.folder().join("ca/root.key.pem"), stack.folder().join("ca-2/root.key.pem")).unwrap();
    let said = ca(&stack, &["revoke", "--from", "@ca-2", "--certificate", "@ca/issuing.pem", "--out", "@ca-3"]);
    assert_eq!(said["revoked"].as_array().unwrap().len(), 1);
    take_secrets(&mut stack, "ca-3");
    let lists = ["former.crl.pem", "present.crl.pem", "ca-3/root.crl.pem"];
    assert!(verdict(&stack, &old, &lists).unwrap_err().contains("certificate revoked"));
    verdict(&stack, &moved, &lists).unwrap();
    assert_certificate_invalid(&late.renew(&stack, &Key::generate()));
    let text = openssl(&["crl", "-in", &stack.folder().join(lists[2]).display().to_string(), "-noout", "-text"]);
    assert!(text.contains("CA Compromise"), "{text}");

    // The one that signs is not revoked without another in its place: then its certificates are as good as none, and runners attest anew.
    fs::copy(stack.folder().join("ca/root.key.pem"), stack.folder().join("ca-3/root.key.pem")).unwrap();
    let (from, issuing) = (stack.folder().join("ca-3"), stack.folder().join("ca-3/issuing.pem"));
    let out = stack.folder().join("ca-4");
    let [from, issuing, out] = [&from, &issuing, &out].map(|path| path.display().to_string());
    let refused = stack.edgectl(&["ca", "revoke", "--from", &from, "--certificate", &issuing, "--out", &out]);
    assert!(refused.expect(78).stderr.contains("--revoke-former"));
    let said = ca(&stack, &["rotate", "--from", "@ca-3", "--out", "@ca-4", "--revoke-former"]);
    assert_eq!(said["revoked"].as_array().unwrap().len(), 1);
    take_secrets(&mut stack, "ca-4");
    assert_certificate_invalid(&moved.renew(&stack, &Key::generate()));
    let again = Held::from(&moved.key, stack.enroll(&moved.key, &crate::support::pod(&stack, "moves")));
    assert_eq!(again.runner_id, old.runner_id);
    keep_list(&stack, "new.crl.pem");
    let lists = ["former.crl.pem", "present.crl.pem", "new.crl.pem", "ca-4/root.crl.pem"];
    verdict(&stack, &again, &lists).unwrap();
    for held in [&old, &moved] {
        assert!(verdict(&stack, held, &lists).unwrap_err().contains("certificate revoked"));
    }
}
