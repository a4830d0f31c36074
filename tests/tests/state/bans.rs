//! Ban, unban, evict and the CRL (CHECKS I6, I7).

use std::fs;
use std::process::Command;

use edge_tests::stack::{Key, Stack, evidence};
use serde_json::json;

use crate::foreign::openssl;
use crate::support::{Held, Shared, assert_certificate_invalid, enroll_pod, enroll_token, pod, state};

static STACK: Shared = Shared::new("state-bans");

/// An enrolment in a pod with new evidence.
fn attest(stack: &Stack, key: &Key, name: &str) -> edge_tests::stack::Answer {
    stack.enroll(key, &pod(stack, name))
}

#[test]
fn a_ban_of_the_instance_is_not_evaded_by_a_new_key() {
    let stack = STACK.lock();
    let (held, used) = enroll_pod(&stack, "banned-pod");
    let (sibling, _) = enroll_pod(&stack, "banned-pod");
    assert_ne!(sibling.runner_id, held.runner_id);
    let answer = stack.admin().ban("acme", &held.runner_id, &json!({"reason": "stolen"}));
    assert_eq!((&answer["state"], &answer["warning"]), (&json!("banned"), &json!(null)));
    for id in [&held.runner_id, &sibling.runner_id] {
        assert_eq!(state(&stack, id), "banned", "every runner of the instance");
    }
    for key in [&held.key, &sibling.key, &Key::generate()] {
        attest(&stack, key, "banned-pod").assert_problem(403, "runner_banned", "");
    }
    stack.enroll(&held.key, &used).assert_problem(403, "runner_banned", "");
    for held in [&held, &sibling] {
        held.renew(&stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    }
    stack.admin().assert_on_crl(&[held.serial(), sibling.serial()]);
    attest(&stack, &Key::generate(), "another-pod").assert_status(200);
}

#[test]
fn a_ban_of_the_runner_is_of_the_runner() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "banned-runner");
    let (sibling, _) = enroll_pod(&stack, "banned-runner");
    let answer = stack.admin().ban("acme", &held.runner_id, &json!({"scope": "runner"}));
    assert!(answer["warning"].as_str().is_some_and(|text| text.contains("new key")), "{answer}");
    attest(&stack, &held.key, "banned-runner").assert_problem(403, "runner_banned", "");
    sibling.rotate(&stack);
    attest(&stack, &Key::generate(), "banned-runner").assert_status(200);
    stack.admin().assert_on_crl(&[held.serial()]);
    assert!(!stack.admin().revoked().contains(&sibling.serial()));
}

#[test]
fn a_role_chooses_its_session_name_and_the_answer_says_so() {
    let stack = STACK.lock();
    let session = |name: &str| stack.sts.add_role_session("111122223333", "rootpilot-runner", name);
    let (key, credentials) = (Key::generate(), session("i-0banned"));
    let held = Held::from(&key, stack.enroll(&key, &stack.sts_request(&credentials, &key).evidence()));
    let answer = stack.admin().ban("acme", &held.runner_id, &json!({}));
    assert!(answer["warning"].as_str().is_some_and(|text| text.contains("rule")), "{answer}");
    let enroll = |name: &str| {
        let (key, credentials) = (Key::generate(), session(name));
        stack.enroll(&key, &stack.sts_request(&credentials, &key).evidence())
    };
    enroll("i-0banned").assert_problem(403, "runner_banned", "");
    enroll("i-0other").assert_status(200);
}

#[test]
fn bans_of_token_runners() {
    let stack = STACK.lock();
    let token = stack.admin().mint_with("acme", &json!({"max_uses": 5}));
    let attestation = evidence::token("bootstrap-token", &token.token);
    let enroll = |key: &Key| stack.enroll(key, &attestation);
    let (first, second) = (Key::generate(), Key::generate());
    let [one, two] = [&first, &second].map(|key| Held::from(key, enroll(key)));
    let answer = stack.admin().ban("acme", &one.runner_id, &json!({}));
    assert!(answer["warning"].as_str().is_some_and(|text| text.contains("token")), "{answer}");
    enroll(&first).assert_problem(403, "runner_banned", "");
    enroll(&Key::generate()).assert_status(200);
    let two = two.rotate(&stack);
    // The instance of a token's runners is the token.
    stack.admin().ban("acme", &two.runner_id, &json!({"scope": "instance"}));
    enroll(&Key::generate()).assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    two.renew(&stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    assert!(stack.admin().tokens("acme").items.iter().any(|item| item.id == token.id && item.revoked));
    stack.admin().assert_on_crl(&[one.serial(), two.serial()]);
}

#[test]
fn after_unban_a_runner_is_expired_until_it_attests() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "unbanned");
    stack.admin().ban("acme", &held.runner_id, &json!({}));
    let answer = stack.admin().unban("acme", &held.runner_id);
    assert_eq!(answer["state"], "expired");
    assert_certificate_invalid(&held.renew(&stack, &Key::generate()));
    let again = Held::from(&held.key, attest(&stack, &held.key, "unbanned"));
    assert_eq!(again.runner_id, held.runner_id);
    assert_eq!(state(&stack, &held.runner_id), "active");
    stack.admin().assert_on_crl(&[held.serial()]);
    assert!(
        !stack.admin().revoked().contains(&again.serial()),
        "unban does not un-revoke, nor revoke what comes later"
    );
    again.rotate(&stack);
}

