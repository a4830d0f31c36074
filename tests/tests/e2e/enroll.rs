//! Every mode, by the real runner and by hand: what comes back, to the letter.

use std::process::Command;

use edge_tests::emulators::Credentials;
use edge_tests::stack::{
    ACME_ACCOUNT, ACME_ROLE, ACME_USER, Admin, Client, EKS_ISSUER, GKE_ISSUER, Host, Key, REGION, Stack, evidence,
    leaf, serial,
};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form, is_hex, members, now, seconds};

static STACK: Shared = Shared::new("enroll");

/// What a mode proves.
struct Proven {
    mode: &'static str,
    identity: String,
    instance: String,
    /// Whether the runner has to attest again one day.
    reattests: bool,
}

fn aws(stack: &Stack, kind: &str) -> (Credentials, Proven) {
    let credentials = if kind == "role" {
        stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc")
    } else {
        stack.sts.add_user(ACME_ACCOUNT, ACME_USER)
    };
    let name = if kind == "role" { ACME_ROLE } else { ACME_USER };
    let identity = format!("arn:aws:iam::{ACME_ACCOUNT}:{kind}/{name}");
    let proven = Proven { mode: "aws-sts", identity, instance: credentials.user_id.clone(), reattests: true };
    (credentials, proven)
}

fn kubernetes(mode: &'static str, issuer: &str, token: &str) -> Proven {
    let payload = token.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&decode(payload)).unwrap();
    Proven {
        mode,
        identity: format!("{issuer}#system:serviceaccount:rootpilot:runner"),
        instance: claims["kubernetes.io"]["pod"]["uid"].as_str().unwrap().to_owned(),
        reattests: true,
    }
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn bootstrap(id: &str) -> Proven {
    let instance = format!("bootstrap-token:{id}");
    Proven { mode: "bootstrap-token", identity: instance.clone(), instance, reattests: false }
}

fn assert_recorded(admin: &Admin, runner_id: &str, proven: &Proven) {
    let runner = json!(admin.runner("acme", runner_id));
    assert_eq!(runner["identity"], proven.identity);
    assert_eq!(runner["instance"], proven.instance);
    assert_eq!(runner["mode"], proven.mode);
    assert_eq!(runner["state"], "active");
    assert_eq!(
        members(&runner),
        [
            "attested_at",
            "identity",
            "instance",
            "last_seen",
            "mode",
            "not_after",
            "runner_id",
            "serial",
            "state",
            "tenant"
        ]
    );
    let audited = admin.audit("acme").into_iter().find(|event| event.runner_id.as_deref() == Some(runner_id)).unwrap();
    assert_eq!(json!(audited)["type"], "enroll");
    assert_eq!(audited.identity.as_deref(), Some(proven.identity.as_str()));
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is installed");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "openssl {arguments:?}\n{text}");
    text
}

/// Enrols with the runner's binary, and looks at what it put down.
fn assert_runner_enrols(stack: &Stack, host: &Host, proven: &Proven) {
    let answer = host.run(&["enroll"]).expect(0).json();
    let runner_id = answer["runner_id"].as_str().unwrap();
    assert_recorded(&stack.admin(), runner_id, proven);
    let chain = host.state.join("certificate.pem").display().to_string();
    let verdict = openssl(&[
        "verify",
        "-x509_strict",
        "-purpose",
        "sslclient",
        "-CAfile",
        &stack.root_file().display().to_string(),
        "-untrusted",
        &chain,
        &chain,
    ]);
    assert!(verdict.ends_with(": OK\n"), "{verdict}");
    assert_eq!(host.run(&["status"]).expect(0).json()["identity"]["runner_id"], runner_id);
}

#[test]
fn the_runner_enrols_by_every_mode() {
    let stack = STACK.lock();
    let token = stack.admin().mint("acme");
    assert_runner_enrols(&stack, &stack.host("bootstrap").with_token(&token.token), &bootstrap(&token.id));
    for kind in ["role", "user"] {
        let (credentials, proven) = aws(&stack, kind);
        let host = stack.host(kind).with_aws(&credentials, REGION, &stack.sts.url());
        assert_runner_enrols(&stack, &host, &proven);
    }
    for (mode, issuer, token) in [
        ("gke-oidc", GKE_ISSUER, stack.gke_token("real-runner")),
        ("eks-oidc", EKS_ISSUER, stack.eks_token("real-runner")),
    ] {
        let host = stack.host(mode).with_projected(mode, &token);
        assert_runner_enrols(&stack, &host, &kubernetes(mode, issuer, &token));
    }
}

