//! K8 and K9: where keys come from, over fakes of the host and of the data centre's cache.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use pollster::block_on;
use protocol::{Code, Mode, Reason};
use serde_json::json;
use verifier::appraisal::policy::KeySource;
use verifier::evidence::kubernetes_oidc::{Ports, verify};
use verifier::jose::{JwksCache, KeySources, refresh};
use verifier::ports::fakes::{FakeHttp, response};
use verifier::ports::{HttpError, HttpResponse, JwksStore, NoJwksStore, StoredJwks};
use verifier::rust_crypto::RustCrypto;
use verifier::suites::oidc::{GKE, settings};
use verifier::trace::Trace;
use verifier::{Denial, UnixTime};

use crate::support::{AUDIENCE, Answer, NOW, Signer, World, claims, jwks, reason, with};
use crate::vectors::file;

fn token() -> String {
    Signer::new("a").sign(&claims())
}

fn good() -> HttpResponse {
    jwks(&[Signer::new("a").jwk()])
}

#[track_caller]
fn unavailable(result: Result<verifier::evidence::VerifiedIdentity, Denial>) {
    let denial = result.expect_err("no keys");
    assert_eq!((denial.code, denial.reason), (Code::UpstreamUnavailable, None), "{denial:?}");
    assert!(denial.retry_after.is_some_and(|seconds| (1..=60).contains(&seconds)));
}

#[test]
fn k8_the_request_is_ours() {
    let world = World::new();
    world.verify(&token(), NOW).unwrap();
    let sent = world.http.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].url, format!("{GKE}/jwks"));
    assert_eq!((sent[0].body, sent[0].timeout_ms, sent[0].max_body), (None, 5_000, 65_536));
    assert_eq!(sent[0].headers, [("accept".to_owned(), "application/json".to_owned())]);
    // An address that an operator wrote may answer more.
    let mut world = World::new();
    world.settings.issuers[0].keys = KeySource::Fetch { jwks_uri: "http://127.0.0.1:8081/jwks".to_owned() };
    world.verify(&token(), NOW).unwrap();
    assert_eq!((&*world.http.sent()[0].url, world.http.sent()[0].max_body), ("http://127.0.0.1:8081/jwks", 1 << 20));
}

#[test]
fn k8_no_other_scheme_or_host_form_is_ever_called() {
    for jwks_uri in [
        "http://keys.example.com/jwks",
        "http://127.0.0.1.evil.example/jwks",
        "http://127.0.0.1@evil.example/jwks",
        "http://localhost.evil.example/jwks",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "//127.0.0.1/",
        "",
    ] {
        let mut world = World::new();
        world.settings.issuers[0].keys = KeySource::Fetch { jwks_uri: jwks_uri.to_owned() };
        unavailable(world.verify(&token(), NOW));
        assert_eq!(world.fetches(), 0, "{jwks_uri}");
    }
}

#[test]
fn k8_every_failure_of_the_host_is_a_retry() {
    let mut failures: Vec<Answer> = [201, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 410, 429, 500, 503]
        .map(|status| Ok(HttpResponse { status, ..good() }))
        .into();
    failures
        .extend([HttpError::Connect, HttpError::Timeout, HttpError::Cut, HttpError::TooLarge { status: 200 }].map(Err));
    failures.extend(
        [
            "jwks_truncated.json",
            "jwks_keys_null.json",
            "jwks_html_error.json",
            "jwks_empty_keys.json",
            "gke_openid_configuration.json",
        ]
        .map(|name| Ok(response(200, "application/json", file(name)))),
    );
    failures.push(Ok(jwks(&[json!({"kty": "oct", "k": "AAAA", "kid": "a"})])));
    failures.push(Ok(jwks(&vec![Signer::new("a").jwk(); 101])));
    failures.push(Ok(response(200, "application/json", vec![b'['; 1 << 20])));
    failures.push(Ok(response(200, "application/json", "")));
    for failure in failures {
        let answer = failure.clone();
        unavailable(World::answering(move |_| answer.clone()).verify(&token(), NOW));

        // With a good set from before: that one serves, for a day.
        let calls = Rc::new(Cell::new(0));
        let world = World::answering({
            let calls = Rc::clone(&calls);
            move |_| {
                calls.set(calls.get() + 1);
                if calls.get() == 1 { Ok(good()) } else { failure.clone() }
            }
        });
        world.verify(&token(), NOW).unwrap();
        let later = NOW.plus(301);
        world.verify(&token(), later).unwrap();
        assert_eq!(calls.get(), 2);
        let end = NOW.plus(86_400);
        let late = Signer::new("a").sign(&with(|claims| {
            (claims["iat"], claims["nbf"], claims["exp"]) =
                (json!(end.secs()), json!(end.secs()), json!(end.secs() + 600));
        }));
        unavailable(world.verify(&late, end));
    }
}

