//! `gke-oidc` and `eks-oidc` against hosts of keys that misbehave: what the runner is told, how many fetches were made, and that good
//! runners keep enrolling while they can (CHECKS K3, K4, K8, K9).
//!
//! Every test has clusters of its own, so that it begins with a cold cache.

use std::time::{Duration, Instant};

use edge_tests::emulators::fault::JwksShape;
use edge_tests::emulators::oidc::{KeyAlgorithm, Rotation, eks_issuer, gke_issuer};
use edge_tests::emulators::{Fault, FaultPlan, TokenOptions};
use edge_tests::load;
use edge_tests::stack::{Answer, Key, Options, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_retryable};

static STACK: Shared = Shared::new("jwks");

/// A cluster with ES256 keys of its own.
#[derive(Clone)]
struct Cluster {
    mode: &'static str,
    name: String,
    issuer: String,
}

impl Cluster {
    /// On GKE, or on EKS when its name begins so.
    fn new(stack: &Stack, name: &str) -> Self {
        let (mode, issuer) = match name.strip_prefix("eks-") {
            None => ("gke-oidc", gke_issuer("acme-prod", "europe-west4", name)),
            Some(id) => {
                let id = id.replace('-', "").to_uppercase();
                ("eks-oidc", eks_issuer("eu-west-1", &format!("{id:0<32}")))
            }
        };
        stack.issuer.add_issuer(&issuer, KeyAlgorithm::ES256);
        Self { mode, name: name.to_owned(), issuer }
    }

    /// In the policy: the issuer, with `keys` as `jwks_uri` or `jwks` entry, and acme's rule.
    fn admit(&self, policy: &mut Value, keys: (&str, Value)) {
        let mut entry = json!({"mode": self.mode, "issuer": self.issuer});
        entry[keys.0] = keys.1;
        policy["oidc_issuers"].as_array_mut().unwrap().push(entry);
        let mut rule = json!({"mode": self.mode, "namespace": "rootpilot", "service_account": "runner"});
        let place = if self.mode == "gke-oidc" {
            json!({"project": "acme-prod", "location": "europe-west4", "cluster": self.name})
        } else {
            json!({"issuer": self.issuer})
        };
        rule.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        policy["tenants"][0]["rules"].as_array_mut().unwrap().push(rule);
    }

    fn path(&self, stack: &Stack) -> String {
        stack.issuer.jwks_path(&self.issuer)
    }

    fn fetches(&self, stack: &Stack) -> u64 {
        stack.issuer.fetches(&self.path(stack))
    }

    fn token(&self, stack: &Stack, change: impl FnOnce(&mut TokenOptions)) -> String {
        let mut options = TokenOptions { issuer: Some(self.issuer.clone()), ..TokenOptions::default() };
        change(&mut options);
        stack.issuer.token(&options)
    }

    fn enroll(&self, stack: &Stack) -> Answer {
        self.enroll_with(stack, |_| {})
    }

    fn enroll_with(&self, stack: &Stack, change: impl FnOnce(&mut TokenOptions)) -> Answer {
        stack.enroll(&Key::generate(), &evidence::token(self.mode, &self.token(stack, change)))
    }
}

/// Clusters of these names, fetched from the emulator, in force.
fn clusters<const N: usize>(stack: &Stack, names: [&str; N]) -> [Cluster; N] {
    let clusters = names.map(|name| Cluster::new(stack, name));
    admit(stack, &clusters);
    clusters
}

fn admit(stack: &Stack, clusters: &[Cluster]) {
    let mut policy = stack.policy();
    for cluster in clusters {
        cluster.admit(&mut policy, ("jwks_uri", json!(stack.issuer.jwks_uri(&cluster.issuer))));
    }
    stack.admin().apply(&policy);
}

/// For each fault a cluster of either kind that has it.
fn faulty(stack: &Stack, faults: &[(&str, Fault)]) -> Vec<Cluster> {
    let both = |name: &str| [name.to_owned(), format!("eks-{name}")];
    let all = faults.iter().flat_map(|(name, _)| both(name).map(|name| Cluster::new(stack, &name))).collect::<Vec<_>>();
    admit(stack, &all);
    let of_all = faults.iter().flat_map(|(_, fault)| [fault, fault]).zip(&all);
    let plans = of_all.map(|(fault, cluster)| FaultPlan::from(fault.clone()).on_path(&cluster.path(stack)));
    stack.issuer.set_faults(plans.collect::<Vec<_>>());
    all
}

fn random_kid(options: &mut TokenOptions) {
    options.header = json!({"kid": uuid::Uuid::new_v4().to_string()});
}

/// 200 with this body.
fn json_body(body: String) -> Fault {
    Fault::Status { status: 200, body: Some(body), content_type: Some("application/json".to_owned()) }
}

