//! Writes what fuzzing starts from into `corpus/`, out of the vectors of `tests/vectors` and the world of the targets. Files are named by
//! their hash, so that writing again adds nothing twice.
//!
//! `cargo run -p edge-fuzz --example seeds [DIR]`

use std::fs;
use std::path::{Path, PathBuf};

use edge_fuzz::certificate::CSR;
use edge_fuzz::enroll_body::outside_with_token;
use edge_fuzz::world::{NOW, POLICY, World, name_of};
use pollster::block_on;
use serde_json::{Value, json};
use verifier::encoding::{b64url, from_b64url, hex};
use verifier::issuance::{UnverifiedCsr, issue};
use verifier::ports::fakes::AnySignature;
use verifier::registry::Allotment;
use x509_cert::der::pem::{LineEnding, encode_string};

/// Larger inputs only slow a fuzzer down.
const LARGEST: usize = 8 * 1024;

struct Corpus(PathBuf);

impl Corpus {
    fn add(&self, target: &str, input: impl AsRef<[u8]>) {
        let input = input.as_ref();
        if input.len() <= LARGEST {
            let dir = self.0.join(target);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(name_of(input)), input).unwrap();
        }
    }
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors")
}

fn index(folder: &str) -> Vec<Value> {
    serde_json::from_slice(&fs::read(vectors().join(folder).join("index.json")).unwrap()).unwrap()
}

fn main() {
    let dir =
        std::env::args().nth(1).map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), PathBuf::from);
    let corpus = Corpus(dir);
    requests(&corpus);
    authorizations(&corpus);
    answers(&corpus);
    tokens(&corpus);
    certificates(&corpus);
    policies(&corpus);
    bodies(&corpus);
}

fn attestation(case: &Value) -> Value {
    json!({"mode": "aws-sts", "region": case["region"], "headers": case["headers"], "body": case["body"]})
}

fn requests(corpus: &Corpus) {
    for case in index("sts-requests") {
        corpus.add("aws_sts_evidence", attestation(&case).to_string());
        for (name, value) in case["headers"].as_object().unwrap() {
            if name.eq_ignore_ascii_case("authorization") {
                corpus.add("authorization", value.as_str().unwrap());
            }
        }
    }
}

/// Other forms of the header, that are no SigV4.
fn authorizations(corpus: &Corpus) {
    let scope = "Credential=AKIDEXAMPLE/20260921/eu-west-1/sts/aws4_request";
    let signature = format!("Signature={}", "0a".repeat(32));
    let signed = "SignedHeaders=host;x-amz-date";
    for value in [
        format!("AWS4-ECDSA-P256-SHA256 {scope}, {signed}, {signature}"),
        "AWS AKIDEXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=".to_owned(),
        format!("AWS4-HMAC-SHA256 {scope}, {signed}, {}", signature.to_uppercase()),
        format!("AWS4-HMAC-SHA256 {scope}, {signed}, {signed}, {signature}"),
        format!("AWS4-HMAC-SHA256 {signed}, {scope}, {signature}"),
        format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host;host, {signature}"),
        format!("AWS4-HMAC-SHA256  {scope},{signed},{signature}"),
        format!("AWS4-HMAC-SHA256 {scope}/more, {signed}, {signature}"),
        format!("Bearer {signature}"),
    ] {
        corpus.add("authorization", value);
    }
}

fn answers(corpus: &Corpus) {
    for case in index("sts-responses") {
        corpus
            .add("sts_answer", fs::read(vectors().join("sts-responses").join(case["file"].as_str().unwrap())).unwrap());
        if let Some(arn) = case["arn"].as_str() {
            corpus.add("caller_arn", arn);
        }
    }
    for arn in [
        "arn:aws:iam::123456789012:root",
        "arn:aws:sts::123456789012:federated-user/a",
        "arn:aws:sts::123456789012:assumed-role/r",
        "arn:aws:sts::123456789012:assumed-role/r/s/t",
        "arn:aws:iam::12345678901:user/a",
        "arn:aws:iam:us-east-1:123456789012:user/a",
        "arn:aws-eusc:iam::123456789012:user/a/b/c",
        "arn:aws-us-gov:sts::123456789012:assumed-role/r+=,.@_-/s=,.@-",
    ] {
        corpus.add("caller_arn", arn);
    }
}

