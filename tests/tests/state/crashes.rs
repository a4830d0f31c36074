//! The verifier killed at random moments, restarted on the same storage: nothing lost, nothing twice, nothing half written.
//!
//! `cargo xtask test --full` on two busy cores, 2026-11-30: 2,000 enrolments of 1,000 tokens, 10 kills, 2,304 calls repeated;
//! 1,000 certificates, 1,000 runners, 1,000 uses, in 97 s.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use edge_tests::load;
use edge_tests::stack::{Answer, Key, Options, Stack, evidence, serial};
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::support::{enroll_until_answered, try_enroll};

/// Keys that compete for each token.
const RIVALS: usize = 2;
const CALLERS: usize = 8;
/// In which some enrolment is answered, however slow the machine: else something hangs.
const PROGRESS: Duration = Duration::from_mins(3);

/// One caller's enrolment: repeated until it is answered, as a runner does.
struct Enrolment {
    key: Key,
    body: Value,
    token_id: String,
}

/// What the callers saw: answers by enrolment, and how often a call was repeated.
struct Seen {
    answers: Vec<Vec<Value>>,
    refused: HashSet<usize>,
    repeated: usize,
}

/// What those who call and the one who kills know of each other.
#[derive(Default)]
struct Progress {
    next: AtomicUsize,
    answered: AtomicUsize,
    repeated: AtomicUsize,
    /// One of them failed: the others have nothing to wait for.
    given_up: AtomicBool,
}

impl Progress {
    fn go_on(&self) {
        assert!(!self.given_up.load(Ordering::Relaxed), "another thread of the test failed: see there");
    }

    /// Waits until so many enrolments are answered.
    fn wait_for(&self, due: usize) {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let answered = self.answered.load(Ordering::Relaxed);
            if answered >= due {
                return;
            }
            if answered > seen {
                (seen, since) = (answered, Instant::now());
            }
            self.go_on();
            assert!(since.elapsed() < PROGRESS, "no enrolment was answered for {PROGRESS:?}: {answered} of {due} due");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Tells the others when its thread fails.
struct Party<'a>(&'a Progress);

impl Drop for Party<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.given_up.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn nobody_waits_for_one_who_failed() {
    let progress = Progress::default();
    let (caller, waiter) = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let _party = Party(&progress);
            panic!("on purpose");
        });
        let waiter = scope.spawn(|| progress.wait_for(1));
        (caller.join().is_err(), waiter.join().is_err())
    });
    assert!(caller && waiter);
}

/// Runs all enrolments while `stack` is killed and restarted `kills` times, then each once more.
fn storm(stack: &mut Stack, enrolments: &[Enrolment], kills: usize) -> Seen {
    let (client, progress) = (RwLock::new(stack.client()), Progress::default());
    let present = || {
        progress.go_on();
        client.read().clone()
    };
    let run = || {
        let _party = Party(&progress);
        let mut mine = Vec::new();
        loop {
            let index = progress.next.fetch_add(1, Ordering::Relaxed);
            let Some(enrolment) = enrolments.get(index) else { return mine };
            let answer = enroll_until_answered(present, &enrolment.body, &progress.repeated);
            progress.answered.fetch_add(1, Ordering::Relaxed);
            mine.push((index, answer));
        }
    };
    let all: Vec<(usize, Answer)> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(run)).collect();
        let _party = Party(&progress);
        for kill in 1..=kills {
            // Spread over the work, and within it at any moment.
            progress.wait_for(enrolments.len() * kill / (kills + 1));
            std::thread::sleep(Duration::from_micros(rand::random_range(0..20_000)));
            stack.kill();
            stack.restart();
            *client.write() = stack.client();
        }
        callers.into_iter().flat_map(|caller| caller.join().expect("no caller panics")).collect()
    });
    let mut seen = Seen {
        answers: vec![Vec::new(); enrolments.len()],
        refused: HashSet::new(),
        repeated: progress.repeated.into_inner(),
    };
    // Once more: a lost answer is repaired by repeating the request, a given one is repeated.
    let again = enrolments.iter().enumerate().map(|(index, enrolment)| {
        (index, try_enroll(&stack.client(), &enrolment.body).expect("nothing breaks any longer"))
    });
    for (index, answer) in all.into_iter().chain(again) {
        if answer.status == 200 {
            seen.answers[index].push(answer.json());
        } else {
            answer.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
            seen.refused.insert(index);
        }
    }
    seen
}