/// The answer of `/v1/enroll` and `/v1/renew` (PROTOCOL, Enroll), and the certificate in it (CHECKS I2).
fn assert_answer(stack: &Stack, answer: &Value, key: &Key, proven: &Proven) {
    assert_eq!(
        members(answer),
        [
            "certificate",
            "not_after",
            "not_before",
            "reattest_before",
            "renew_after",
            "runner_id",
            "server_time",
            "spiffe_id",
            "tenant",
            "trust_bundle"
        ]
    );
    let runner_id = answer["runner_id"].as_str().unwrap();
    assert_eq!(runner_id.len(), 26);
    assert!(runner_id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')), "{runner_id}");
    assert_eq!(answer["tenant"], "acme");
    assert_eq!(answer["spiffe_id"], format!("spiffe://edge.example.com/tenant/acme/runner/{runner_id}"));
    assert_eq!(answer["trust_bundle"].as_str().unwrap(), std::fs::read_to_string(stack.root_file()).unwrap());

    let [server, not_before, not_after, renew_after] =
        ["server_time", "not_before", "not_after", "renew_after"].map(|name| seconds(&answer[name]));
    assert!((server - now()).abs() <= 5);
    assert_eq!(renew_after, server + (not_after - server) / 2);
    assert_eq!(not_after - not_before, 3_660, "ttl and the minute before");
    if proven.reattests {
        assert_eq!(seconds(&answer["reattest_before"]), not_before + 60 + 86_400);
    } else {
        assert_eq!(answer["reattest_before"], Value::Null);
    }

    let chain = answer["certificate"].as_str().unwrap();
    assert_eq!(chain.matches("-----BEGIN CERTIFICATE-----").count(), 2, "leaf and issuing CA");
    assert!(is_hex(&serial(chain), 32));
    assert_eq!(serial(chain), stack.admin().runner("acme", runner_id).serial);
    let certificate = leaf(chain);
    let tbs = certificate.tbs_certificate();
    assert_eq!(tbs.subject().to_string(), format!("CN={runner_id},O=acme"));
    assert_eq!(der(tbs.subject_public_key_info()), key.spki());
    assert_eq!(tbs.validity().not_before.to_unix_duration().as_secs(), u64::try_from(not_before).unwrap());
    assert_eq!(tbs.validity().not_after.to_unix_duration().as_secs(), u64::try_from(not_after).unwrap());
}

fn der(value: &impl x509_cert::der::Encode) -> Vec<u8> {
    value.to_der().unwrap()
}

#[test]
fn the_answer_has_every_field_for_every_mode() {
    let stack = STACK.lock();
    let token = stack.admin().mint("acme");
    let (role, role_proven) = aws(&stack, "role");
    let (user, user_proven) = aws(&stack, "user");
    let (gke, eks) = (stack.gke_token("by-hand"), stack.eks_token("by-hand"));
    let keys: [Key; 5] = std::array::from_fn(|_| Key::generate());
    let enrolments = [
        (evidence::token("bootstrap-token", &token.token), bootstrap(&token.id)),
        (stack.sts_request(&role, &keys[1]).evidence(), role_proven),
        (stack.sts_request(&user, &keys[2]).evidence(), user_proven),
        (evidence::token("gke-oidc", &gke), kubernetes("gke-oidc", GKE_ISSUER, &gke)),
        (evidence::token("eks-oidc", &eks), kubernetes("eks-oidc", EKS_ISSUER, &eks)),
    ];
    for (key, (attestation, proven)) in keys.iter().zip(enrolments) {
        let enrolled = stack.enroll(key, &attestation).expect(200);
        assert_eq!(enrolled.header("content-type"), Some("application/json"));
        assert_eq!(enrolled.header("cache-control"), Some("no-store"));
        let enrolled = enrolled.json();
        assert_recorded(&stack.admin(), enrolled["runner_id"].as_str().unwrap(), &proven);
        assert_answer(&stack, &enrolled, key, &proven);

        let next = Key::generate();
        let renewed = stack.renew(key, enrolled["certificate"].as_str().unwrap(), &next).expect(200).json();
        assert_eq!(renewed["runner_id"], enrolled["runner_id"]);
        assert_eq!(renewed["reattest_before"], enrolled["reattest_before"]);
        let renewed_alone = Proven { reattests: false, ..proven };
        let mut comparable = renewed.clone();
        comparable["reattest_before"] = Value::Null;
        assert_answer(&stack, &comparable, &next, &renewed_alone);
    }
}

#[test]
fn the_csr_may_be_base64url_of_der() {
    let stack = STACK.lock();
    let (key, token) = (Key::generate(), stack.admin().mint("acme"));
    let mut body = evidence::request(&key, &evidence::token("bootstrap-token", &token.token));
    let pem = stack.client().post("/v1/enroll", &body).expect(200).json();
    body["csr"] = json!(edge_tests::stack::b64url(&key.csr_der()));
    let der = stack.client().post("/v1/enroll", &body).expect(200).json();
    assert_eq!(serial(pem["certificate"].as_str().unwrap()), serial(der["certificate"].as_str().unwrap()));
}

#[test]
fn every_answer_has_a_request_id_of_its_own() {
    let stack = STACK.lock();
    let (anyone, admin) = (stack.client(), stack.admin().0);
    let ask = |client: &Client, method: &str, path: &str| {
        Client::send(client.request(method, path).header("x-request-id", "mine").header("cf-ray", "mine"))
    };
    let answers = [
        ask(&anyone, "GET", "/healthz"),
        ask(&anyone, "HEAD", "/healthz"),
        ask(&anyone, "GET", "/v1/trust-bundle"),
        ask(&anyone, "GET", "/v1/crl"),
        ask(&anyone, "GET", "/v1/crl.pem"),
        ask(&anyone, "POST", "/v1/enroll"),
        ask(&anyone, "PUT", "/v1/renew"),
        ask(&anyone, "POST", "/v1/verify"),
        ask(&anyone, "GET", "/nowhere"),
        ask(&admin, "GET", "/v1/admin/policy"),
        ask(&admin, "GET", "/v1/admin/tenants/acme/runners"),
        ask(&admin, "GET", "/v1/admin/tenants/nobody/runners"),
    ];
    let mut ids: Vec<&str> = answers.iter().map(|answer| answer.header("x-request-id").expect("an id")).collect();
    assert!(!ids.contains(&"mine"));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), answers.len());
    for answer in answers.iter().filter(|answer| answer.status >= 400) {
        assert_problem_form(answer);
    }
}