/// The operator reads why, and what to do where the cluster keeps its keys to itself.
#[test]
fn k8_the_detail_names_issuer_and_cause() {
    let detail = |answer: Answer| World::answering(move |_| answer.clone()).verify(&token(), NOW).unwrap_err().detail;
    let start = format!("the keys of issuer \"{GKE}\" are not available: ");
    for (answer, rest) in [
        (Ok(response(500, "text/plain", "")), "the JWKS host answered 500"),
        (
            Ok(response(403, "text/plain", "")),
            "the JWKS host answered 403; a private cluster's keys can be written into the policy (jwks)",
        ),
        (Err(HttpError::Timeout), "the JWKS host: no answer in time"),
        (
            Ok(response(200, "text/html", "<html>")),
            "the JWKS host's answer: not a JWK set: a JSON object with an array `keys` is needed",
        ),
    ] {
        assert_eq!(detail(answer), format!("{start}{rest}"));
    }
}

#[test]
fn k8_a_body_over_the_limit_is_a_failed_fetch() {
    let padded = format!("{}{}", String::from_utf8(good().body).unwrap(), " ".repeat(65_536));
    unavailable(World::answering(move |_| Ok(response(200, "application/json", padded.clone()))).verify(&token(), NOW));
}

#[test]
fn k8_cache_control_decides_for_how_long() {
    for (cache_control, fresh) in [(None, 300), (Some("public, max-age=1200"), 1_200), (Some("max-age=9999999"), 3_600)]
    {
        let world =
            World::answering(move |_| Ok(HttpResponse { cache_control: cache_control.map(str::to_owned), ..good() }));
        let at = |seconds: i64| {
            let now = NOW.plus(seconds);
            Signer::new("a").sign(&with(|claims| {
                (claims["iat"], claims["nbf"], claims["exp"]) =
                    (json!(now.secs()), json!(now.secs()), json!(now.secs() + 600));
            }))
        };
        for seconds in [0, 1, fresh - 1] {
            world.verify(&at(seconds), NOW.plus(seconds)).unwrap();
        }
        assert_eq!(world.fetches(), 1);
        world.verify(&at(fresh), NOW.plus(fresh)).unwrap();
        assert_eq!(world.fetches(), 2);
    }
}

#[test]
fn k8_a_key_that_left_the_set_stops_working() {
    let calls = Cell::new(0);
    let world = World::answering(move |_| {
        calls.set(calls.get() + 1);
        Ok(jwks(&[Signer::new(if calls.get() == 1 { "a" } else { "b" }).jwk()]))
    });
    world.verify(&token(), NOW).unwrap();
    world.verify(&token(), NOW.plus(299)).unwrap();
    assert_eq!(reason(world.verify(&token(), NOW.plus(300))), Reason::KeyUnknown);
}

#[test]
fn k8_a_set_written_in_the_policy_is_never_fetched() {
    let mut world = World::new();
    let set = |name: &str| KeySource::Static { jwks: json!({"keys": [Signer::new(name).jwk()]}).to_string() };
    world.settings.issuers[0].keys = set("a");
    world.verify(&token(), NOW).unwrap();
    assert_eq!(reason(world.verify(&Signer::new("b").sign(&claims()), NOW)), Reason::KeyUnknown);
    world.settings.issuers[0].keys = set("b");
    assert_eq!(reason(world.verify(&token(), NOW)), Reason::KeyUnknown);
    assert_eq!(world.fetches(), 0);
}