#[test]
fn a_host_that_fails_is_unavailable_and_asked_again_once_it_is_well() {
    let stack = STACK.lock();
    let shape = |shape| Fault::Jwks { shape };
    let faults = [
        ("down-500", Fault::status(500)),
        ("down-404", Fault::status(404)),
        ("down-403", Fault::status(403)),
        ("down-204", Fault::status(204)),
        ("down-429", Fault::Throttle),
        ("down-hang", Fault::Hang),
        ("down-stall", Fault::StallMidBody),
        ("down-redirect", Fault::Redirect { location: format!("{}/elsewhere", stack.sts.url()), status: 302 }),
        ("down-html", Fault::Html),
        ("down-garbage", Fault::Garbage),
        ("down-huge", Fault::Huge { bytes: 2 * 1024 * 1024 }),
        ("down-cut", Fault::CloseMidBody),
        ("down-close", Fault::Close),
        ("down-reset", Fault::Reset),
        ("down-many", shape(JwksShape::ManyKeys)),
        ("down-empty", shape(JwksShape::Empty)),
        ("down-null", shape(JwksShape::Null)),
        ("down-no-set", shape(JwksShape::NotAKeySet)),
        ("down-malformed", shape(JwksShape::AllMalformed)),
        ("down-private", shape(JwksShape::PrivateMembers)),
        ("down-deep", json_body(format!(r#"{{"keys":{}1{}}}"#, "[".repeat(20_000), "]".repeat(20_000)))),
        ("down-unclosed", json_body(r#"{"keys":"#.repeat(20_000))),
        ("down-name", json_body(format!(r#"{{"keys":[{{"{}":1}}]}}"#, "n".repeat(64 * 1024)))),
    ];
    let all = faulty(&stack, &faults);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let calls: Vec<_> = all.iter().map(|cluster| scope.spawn(|| cluster.enroll(&stack))).collect();
        for (cluster, call) in all.iter().zip(calls) {
            let answer = call.join().unwrap();
            assert_eq!(answer.status, 503, "{}: {}", cluster.name, answer.text());
            assert_retryable(&answer, "upstream_unavailable");
            assert!(answer.text().contains(&cluster.issuer), "{}", answer.text());
            // workerd sends a GET again when a connection that it had kept breaks (RFC 9110 section 9.2.2), at most once for each it kept.
            let breaks = ["down-close", "down-reset"].iter().any(|name| cluster.name.ends_with(name));
            let kept = if breaks { all.len() as u64 } else { 0 };
            assert!((1..=1 + kept).contains(&cluster.fetches(&stack)), "{}", cluster.name);
        }
    });
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!(stack.sts.request_count(), 0, "a redirect is not followed");
    // Other issuers of the isolate never noticed, and after a pause of a second each host is asked again.
    stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &stack.gke_token("bystander"))).assert_status(200);
    stack.issuer.clear_faults();
    std::thread::sleep(Duration::from_millis(2_100));
    for cluster in &all {
        let before = cluster.fetches(&stack);
        cluster.enroll(&stack).assert_status(200);
        assert_eq!(cluster.fetches(&stack), before + 1, "{}", cluster.name);
    }
}

#[test]
fn one_strange_key_does_not_spoil_a_set() {
    let stack = STACK.lock();
    let shapes = [
        ("odd-kty", JwksShape::UnknownKty),
        ("odd-no-alg", JwksShape::NoAlg),
        ("odd-base64", JwksShape::MalformedBase64),
        ("odd-twins", JwksShape::DuplicateKids),
    ];
    for cluster in &faulty(&stack, &shapes.map(|(name, shape)| (name, Fault::Jwks { shape }))) {
        cluster.enroll(&stack).assert_status(200);
        cluster.enroll(&stack).assert_status(200);
        cluster
            .enroll_with(&stack, |o| o.signature = edge_tests::emulators::oidc::SignatureKind::Flipped)
            .assert_problem(401, "attestation_invalid", "signature_invalid");
        assert_eq!(cluster.fetches(&stack), 1, "{}", cluster.name);
    }
}

#[test]
fn a_key_without_id_is_for_tokens_without_id() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["no-kid"]);
    stack.issuer.set_fault(Fault::Jwks { shape: JwksShape::NoKid });
    cluster.enroll_with(&stack, |options| options.header = json!({"kid": null})).assert_status(200);
    cluster.enroll(&stack).assert_problem(401, "attestation_invalid", "key_unknown");
}

#[test]
fn a_rotation_costs_one_fetch() {
    let stack = STACK.lock();
    for cluster in clusters(&stack, ["rotating", "eks-rotating"]) {
        assert_rotation_costs_one_fetch(&stack, &cluster);
    }
}

fn assert_rotation_costs_one_fetch(stack: &Stack, cluster: &Cluster) {
    cluster.enroll(stack).assert_status(200);
    let old = stack.issuer.signing_kid(&cluster.issuer);
    let before = cluster.token(stack, |options| "before-rotation".clone_into(&mut options.pod));
    stack
        .issuer
        .rotate(&cluster.issuer, Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: true, sign_with_new: true });
    cluster.enroll(stack).assert_status(200);
    assert_eq!(cluster.fetches(stack), 2, "the new key is fetched at once");
    let with_old = |pod: &str| {
        let (kid, pod) = (old.clone(), pod.to_owned());
        cluster.enroll_with(stack, move |options| (options.sign_with, options.pod) = (Some(kid), pod))
    };
    with_old("both-keys").assert_status(200);
    stack.enroll(&Key::generate(), &evidence::token(cluster.mode, &before)).assert_status(200);
    assert_eq!(cluster.fetches(stack), 2);

    // Another rotation within the cooldown of 30 s is not looked for.
    let again = Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: true, sign_with_new: true };
    stack.issuer.rotate(&cluster.issuer, again);
    cluster.enroll(stack).assert_problem(401, "attestation_invalid", "key_unknown");
    assert_eq!(cluster.fetches(stack), 2);
}