fn tokens(corpus: &Corpus) {
    for case in index("oidc-tokens") {
        let token = case["token"].as_str().unwrap();
        corpus.add("jws", token);
        let parts: Vec<_> = token.split('.').filter_map(from_b64url).collect();
        if let [header, payload, _] = &parts[..] {
            corpus.add("token_claims", [header, b"\n".as_slice(), payload].concat());
        }
    }
    for entry in fs::read_dir(vectors().join("oidc-tokens")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "index.json" {
            corpus.add("jwks", fs::read(vectors().join("oidc-tokens").join(name)).unwrap());
        }
    }
    let wild = json!({
        "iss": "https://container.googleapis.com/v1/projects/wild-prod/locations/us-east1/clusters/any",
        "aud": "edge.example.com", "exp": 1_790_003_000, "iat": 1_789_999_400, "sub": "system:serviceaccount:runners:runner",
        "kubernetes.io": {"namespace": "runners", "pod": {"name": "p", "uid": "u"}, "serviceaccount": {"name": "runner", "uid": "v"}}
    });
    let kid = index("oidc-tokens")[0]["token"].as_str().unwrap().split('.').next().and_then(from_b64url).unwrap();
    corpus.add("token_claims", [&kid, b"\n".as_slice(), wild.to_string().as_bytes()].concat());
}

fn certificates(corpus: &Corpus) {
    for case in index("csr") {
        corpus.add("csr", fs::read(vectors().join("csr").join(case["file"].as_str().unwrap())).unwrap());
    }
    World::with(|world| {
        let leaf = leaf(world);
        let pem = encode_string("CERTIFICATE", LineEnding::LF, &leaf).unwrap();
        let rfc9440 = format!(":{}:", pem.lines().filter(|line| !line.starts_with('-')).collect::<String>());
        corpus.add("certificate", &leaf);
        corpus.add("certificate", &pem);
        corpus.add("certificate", pem.replace("CERTIFICATE", "X509 CERTIFICATE"));
        corpus.add("certificate", &rfc9440);
        corpus.add("certificate", &rfc9440[1..]);
        corpus.add("certificate", rfc9440.replace('=', ""));
        corpus.add("certificate", world.root.der());
        corpus.add("certificate", world.ca.issuing().der());
        corpus.add("certificate", [leaf.as_slice(), &[0]].concat());
        corpus.add("certificate", &leaf[..leaf.len() / 2]);
        for (name, with) in [(b"/acme/".as_slice(), b"/acne/".as_slice()), (b"O=", b"O-")] {
            corpus.add("certificate", replace(&leaf, name, with));
        }
        corpus.add("certificate", replace(&leaf, &[0x55, 0x1d, 0x13], &[0x55, 0x1d, 0x14]));
        corpus.add("certificate", replace(&leaf, &[0x55, 0x1d, 0x11], &[0x55, 0x1d, 0x12]));
    });
}

fn replace(octets: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = octets.to_vec();
    if let Some(at) = octets.windows(from.len()).position(|window| window == from) {
        changed[at..at + to.len()].copy_from_slice(to);
    }
    changed
}

/// A runner's certificate for the key of [`CSR`].
fn leaf(world: &World) -> Vec<u8> {
    let csr = block_on(UnverifiedCsr::from_der(CSR.to_vec()).unwrap().verify(&AnySignature(true))).unwrap();
    let allotment = Allotment {
        tenant: "acme".to_owned(),
        runner_id: "mfzwizltmfzwizltmfzwizltab".to_owned(),
        serial: "4a0102030405060708090a0b0c0d0e0f".to_owned(),
        spki_sha256: hex(csr.spki_sha256()),
        not_before: NOW.plus(-60),
        not_after: NOW.plus(3600),
        reattest_before: None,
    };
    let crl_url = Some("http://edge.example.com/v1/crl");
    block_on(issue(&allotment, &csr, &world.ca, "edge.example.com", crl_url, &world.key)).unwrap().der
}