#[test]
fn k8_keys_are_per_issuer() {
    let eks = verifier::suites::oidc::EKS;
    let world =
        World::answering(move |url| Ok(jwks(&[Signer::new(if url.starts_with(eks) { "b" } else { "a" }).jwk()])));
    let of = |kid: &str, iss: &str| Signer::new(kid).sign(&with(|claims| claims["iss"] = json!(iss)));
    assert!(world.verify(&of("a", GKE), NOW).is_ok());
    assert!(world.verify_as(&of("b", eks), Mode::EksOidc, NOW, &mut Trace::off()).is_ok());
    assert_eq!(reason(world.verify(&of("b", GKE), NOW)), Reason::KeyUnknown);
    assert_eq!(reason(world.verify_as(&of("a", eks), Mode::EksOidc, NOW, &mut Trace::off())), Reason::KeyUnknown);
}

#[test]
fn k9_random_kids_cause_one_fetch_and_are_refused() {
    let world = World::new();
    for n in 0..200 {
        let token = Signer::new(&format!("random-{n}")).sign(&claims());
        assert_eq!(reason(world.verify(&token, NOW)), Reason::KeyUnknown);
    }
    assert_eq!(world.fetches(), 1);
    world.verify(&token(), NOW).unwrap();
    assert_eq!(world.fetches(), 1);
}

#[test]
fn k9_a_new_key_is_found_by_one_refetch() {
    let calls = Cell::new(0);
    let world = World::answering(move |_| {
        calls.set(calls.get() + 1);
        let keys = [Signer::new("a").jwk(), Signer::new("b").jwk()];
        Ok(jwks(&keys[..calls.get().min(2)]))
    });
    world.verify(&token(), NOW).unwrap();
    world.verify(&Signer::new("b").sign(&claims()), NOW.plus(1)).unwrap();
    assert_eq!(world.fetches(), 2);
}

#[test]
fn k9_an_unknown_kid_while_the_host_is_down_is_a_retry() {
    let calls = Cell::new(0);
    let world = World::answering(move |_| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 { Ok(good()) } else { Err(HttpError::Timeout) }
    });
    world.verify(&token(), NOW).unwrap();
    for seconds in 1..30 {
        let denial = world.verify(&Signer::new("b").sign(&claims()), NOW.plus(seconds)).unwrap_err();
        let until_the_next_fetch = u32::try_from(31 - seconds).unwrap();
        assert_eq!((denial.code, denial.retry_after), (Code::UpstreamUnavailable, Some(until_the_next_fetch)));
    }
    assert_eq!(world.fetches(), 2);
    world.verify(&token(), NOW.plus(30)).unwrap();
}

fn wildcard_world(answers: impl FnMut(&str) -> Answer + 'static) -> World {
    let mut world = World::answering(answers);
    world.settings.issuers.clear();
    world.settings.wildcard_projects = vec![("acme-prod".to_owned(), "*".to_owned())];
    world
}

fn of_cluster(cluster: &str) -> String {
    Signer::new("a")
        .sign(&with(|claims| claims["iss"] = json!(GKE.replace("clusters/runners", &format!("clusters/{cluster}")))))
}

#[test]
fn k9_a_cluster_that_does_not_exist_is_an_unknown_issuer_for_wildcards_only() {
    for status in [403, 404, 410] {
        let world = wildcard_world(move |_| Ok(response(status, "text/plain", "")));
        for _ in 0..50 {
            assert_eq!(reason(world.verify(&of_cluster("ghost"), NOW)), Reason::IssuerUnknown);
        }
        assert_eq!(world.fetches(), 1);
        unavailable(World::answering(move |_| Ok(response(status, "text/plain", ""))).verify(&token(), NOW));
    }
    let world = wildcard_world(|_| Err(HttpError::TooLarge { status: 404 }));
    assert_eq!(reason(world.verify(&of_cluster("ghost"), NOW)), Reason::IssuerUnknown);
    unavailable(wildcard_world(|_| Ok(response(500, "text/plain", ""))).verify(&of_cluster("ghost"), NOW));
}

