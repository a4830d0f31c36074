//! The rate limits, on (PROTOCOL, Rate limits): the one test that has them. Windows are of the wall clock, so it counts with their edges.
//!
//! wrangler.toml has the limits of the contract, to which the test holds it. A slow machine does not send 1,000 requests within 10 s:
//! here that limit is a tenth.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use edge_tests::stack::{Answer, Key, Options, Stack, evidence};
use serde_json::json;

use crate::support::assert_problem_form;

/// What wrangler.toml says.
pub const CONTRACT: [&str; 2] = ["simple = { limit = 1000, period = 10 }", "simple = { limit = 60, period = 60 }"];
/// In place of the first.
pub const LOWER: &str = "simple = { limit = 100, period = 10 }";
/// Long enough for a slow machine to send more than 100 requests within 10 s once.
const PATIENCE: Duration = Duration::from_secs(45);

#[track_caller]
fn assert_limited(answer: &Answer, longest: u32) {
    answer.assert_problem(429, "rate_limited", "");
    assert_problem_form(answer);
    let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=longest).contains(&after), "{after}");
}

/// Asks for nothing, over and over, until told to go away.
fn flood(stack: &Stack) -> (u32, Option<Answer>) {
    let (served, limited) = (AtomicU32::new(0), parking_lot::Mutex::new(None));
    let until = Instant::now() + PATIENCE;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let client = stack.client();
                while limited.lock().is_none() && Instant::now() < until {
                    let answer = client.get("/nothing");
                    if answer.status == 429 {
                        limited.lock().get_or_insert(answer);
                    } else {
                        answer.assert_status(404);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    (served.into_inner(), limited.into_inner())
}

#[test]
fn floods_and_guesses_are_limited_by_address() {
    let edits = [(CONTRACT[0], LOWER), (CONTRACT[1], CONTRACT[1])];
    let stack = Stack::start(Options {
        vars: json!({}),
        wrangler_edits: edits.map(|(old, new)| (old.to_owned(), new.to_owned())).to_vec(),
        ..Options::new("rate-limits")
    });
    let guess = |token: &str| stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", token));
    let good = stack.admin().mint_with("acme", &json!({"max_uses": 100})).token;

    let (served, limited) = flood(&stack);
    assert!(served >= 100, "limited after {served}");
    assert_limited(&limited.expect("a limit"), 10);
    // Routes with a bearer have none of this limit; 429 comes before any parsing.
    stack.admin().0.get("/v1/admin/policy").assert_status(200);
    stack.service().post("/v1/verify", &json!({})).assert_problem(400, "malformed_request", "");

    // The window passes, and the address is served again.
    let until = Instant::now() + Duration::from_secs(30);
    while stack.client().get("/healthz").status == 429 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(200));
    }
    guess(&good).assert_status(200);

    // Two windows of 60 s hold 60 refusals each at most.
    let mut refused = 0;
    let answer = loop {
        let answer = guess("rpbt_acme_guess");
        if answer.status == 429 {
            break answer;
        }
        answer.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
        refused += 1;
        assert!(refused <= 121, "no limit after {refused} refusals");
    };
    assert!(refused >= 60, "{refused}");
    assert_limited(&answer, 60);
    // Shut out as a whole, good evidence included, and before anything is parsed.
    assert_limited(&guess(&good), 60);
    assert_limited(&stack.client().post_bytes("/v1/enroll", "{"), 60);
    assert_limited(&stack.client().get("/healthz"), 60);
    #[cfg(target_os = "linux")]
    assert_other_addresses(&stack, &good);
}

/// All of 127.0.0.0/8 is this machine there.
#[cfg(target_os = "linux")]
fn assert_other_addresses(stack: &Stack, good: &str) {
    use std::net::Ipv4Addr;

    let body = evidence::request(&Key::generate(), &evidence::token("bootstrap-token", good));
    let neighbour = stack.client().calling_from(Ipv4Addr::new(127, 0, 0, 2));
    neighbour.post("/v1/enroll", &body).assert_status(200);
    // Who guesses bearers is shut out with the right one, too.
    let guesser = stack.client().calling_from(Ipv4Addr::new(127, 0, 0, 3));
    let mut refused = 0;
    while guesser.with_bearer("guess").get("/v1/admin/policy").status == 401 {
        refused += 1;
        assert!(refused <= 121, "no limit after {refused} bearers");
    }
    assert!(refused >= 60, "{refused}");
    assert_limited(&guesser.with_bearer(&stack.admin_token()).get("/v1/admin/policy"), 60);
    neighbour.with_bearer(&stack.admin_token()).get("/v1/admin/policy").assert_status(200);
}
