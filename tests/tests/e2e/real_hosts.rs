//! The addresses of production: STS hosts by region, GKE's and EKS's hosts of keys, with the emulators standing in for them.
//!
//! Here no policy names an endpoint or a `jwks_uri`, so what is called is what the verifier itself makes of region and issuer.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use edge_tests::emulators::oidc::gke_issuer;
use edge_tests::emulators::{Fault, TokenOptions};
use edge_tests::load;
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, AUDIENCE, Answer, EKS_ISSUER, Key, Options, Stack, evidence, places};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::support::assert_retryable;

static STACK: LazyLock<Mutex<Stack>> = LazyLock::new(|| {
    Mutex::new(Stack::start(Options { real_hosts: true, inspector: true, ..Options::new("real-hosts") }))
});

fn stack() -> MutexGuard<'static, Stack> {
    let stack = STACK.lock();
    stack.sts.forget_requests();
    stack.issuer.clear_faults();
    stack.issuer.forget_fetches();
    stack
}

/// Everything at its real host, and a rule for every cluster of the project `wild-<suffix>`.
fn apply(stack: &Stack, suffix: &str) {
    let mut policy = stack.policy();
    policy["aws_sts"] = json!({"regions": ["us-east-1", "eu-west-1"], "fips": true});
    policy.as_object_mut().unwrap().remove("oidc_issuers");
    policy["tenants"][0]["rules"].as_array_mut().unwrap().push(json!({
        "mode": "gke-oidc", "project": format!("wild-{suffix}"), "location": "europe-west1", "cluster": "*",
        "namespace": "rootpilot", "service_account": "runner",
    }));
    stack.admin().apply(&policy);
}

fn enroll(stack: &Stack, mode: &str, issuer: &str) -> Answer {
    let token = stack.issuer.token(&TokenOptions { issuer: Some(issuer.to_owned()), ..TokenOptions::default() });
    stack.enroll(&Key::generate(), &evidence::token(mode, &token))
}

#[test]
fn sts_is_called_at_the_host_of_its_region() {
    let stack = stack();
    apply(&stack, "unused");
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    for (region, host) in [
        ("eu-west-1", "sts.eu-west-1.amazonaws.com"),
        ("us-east-1", "sts.us-east-1.amazonaws.com"),
        ("us-east-1", "sts-fips.us-east-1.amazonaws.com"),
    ] {
        let key = Key::generate();
        let request = evidence::StsRequest::new(&role, region, &format!("https://{host}"), AUDIENCE, &key);
        stack.enroll(&key, &request.evidence()).assert_status(200);
        assert_eq!(stack.sts.requests().last().unwrap().header("host").as_deref(), Some(host));
    }
    let calls = stack.sts.request_count();
    let key = Key::generate();
    for host in ["sts.amazonaws.com", "sts.us-east-1.amazonaws.com", "sts.eu-central-1.amazonaws.com", "127.0.0.1"] {
        let request = evidence::StsRequest::new(&role, "eu-west-1", &format!("https://{host}"), AUDIENCE, &key);
        stack.enroll(&key, &request.evidence()).assert_problem(401, "attestation_invalid", "host_not_allowed");
    }
    assert_eq!(stack.sts.request_count(), calls);
}

#[test]
fn keys_are_fetched_where_the_issuer_says_its_keys_are() {
    let stack = stack();
    apply(&stack, "where");
    let gke = gke_issuer("wild-where", "europe-west1", "runners");
    for (mode, issuer, host) in [
        ("eks-oidc", EKS_ISSUER, "oidc.eks.eu-west-1.amazonaws.com"),
        ("gke-oidc", gke.as_str(), "container.googleapis.com"),
    ] {
        enroll(&stack, mode, issuer).assert_status(200);
        let asked = stack.issuer.requests().pop().unwrap();
        assert_eq!(
            (asked.method.as_str(), asked.path.clone(), asked.query.as_str()),
            ("GET", stack.issuer.jwks_path(issuer), "")
        );
        assert_eq!(asked.header("host").as_deref(), Some(host));
        assert_eq!(asked.header("authorization"), None);
    }
}

#[test]
fn a_wildcard_takes_every_cluster_of_its_project_and_place_and_of_no_other() {
    let stack = stack();
    apply(&stack, "one");
    let cluster = gke_issuer("wild-one", "europe-west1", "anything");
    enroll(&stack, "gke-oidc", &cluster).assert_status(200);
    let fetched = stack.issuer.fetch_count();
    for issuer in [
        gke_issuer("wild-two", "europe-west1", "anything"),
        gke_issuer("wild-one", "us-central1", "anything"),
        gke_issuer("wild-one", "europe-west1", "any/../thing"),
        gke_issuer("wild-one", "europe-west1", "UPPER"),
        format!("{cluster}/"),
        format!("{cluster}?x"),
        cluster.replace("container.googleapis.com", "container.googleapis.com.evil.example"),
    ] {
        enroll(&stack, "gke-oidc", &issuer).assert_problem(401, "attestation_invalid", "issuer_unknown");
    }
    assert_eq!(stack.issuer.fetch_count(), fetched, "none of them was asked");
}

