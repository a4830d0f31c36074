//! A fleet behind one address: everyone gets in, though the rate limit lets in only so many at a time (PROTOCOL, Rate limits).
//!
//! The clients obey `Retry-After` as the runner does, whose own delays are tried in virtual time in its unit tests. In a full run
//! (`ROOTPILOT_FULL_LOAD=1`) there are 5,000 of them at the limit of the contract, which a machine that serves fewer than 100 a second
//! does not meet; else the limit is a tenth and they are 250.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::{Duration, Instant};

use edge_tests::load;
use edge_tests::stack::{Key, Options, Stack, evidence};
use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::{Value, json};

use crate::rate_limits::{CONTRACT, LOWER};

/// Connections at once.
const CONNECTIONS: usize = 16;
/// Nothing may take longer, the machine as slow as it may be.
const PATIENCE: Duration = Duration::from_mins(8);

/// What happened so far.
#[derive(Default)]
struct Progress {
    /// When each runner calls next.
    calls: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Ids of those that are in.
    admitted: HashSet<String>,
    limited: usize,
}

/// Requests of a fleet of pods, each with a key and a token of its own.
fn requests(stack: &Stack, fleet: usize) -> Vec<Value> {
    let numbers: Vec<usize> = (0..fleet).collect();
    std::thread::scope(|scope| {
        let makers: Vec<_> = numbers
            .chunks(fleet.div_ceil(4))
            .map(|chunk| {
                scope.spawn(|| {
                    let make = |number: &usize| {
                        let token = stack.gke_token(&format!("fleet-{number}"));
                        evidence::request(&Key::generate(), &evidence::token("gke-oidc", &token))
                    };
                    chunk.iter().map(make).collect::<Vec<_>>()
                })
            })
            .collect();
        makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect()
    })
}

/// One connection: makes the next call that is due, until all are in.
fn work(stack: &Stack, requests: &[Value], progress: &Mutex<Progress>, until: Instant) {
    let client = stack.client();
    loop {
        let next = {
            let mut progress = progress.lock();
            if progress.admitted.len() == requests.len() {
                return;
            }
            let is_due = progress.calls.peek().is_some_and(|Reverse((due, _))| *due <= Instant::now());
            is_due.then(|| progress.calls.pop()).flatten()
        };
        let Some(Reverse((_, runner))) = next else {
            assert!(Instant::now() < until, "{} of {} are in", progress.lock().admitted.len(), requests.len());
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let answer = client.post("/v1/enroll", &requests[runner]);
        if answer.status == 200 {
            let runner_id = answer.json()["runner_id"].as_str().unwrap().to_owned();
            assert!(progress.lock().admitted.insert(runner_id), "two runners of one id");
            continue;
        }
        answer.assert_problem(429, "rate_limited", "");
        let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=10).contains(&after), "{after}");
        // Not before that time, and not all at it.
        let delay = Duration::from_secs(after.into()).mul_f64(1.0 + rand::rng().random_range(0.0..0.2));
        let mut progress = progress.lock();
        progress.limited += 1;
        progress.calls.push(Reverse((Instant::now() + delay, runner)));
    }
}

#[test]
fn a_fleet_behind_one_address_gets_in() {
    let fleet = load::size(250, 5_000);
    let edits = if load::is_full() { vec![] } else { vec![(CONTRACT[0].to_owned(), LOWER.to_owned())] };
    let stack = Stack::start(Options { vars: json!({}), wrangler_edits: edits, ..Options::new("fleet") });
    let requests = requests(&stack, fleet);
    let started = Instant::now();
    let calls = (0..fleet).map(|runner| Reverse((started, runner))).collect();
    let progress = Mutex::new(Progress { calls, ..Progress::default() });
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| work(&stack, &requests, &progress, started + PATIENCE));
        }
    });
    let Progress { admitted, limited, .. } = progress.into_inner();
    let elapsed = started.elapsed();
    eprintln!("{fleet} runners behind one address: all in after {elapsed:.1?}, {limited} calls put off");
    assert_eq!(admitted.len(), fleet);
    // A machine that serves fewer than the limit lets in meets none; one that served more in the mean has met it.
    let a_window = load::size(100, 1_000);
    let slow = elapsed >= Duration::from_secs(10 * u64::try_from(fleet / a_window).unwrap());
    assert!(limited > 0 || slow, "{fleet} in {elapsed:?}, and the limit was not met");
}