#[test]
fn trust_bundle_and_crls_are_there_for_anyone() {
    let stack = STACK.lock();
    let client = stack.client();
    let bundle = client.get("/v1/trust-bundle").expect(200);
    assert_eq!(bundle.text(), std::fs::read_to_string(stack.root_file()).unwrap());
    let etag = bundle.header("etag").unwrap();
    let known = |etag: &str| Client::send(client.request("GET", "/v1/trust-bundle").header("if-none-match", etag));
    assert!(known(etag).expect(304).body.is_empty());
    known("\"another\"").assert_status(200);
    let head = Client::send(client.request("HEAD", "/v1/trust-bundle"));
    assert_eq!((head.status, head.header("etag"), head.body.len()), (200, Some(etag), 0));

    let crl = client.get("/v1/crl").expect(200);
    assert_eq!(crl.header("content-type"), Some("application/pkix-crl"));
    assert_eq!(crl.header("cache-control"), Some("public, max-age=5"));
    let both = client.get("/v1/crl.pem").expect(200).text();
    assert_eq!(both.matches("-----BEGIN X509 CRL-----").count(), 2, "the issuing CA's and the root's");
    let health = client.get("/healthz").expect(200).json();
    assert_eq!(members(&health), ["status", "version"]);
    assert_eq!(health["status"], "ok");
}

#[test]
fn a_banned_runner_is_on_the_crl_that_openssl_checks() {
    let stack = STACK.lock();
    let (good, bad) = (Key::generate(), Key::generate());
    let files = [(&good, "good"), (&bad, "bad")].map(|(key, name)| {
        let token = stack.admin().mint("acme");
        let answer = stack.enroll(key, &evidence::token("bootstrap-token", &token.token)).expect(200).json();
        let file = stack.folder().join(format!("{name}.pem"));
        std::fs::write(&file, answer["certificate"].as_str().unwrap()).unwrap();
        (answer["runner_id"].as_str().unwrap().to_owned(), file.display().to_string())
    });
    let [(_, good), (bad_id, bad)] = files;
    let answer = stack.admin().ban("acme", &bad_id, &json!({"reason": "lost laptop"}));
    assert_eq!(answer["state"], "banned");
    stack.admin().assert_on_crl(&[stack.admin().runner("acme", &bad_id).serial]);
    let crls = stack.folder().join("crls.pem");
    std::fs::write(&crls, stack.client().get("/v1/crl.pem").expect(200).body).unwrap();
    let verdict = |chain: &str| {
        let (root, crls) = (stack.root_file().display().to_string(), crls.display().to_string());
        let output = Command::new("openssl")
            .args(["verify", "-crl_check_all", "-CAfile", &root, "-CRLfile", &crls, "-untrusted", chain, chain])
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(verdict(&good).0, "{}", verdict(&good).1);
    let (accepted, why) = verdict(&bad);
    assert!(!accepted && why.contains("certificate revoked"), "{why}");
}