#[test]
fn an_evicted_runner_comes_back_with_new_evidence_only() {
    let stack = STACK.lock();
    let (in_pod, used) = enroll_pod(&stack, "evicted");
    let (by_token, used_token) = enroll_token(&stack, "acme");
    for held in [&in_pod, &by_token] {
        stack.admin().evict("acme", &held.runner_id);
        let path = format!("/v1/admin/tenants/acme/runners/{}", held.runner_id);
        stack.admin().0.get(&path).assert_problem(404, "not_found", "");
        assert_certificate_invalid(&held.renew(&stack, &Key::generate()));
    }
    stack.enroll(&in_pod.key, &used).assert_problem(401, "attestation_invalid", "token_reused");
    stack.enroll(&by_token.key, &used_token).assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    let key = Key::generate();
    let new = Held::from(&key, attest(&stack, &key, "evicted"));
    assert_ne!(new.runner_id, in_pod.runner_id);
    let token = evidence::token("bootstrap-token", &stack.admin().mint("acme").token);
    let new = Held::from(&by_token.key, stack.enroll(&by_token.key, &token));
    assert_ne!(new.runner_id, by_token.runner_id);
    stack.admin().assert_on_crl(&[in_pod.serial(), by_token.serial()]);

    let (banned, _) = enroll_pod(&stack, "evicted-and-banned");
    stack.admin().ban("acme", &banned.runner_id, &json!({}));
    stack.admin().evict("acme", &banned.runner_id);
    attest(&stack, &Key::generate(), "evicted-and-banned").assert_problem(403, "runner_banned", "");
}

#[test]
fn edgectl_gives_the_orders() {
    let stack = STACK.lock();
    let (held, used) = enroll_pod(&stack, "by-edgectl");
    let order = |what: &[&str]| stack.edgectl(&[&["runner"], what, &["acme", &held.runner_id]].concat());
    let shown = order(&["show"]).expect(0).json();
    assert_eq!((&shown["serial"], &shown["state"]), (&json!(held.serial()), &json!("active")));
    let listed = stack.edgectl(&["runner", "list", "acme", "--all"]).expect(0).json();
    assert!(listed["items"].as_array().unwrap().contains(&shown), "{listed}");

    assert_eq!(order(&["ban", "--reason", "lost"]).expect(0).json()["state"], "banned");
    held.renew(&stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    assert_eq!(order(&["evict"]).expect(0).json()["evicted"], true);
    assert_eq!(order(&["show"]).status, 1, "it is out of sight");
    // The ban is not: it can be lifted, once.
    assert_eq!(order(&["unban"]).expect(0).json()["state"], "expired");
    let again = order(&["unban"]).expect(1);
    assert!(again.stderr.contains("not_found"), "{}", again.stderr);
    stack.enroll(&held.key, &used).assert_problem(401, "attestation_invalid", "token_reused");
    attest(&stack, &held.key, "by-edgectl").assert_status(200);
    let log = stack.edgectl(&["audit", "acme", "--limit", "200"]).expect(0).json();
    let orders: Vec<_> = log["items"].as_array().unwrap().iter().filter(|event| event["actor"].is_string()).collect();
    let newest: Vec<_> =
        orders.iter().take(4).map(|event| (&event["type"], &event["outcome"], &event["runner_id"])).collect();
    let expected = [("unban", "deny"), ("unban", "allow"), ("evict", "allow"), ("ban", "allow")];
    let id = json!(held.runner_id);
    assert!(
        newest
            .into_iter()
            .eq(expected.map(|(kind, outcome)| (json!(kind), json!(outcome))).iter().map(|(k, o)| (k, o, &id)))
    );
}

#[test]
fn openssl_reads_the_crl_and_refuses_what_is_on_it() {
    let stack = STACK.lock();
    let ((good, _), (bad, _)) = (enroll_pod(&stack, "openssl-good"), enroll_pod(&stack, "openssl-bad"));
    let at = |name: &str| stack.folder().join(name).display().to_string();
    let number = || {
        fs::write(at("crl.der"), stack.admin().crl()).unwrap();
        let text = openssl(&["crl", "-inform", "DER", "-in", &at("crl.der"), "-noout", "-crlnumber"]);
        u128::from_str_radix(text.trim().trim_start_matches("crlNumber=").trim_start_matches("0x"), 16).unwrap()
    };
    let before = number();
    stack.admin().ban("acme", &bad.runner_id, &json!({"reason": "test"}));
    stack.admin().assert_on_crl(&[bad.serial()]);
    assert!(number() > before, "a changed list has a higher number");

    let text = openssl(&["crl", "-inform", "DER", "-in", &at("crl.der"), "-noout", "-text"]);
    assert!(text.to_lowercase().contains(&bad.serial()), "{text}");
    assert!(text.contains("Privilege Withdrawn") && text.contains("Authority Key Identifier"), "{text}");
    let issuing = stack.folder().join("ca/issuing.pem").display().to_string();
    let verified = openssl(&["crl", "-inform", "DER", "-in", &at("crl.der"), "-noout", "-CAfile", &issuing]);
    assert!(verified.contains("verify OK"), "{verified}");

    fs::write(at("crls.pem"), stack.client().get("/v1/crl.pem").expect(200).body).unwrap();
    let root = stack.root_file().display().to_string();
    let verdict = |held: &Held, check: &str| {
        fs::write(at("chain.pem"), &held.certificate).unwrap();
        let output = Command::new("openssl")
            .args(["verify", check, "-purpose", "sslclient", "-CAfile", &root, "-CRLfile", &at("crls.pem")])
            .args(["-untrusted", &at("chain.pem"), &at("chain.pem")])
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for check in ["-crl_check", "-crl_check_all"] {
        let (accepted, why) = verdict(&good, check);
        assert!(accepted, "{why}");
        let (accepted, why) = verdict(&bad, check);
        assert!(!accepted && why.contains("certificate revoked"), "{why}");
    }
}