fn policies(corpus: &Corpus) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../verifier/src/appraisal/testdata");
    for name in ["example.toml", "broken.toml"] {
        let document: toml::Value = toml::from_str(&fs::read_to_string(examples.join(name)).unwrap()).unwrap();
        corpus.add("policy", serde_json::to_string(&document).unwrap());
    }
    corpus.add("policy", POLICY);
    let names = json!({"trust_domain": "edge.example.com", "audience": "edge.example.com"});
    corpus.add("policy", names.to_string());
    for more in [
        json!({"one_key_per_instance": true, "certificates": {"ttl": "5m", "reattest_after": "30d", "bootstrap_reattest_after": "1h", "crl_url": "http://a.example/v1/crl"}}),
        json!({"certificates": {"ttl": "24h", "reattest_after": "1h"}}),
        json!({"aws_sts": {"regions": ["cn-north-1", "us-gov-west-1"], "fips": true, "endpoints": {"cn-north-1": "http://127.0.0.1:4566"}}}),
        json!({"aws_sts": {"regions": ["evil.com?"], "endpoints": {"us-east-1": "http://evil.example"}}}),
        json!({"audience": "sts.amazonaws.com"}),
        json!({"oidc_issuers": [{"mode": "eks-oidc", "issuer": "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E", "jwks_uri": "http://127.0.0.1:8080/keys", "max_token_lifetime": "24h"}]}),
        json!({"oidc_issuers": [{"mode": "gke-oidc", "issuer": "https://evil.example", "jwks": {"keys": []}}]}),
        json!({"tenants": [{"id": "a", "rules": [{"mode": "gke-oidc", "project": "acme-prod", "location": "*", "cluster": "*", "namespace": "n", "service_account": "s"}]}]}),
        json!({"aws_sts": {"regions": ["us-east-1"]}, "tenants": [
            {"id": "a", "rules": [{"mode": "aws-sts", "account": "111122223333", "role": "r*"}]},
            {"id": "b", "rules": [{"mode": "aws-sts", "account": "111122223333", "role": "rr", "session": "s"}]}]}),
        json!({"tenants": 5}),
        json!({"tenants": [{"id": "A"}, 7, {"rules": [{"mode": "mtls-renewal"}, {}]}]}),
    ] {
        let mut document = names.clone();
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        corpus.add("policy", document.to_string());
    }
    corpus.add("policy", r#"{"audience":"a","audience":"b"}"#);
}

fn bodies(corpus: &Corpus) {
    let csr = fs::read_to_string(vectors().join("sts-requests/csr.pem")).unwrap();
    let add =
        |attestation: &Value| corpus.add("enroll_body", json!({"csr": csr, "attestation": attestation}).to_string());
    let (_, token) = outside_with_token();
    add(&json!({"mode": "bootstrap-token", "token": token}));
    add(&json!({"mode": "bootstrap-token", "token": token.replace("acme", "closed")}));
    add(&json!({"mode": "mtls-renewal"}));
    for case in index("sts-requests").iter().filter(|case| case["expect"] == "accept") {
        add(&attestation(case));
    }
    let tokens = index("oidc-tokens");
    let pick =
        |expect: &str| tokens.iter().filter(move |case| case["expect"] == expect).take(6).cloned().collect::<Vec<_>>();
    for case in [pick("accept"), pick("refuse")].concat() {
        let eks = case["issuer"].as_str().unwrap().contains("oidc.eks");
        add(&json!({"mode": if eks { "eks-oidc" } else { "gke-oidc" }, "token": case["token"]}));
    }
    World::with(|world| {
        let certificate = encode_string("CERTIFICATE", LineEnding::LF, &leaf(world)).unwrap();
        add(&json!({"mode": "mtls-renewal", "certificate": certificate, "timestamp": NOW.secs(), "signature": "AAAA"}));
    });
    let evidence = json!({"mode": "gke-oidc", "token": tokens[0]["token"]});
    for body in [
        json!({"spki_sha256": b64url(&[7; 32]), "attestation": evidence, "consume": false}),
        json!({"csr": b64url(CSR), "attestation": evidence, "consume": true}),
        json!({"spki_sha256": b64url(&[7; 32]), "attestation": {"mode": "bootstrap-token", "token": token}}),
        json!([csr, evidence]),
        json!({"csr": csr}),
        json!({"csr": csr, "attestation": evidence, "more": 1}),
    ] {
        corpus.add("enroll_body", body.to_string());
    }
    corpus.add("enroll_body", r#"{"csr":"a","csr":"b","attestation":{"mode":"gke-oidc","token":"x"}}"#);
}