#[test]
fn k9_ten_new_clusters_a_minute() {
    let world = wildcard_world(|url| Ok(if url.contains("ghost") { response(404, "text/plain", "") } else { good() }));
    world.verify(&of_cluster("known"), NOW).unwrap();
    for n in 0..9 {
        assert_eq!(reason(world.verify(&of_cluster(&format!("ghost-{n}")), NOW)), Reason::IssuerUnknown);
    }
    for n in 9..50 {
        unavailable(world.verify(&of_cluster(&format!("ghost-{n}")), NOW));
    }
    unavailable(world.verify(&of_cluster("new"), NOW.plus(59)));
    assert_eq!(world.fetches(), 10);
    world.verify(&of_cluster("known"), NOW.plus(59)).unwrap();
    world.verify(&of_cluster("new"), NOW.plus(60)).unwrap();
}

/// The data centre's cache.
#[derive(Default)]
struct Store(RefCell<HashMap<String, StoredJwks>>);

impl JwksStore for Store {
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks> {
        self.0.borrow().get(jwks_uri).cloned()
    }

    async fn put(&self, jwks_uri: &str, stored: &StoredJwks) {
        self.0.borrow_mut().insert(jwks_uri.to_owned(), stored.clone());
    }
}

fn verify_with(
    store: &Store,
    http: &FakeHttp,
    cache: &RefCell<JwksCache>,
    token: &str,
    now: UnixTime,
) -> Result<(), Denial> {
    let keys = KeySources { cache, store, http };
    let ports = Ports { keys, signatures: &RustCrypto };
    block_on(verify(token, Mode::GkeOidc, &settings(), AUDIENCE, now, &ports, &mut Trace::off())).map(drop)
}

#[test]
fn k8_a_second_isolate_takes_the_data_centres_set() {
    let store = Store::default();
    let http = FakeHttp::script([Ok(good())]);
    verify_with(&store, &http, &RefCell::default(), &token(), NOW).unwrap();
    assert_eq!(store.0.borrow()[&format!("{GKE}/jwks")].fetched_at, NOW);
    // Another isolate makes no call while that set is fresh.
    let second = RefCell::default();
    verify_with(&store, &http, &second, &token(), NOW.plus(299)).unwrap();
    // It is not fresh again by being taken: the age counts from the fetch.
    let down = FakeHttp::answering(|_| Err(HttpError::Connect));
    verify_with(&store, &down, &second, &token(), NOW.plus(300)).unwrap();
    assert_eq!(down.sent().len(), 1);
    // A third one, started while the host is down, has it as its last good set.
    verify_with(&store, &down, &RefCell::default(), &token(), NOW.plus(400)).unwrap();
    // What is broken or from the future there is as if it were not there.
    for stored in [
        StoredJwks { body: b"{".to_vec(), fetched_at: NOW, fresh_for: 300 },
        StoredJwks { body: good().body, fetched_at: NOW.plus(1), fresh_for: 300 },
    ] {
        store.0.borrow_mut().insert(format!("{GKE}/jwks"), stored);
        let http = FakeHttp::script([Ok(good())]);
        verify_with(&store, &http, &RefCell::default(), &token(), NOW).unwrap();
    }
}

#[test]
fn k8_a_set_is_fetched_again_before_it_ends() {
    let world = World::new();
    world.verify(&token(), NOW).unwrap();
    world.verify(&token(), NOW.plus(239)).unwrap();
    assert_eq!(world.cache.borrow_mut().take_due(), None);
    world.verify(&token(), NOW.plus(240)).unwrap();
    let due = world.cache.borrow_mut().take_due().unwrap();
    let sources = KeySources { cache: &world.cache, store: &NoJwksStore, http: &world.http };
    block_on(refresh(sources, NOW.plus(240), &due));
    assert_eq!(world.fetches(), 2);
    world.verify(&token(), NOW.plus(539)).unwrap();
    assert_eq!(world.fetches(), 2);
}