#[test]
fn a_dropped_key_is_no_key_after_the_next_fetch() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["dropping"]);
    cluster.enroll(&stack).assert_status(200);
    let old = stack.issuer.signing_kid(&cluster.issuer);
    let with_old = |pod: &str| {
        let (kid, pod) = (old.clone(), pod.to_owned());
        cluster.enroll_with(&stack, move |options| (options.sign_with, options.pod) = (Some(kid), pod))
    };
    let rotation = Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: false, sign_with_new: true };
    stack.issuer.rotate(&cluster.issuer, rotation);
    // Fresh for five minutes at least, unless a token of a new key brings about a fetch.
    with_old("still-fresh").assert_status(200);
    cluster.enroll(&stack).assert_status(200);
    with_old("dropped").assert_problem(401, "attestation_invalid", "key_unknown");
    assert_eq!(cluster.fetches(&stack), 2);
}

#[test]
fn a_flood_of_random_key_ids_causes_one_fetch_and_good_runners_go_on() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["flooded"]);
    cluster.enroll(&stack).assert_status(200);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let key = Key::generate();
                for number in 0..load::size(250, 2_500) {
                    let token = cluster.token(&stack, random_kid);
                    let answer = stack.enroll(&key, &evidence::token("gke-oidc", &token));
                    answer.assert_problem(401, "attestation_invalid", "key_unknown");
                    if number % 50 == 0 {
                        cluster.enroll(&stack).assert_status(200);
                    }
                }
            });
        }
    });
    let (fetches, elapsed) = (cluster.fetches(&stack), started.elapsed());
    eprintln!(
        "{} tokens of random key ids in {elapsed:.1?}: {fetches} fetches, the first included",
        load::size(1_000, 10_000)
    );
    // One for the warm-up, one a cooldown of 30 s.
    let allowed = 2 + elapsed.as_secs() / 30;
    assert!((2..=allowed).contains(&fetches), "{fetches} in {elapsed:?}");
}

#[test]
fn a_flood_while_the_host_is_down_is_as_cheap_and_known_keys_serve() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["flooded-down"]);
    cluster.enroll(&stack).assert_status(200);
    stack.issuer.set_fault(Fault::status(500));
    let started = Instant::now();
    for _ in 0..50 {
        // The key may be in the set that nobody could fetch.
        assert_retryable(&cluster.enroll_with(&stack, random_kid), "upstream_unavailable");
        cluster.enroll(&stack).assert_status(200);
    }
    let allowed = 2 + started.elapsed().as_secs() / 30;
    assert!((2..=allowed).contains(&cluster.fetches(&stack)), "{}", cluster.fetches(&stack));
}

#[test]
fn a_cold_issuer_that_fails_is_not_asked_by_everyone() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["cold-down"]);
    stack.issuer.set_fault(Fault::status(503));
    let started = Instant::now();
    for _ in 0..40 {
        assert_retryable(&cluster.enroll(&stack), "upstream_unavailable");
    }
    // At most one a second.
    let allowed = 2 + started.elapsed().as_secs();
    assert!(cluster.fetches(&stack) <= allowed, "{} in {:?}", cluster.fetches(&stack), started.elapsed());
}

/// CHECKS K9: failures are counted when they begin, so that nobody waits for a host that is known to hang but one a second.
#[test]
fn a_cold_issuer_that_hangs_is_not_waited_for_by_everyone() {
    let stack = STACK.lock();
    let [cluster] = clusters(&stack, ["cold-hanging"]);
    stack.issuer.set_fault(Fault::Hang);
    assert_retryable(&cluster.enroll(&stack), "upstream_unavailable");
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_retryable(&cluster.enroll(&stack), "upstream_unavailable"));
        }
    });
    let allowed = 2 + started.elapsed().as_secs();
    assert!(cluster.fetches(&stack) <= allowed, "{} in {:?}", cluster.fetches(&stack), started.elapsed());
}