#[test]
fn a_cluster_that_its_host_does_not_know_is_unknown_and_not_asked_for_again() {
    let stack = stack();
    apply(&stack, "gone");
    for (status, name) in [(404, "deleted"), (403, "hidden"), (410, "former")] {
        let cluster = gke_issuer("wild-gone", "europe-west1", name);
        stack.issuer.set_fault(Fault::status(status));
        for _ in 0..3 {
            enroll(&stack, "gke-oidc", &cluster).assert_problem(401, "attestation_invalid", "issuer_unknown");
        }
        assert_eq!(stack.issuer.fetches(&stack.issuer.jwks_path(&cluster)), 1);
    }
    let down = gke_issuer("wild-gone", "europe-west1", "down");
    stack.issuer.set_fault(Fault::status(500));
    assert_retryable(&enroll(&stack, "gke-oidc", &down), "upstream_unavailable");
}

#[test]
fn a_cluster_that_a_policy_names_is_asked_for_though_its_wildcard_found_it_unknown() {
    let stack = stack();
    apply(&stack, "early");
    let cluster = gke_issuer("wild-early", "europe-west1", "late");
    stack.issuer.set_fault(Fault::status(404));
    enroll(&stack, "gke-oidc", &cluster).assert_problem(401, "attestation_invalid", "issuer_unknown");
    let mut policy = stack.admin().policy();
    let rules = policy["tenants"][0]["rules"].as_array_mut().unwrap();
    let mut rule = rules.last().unwrap().clone();
    rule["cluster"] = json!("late");
    rules.push(rule);
    stack.admin().apply(&policy);
    // To an issuer that is named the same answer is a host that fails, and is over as soon as it has passed.
    assert_retryable(&enroll(&stack, "gke-oidc", &cluster), "upstream_unavailable");
    stack.issuer.clear_faults();
    std::thread::sleep(Duration::from_millis(2_100));
    enroll(&stack, "gke-oidc", &cluster).assert_status(200);
}

/// Tokens of clusters that nobody has heard of. How many got a certificate; the others are put off.
fn flood(stack: &Stack, clusters: &[usize]) -> usize {
    let served = clusters.iter().filter(|number| {
        let answer = enroll(stack, "gke-oidc", &gke_issuer("wild-flood", "europe-west1", &format!("c{number}")));
        if answer.status != 200 {
            assert_retryable(&answer, "upstream_unavailable");
        }
        answer.status == 200
    });
    served.count()
}

/// KiB that the isolate keeps, its wasm module's memory included.
fn kept(stack: &Stack) -> u64 {
    let answer = stack.client().get("/wasm-memory").expect(200);
    let module: u64 = str::from_utf8(&answer.body).unwrap().parse().unwrap();
    (module + stack.heap()) / 1024
}

#[test]
fn a_flood_of_clusters_spends_the_budget_of_its_project_and_no_other() {
    let entry = Some(places::root().join("tests/js/memory.mjs"));
    let stack = Stack::start(Options { real_hosts: true, inspector: true, entry, ..Options::new("flood") });
    apply(&stack, "flood");
    let known = gke_issuer("wild-flood", "europe-west1", "known");
    enroll(&stack, "gke-oidc", &known).assert_status(200);
    let (clusters, before, started) = (load::size(200, 10_000), kept(&stack), Instant::now());
    let numbers: Vec<usize> = (0..clusters).collect();
    let served: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = numbers.chunks(clusters / 4).map(|chunk| scope.spawn(|| flood(&stack, chunk))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    let (elapsed, after) = (started.elapsed(), kept(&stack));
    eprintln!(
        "{clusters} clusters of one project in {elapsed:.1?}: {served} asked for; {before} KiB kept before, {after} KiB after"
    );
    // Ten new issuers a minute, the known one among them; the window may have moved on in between.
    let minutes = usize::try_from(elapsed.as_secs() / 60).unwrap();
    assert!((9..=19 + 10 * (minutes + 1)).contains(&served), "{served} in {elapsed:?}");
    assert_eq!(stack.issuer.fetch_count(), 1 + u64::try_from(served).unwrap());
    // Of the 128 MB that an isolate may have.
    assert!(after < before + 8 * 1024, "{before} KiB before, {after} KiB after");
    // A cluster whose keys are known goes on, and so does every other project.
    enroll(&stack, "gke-oidc", &known).assert_status(200);
    enroll(&stack, "gke-oidc", &gke_issuer("acme-prod", "europe-west1", "runners")).assert_status(200);
}

#[test]
fn a_host_that_nobody_stands_in_for_is_down() {
    let stack = stack();
    let mut policy: Value = stack.policy();
    policy["aws_sts"] = json!({"regions": ["ap-south-1"]});
    stack.admin().apply(&policy);
    let (key, role) = (Key::generate(), stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc"));
    let request =
        evidence::StsRequest::new(&role, "ap-south-1", "https://sts.ap-south-1.amazonaws.com", AUDIENCE, &key);
    assert_retryable(&stack.enroll(&key, &request.evidence()), "upstream_unavailable");
}