/// Every item of a list of tenant acme.
fn all_items(stack: &Stack, list: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stack.admin().0.get(&format!("/v1/admin/tenants/acme/{list}?limit=200{cursor}")).expect(200).json();
        items.extend(page["items"].as_array().expect("a list").clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[test]
fn killed_at_random_moments_nothing_is_used_twice_or_unknown() {
    let (count, kills) = load::size((300, 4), (2_000, 10));
    let mut stack = Stack::start(Options::new("state-crashes"));
    let enrolments: Vec<Enrolment> = (0..count / RIVALS)
        .flat_map(|_| {
            let token = stack.admin().mint("acme");
            let attestation = evidence::token("bootstrap-token", &token.token);
            (0..RIVALS).map(move |_| {
                let key = Key::generate();
                let body = evidence::request(&key, &attestation);
                Enrolment { key, body, token_id: token.id.clone() }
            })
        })
        .collect();
    let seen = storm(&mut stack, &enrolments, kills);

    let runners: HashMap<String, Value> = all_items(&stack, "runners")
        .into_iter()
        .map(|item| (item["runner_id"].as_str().unwrap().to_owned(), item))
        .collect();
    let (mut winners, mut serials) = (HashMap::<&str, usize>::new(), HashSet::new());
    for (index, (enrolment, answers)) in enrolments.iter().zip(&seen.answers).enumerate() {
        let Some(first) = answers.first() else { continue };
        assert!(!seen.refused.contains(&index), "one caller was admitted and refused");
        let certificate = first["certificate"].as_str().unwrap();
        for answer in answers {
            assert_eq!(
                serial(answer["certificate"].as_str().unwrap()),
                serial(certificate),
                "the same allotment again"
            );
        }
        let record = &runners[first["runner_id"].as_str().unwrap()];
        assert_eq!(record["serial"], serial(certificate), "the record knows the certificate");
        assert_eq!(record["identity"], format!("bootstrap-token:{}", enrolment.token_id));
        assert_eq!(record["not_after"], first["not_after"]);
        assert!(serials.insert(serial(certificate)), "a serial twice");
        let other = winners.insert(&enrolment.token_id, index);
        assert_eq!(other, None, "token {} was used twice", enrolment.token_id);
    }
    let tokens = all_items(&stack, "tokens");
    assert!(tokens.iter().all(|token| token["uses"] == 1), "{tokens:?}");
    assert_eq!((tokens.len(), winners.len(), runners.len()), (count / RIVALS, count / RIVALS, count / RIVALS));
    println!(
        "{count} enrolments of {} tokens, {kills} kills: {} calls repeated, {} certificates, {} runners, {} uses",
        tokens.len(),
        seen.repeated,
        serials.len(),
        runners.len(),
        tokens.len()
    );

    // Everything is whole: each winner can renew, and one audit event says how each runner came.
    for index in winners.values().take(20) {
        let certificate = seen.answers[*index][0]["certificate"].as_str().unwrap();
        stack.renew(&enrolments[*index].key, certificate, &Key::generate()).assert_status(200);
    }
    let events = all_items(&stack, "audit");
    let enrolled: HashSet<&str> = events
        .iter()
        .filter(|event| event["type"] == "enroll" && event["outcome"] == "allow")
        .map(|event| event["runner_id"].as_str().unwrap())
        .collect();
    assert_eq!(enrolled.len(), runners.len());
}

#[test]
fn a_ban_reaches_the_crl_though_the_process_dies_in_between() {
    let mut stack = Stack::start(Options::new("state-outbox"));
    for round in 0..3 {
        let (held, _) = crate::support::enroll_pod(&stack, &format!("outbox-{round}"));
        let (path, body) = (format!("/v1/admin/tenants/acme/runners/{}/ban", held.runner_id), json!({}));
        let client = stack.admin().0;
        // Killed as soon as it is asked, a little later, or as soon as it answered.
        let call = std::thread::spawn(move || client.request("POST", &path).json(&body).send().is_ok());
        match round {
            0 => _ = call.join(),
            1 => std::thread::sleep(Duration::from_millis(4)),
            _ => std::thread::sleep(Duration::from_millis(8)),
        }
        stack.kill();
        stack.restart();
        let state = crate::support::state(&stack, &held.runner_id);
        println!("round {round}: {state}");
        if state == "banned" {
            stack.admin().assert_on_crl(&[held.serial()]);
        } else {
            assert_ne!(round, 0, "an answered ban is kept");
            held.rotate(&stack);
        }
    }
}