/// CHECKS K8: isolate memory, then the data centre's cache, then the issuer.
#[test]
fn a_new_isolate_takes_the_keys_from_the_data_centres_cache() {
    let mut stack = Stack::start(Options::new("jwks-data-centre"));
    let enroll =
        |stack: &Stack, pod: &str| stack.enroll(&Key::generate(), &evidence::token("eks-oidc", &stack.eks_token(pod)));
    enroll(&stack, "before").assert_status(200);
    stack.issuer.set_fault(Fault::status(500));
    stack.restart();
    enroll(&stack, "after").assert_status(200);
    assert_eq!(stack.issuer.fetch_count(), 1);
}

#[test]
fn keys_written_in_the_policy_are_never_fetched_and_change_with_it() {
    let stack = STACK.lock();
    let cluster = Cluster::new(&stack, "private");
    let apply = || {
        let mut policy = stack.policy();
        cluster.admit(&mut policy, ("jwks", stack.issuer.jwks(&cluster.issuer)));
        stack.admin().apply(&policy);
    };
    apply();
    cluster.enroll(&stack).assert_status(200);
    cluster.enroll_with(&stack, random_kid).assert_problem(401, "attestation_invalid", "key_unknown");
    let rotation = Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: false, sign_with_new: true };
    stack.issuer.rotate(&cluster.issuer, rotation);
    cluster.enroll(&stack).assert_problem(401, "attestation_invalid", "key_unknown");
    apply();
    cluster.enroll(&stack).assert_status(200);
    assert_eq!(stack.issuer.fetch_count(), 0);
}

#[test]
fn a_cluster_changes_its_issuer_without_downtime() {
    let stack = STACK.lock();
    let [old, new] = ["before-the-change", "after-the-change"].map(|name| Cluster::new(&stack, name));
    let apply = |clusters: &[&Cluster]| {
        let mut policy = stack.policy();
        for cluster in clusters {
            cluster.admit(&mut policy, ("jwks_uri", json!(stack.issuer.jwks_uri(&cluster.issuer))));
        }
        stack.admin().apply(&policy);
    };
    apply(&[&old]);
    old.enroll(&stack).assert_status(200);
    new.enroll(&stack).assert_problem(401, "attestation_invalid", "issuer_unknown");
    // Both while the API server signs for one and pods still hold tokens of the other.
    apply(&[&old, &new]);
    old.enroll(&stack).assert_status(200);
    new.enroll(&stack).assert_status(200);
    apply(&[&new]);
    new.enroll(&stack).assert_status(200);
    old.enroll(&stack).assert_problem(401, "attestation_invalid", "issuer_unknown");
    assert_eq!((old.fetches(&stack), new.fetches(&stack)), (1, 1), "a new policy empties no cache");
}

#[test]
fn an_issuer_that_the_policy_does_not_name_is_unknown_and_never_asked() {
    let stack = STACK.lock();
    let token =
        |issuer: &str| stack.issuer.token(&TokenOptions { issuer: Some(issuer.to_owned()), ..TokenOptions::default() });
    let send = |mode: &str, issuer: &str| stack.enroll(&Key::generate(), &evidence::token(mode, &token(issuer)));
    let unnamed = eks_issuer("eu-west-1", &"0".repeat(32));
    for (mode, issuer) in [
        ("gke-oidc", gke_issuer("acme-prod", "europe-west1", "other")),
        ("gke-oidc", gke_issuer("acme-prod", "europe-west1", "runners") + "/"),
        ("gke-oidc", gke_issuer("acme-prod", "europe-west1", "runners").replace("https://", "http://")),
        ("gke-oidc", stack.issuer.url()),
        ("gke-oidc", edge_tests::stack::EKS_ISSUER.to_owned()),
        ("eks-oidc", edge_tests::stack::GKE_ISSUER.to_owned()),
        ("eks-oidc", unnamed.clone()),
    ] {
        let answer = send(mode, &issuer);
        answer.assert_problem(401, "attestation_invalid", "issuer_unknown");
        assert!(!answer.text().contains("On EKS"), "{}", answer.text());
    }
    let mut policy = stack.policy();
    policy["oidc_issuers"].as_array_mut().unwrap().remove(1);
    policy["tenants"][0]["rules"].as_array_mut().unwrap().remove(3);
    stack.admin().apply(&policy);
    let detail = send("eks-oidc", &unnamed).json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("On EKS, use aws-sts, or name the issuer in the policy."), "{detail}");
    assert_eq!(stack.issuer.fetch_count(), 0);
}
