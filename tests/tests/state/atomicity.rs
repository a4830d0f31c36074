//! One use is one use, however many ask at once (CHECKS B3, I3).
//!
//! `cargo xtask test --full` on two busy cores, 2026-11-30: 1,500 clients at once, 1,000 admitted, 1,000 uses of 1,000, in 17 s.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

use edge_tests::load;
use edge_tests::stack::{Answer, Key, Stack, evidence};
use serde_json::json;

use crate::support::{Held, Shared, all_at_once, enroll_until_answered};

static STACK: Shared = Shared::new("state-atomicity");

fn uses(stack: &Stack, id: &str) -> u32 {
    stack.admin().tokens("acme").items.into_iter().find(|item| item.id == id).expect("it was minted").uses
}

/// Answers to `clients` callers with a key each, all with one token of `max_uses`; every answer but the successes is the one refusal.
fn contend(stack: &Stack, max_uses: u32, clients: usize) -> Vec<Held> {
    let token = stack.admin().mint_with("acme", &json!({"max_uses": max_uses}));
    let attestation = evidence::token("bootstrap-token", &token.token);
    let requests: Vec<_> = (0..clients)
        .map(|_| {
            let key = Key::generate();
            let body = evidence::request(&key, &attestation);
            (key, body)
        })
        .collect();
    // On a machine that is slow for so many at once some are told to come again, or nothing: they do come again.
    let (client, repeated) = (stack.client(), AtomicUsize::new(0));
    let answers: Vec<Answer> =
        all_at_once(clients, |index| enroll_until_answered(|| client.clone(), &requests[index].1, &repeated));
    let (admitted, refused): (Vec<_>, Vec<_>) =
        requests.into_iter().zip(answers).partition(|(_, answer)| answer.status == 200);
    for (_, answer) in refused {
        answer.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    }
    let used = uses(stack, &token.id);
    println!(
        "{clients} clients at once, {} admitted, {used} uses of {max_uses}, {} repetitions",
        admitted.len(),
        repeated.into_inner()
    );
    assert_eq!(used, max_uses);
    let held: Vec<Held> = admitted.into_iter().map(|((key, _), answer)| Held::from(&key, answer)).collect();
    let distinct = |of: fn(&Held) -> String| held.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(distinct(Held::serial), held.len(), "no serial twice");
    assert_eq!(distinct(|held| held.runner_id.clone()), held.len(), "no runner twice");
    held
}

#[test]
fn fifty_keys_and_one_use_make_one_certificate() {
    let stack = STACK.lock();
    let held = contend(&stack, 1, 50);
    assert_eq!(held.len(), 1);
    assert_eq!(stack.admin().runner("acme", &held[0].runner_id).serial, held[0].serial());
}

#[test]
fn as_many_certificates_as_uses() {
    let stack = STACK.lock();
    let (max_uses, clients) = load::size((200, 300), (1_000, 1_500));
    assert_eq!(contend(&stack, max_uses, clients).len(), usize::try_from(max_uses).unwrap());
}

#[test]
fn the_same_token_and_key_are_one_use_one_runner_one_certificate() {
    let stack = STACK.lock();
    let (key, token) = (Key::generate(), stack.admin().mint("acme"));
    let attestation = evidence::token("bootstrap-token", &token.token);
    // The first ones at once: a client that gave up waiting and asked again before it was answered.
    let mut all: Vec<Held> = all_at_once(10, |_| Held::from(&key, stack.enroll(&key, &attestation)));
    all.extend((0..3).map(|_| Held::from(&key, stack.enroll(&key, &attestation))));
    let (serial, runner_id) = (all[0].serial(), all[0].runner_id.clone());
    assert!(all.iter().all(|held| held.serial() == serial && held.runner_id == runner_id));
    assert_eq!(uses(&stack, &token.id), 1);
    let other = stack.enroll(&Key::generate(), &attestation);
    other.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    assert_eq!(uses(&stack, &token.id), 1);
}

#[test]
fn renewals_at_once_leave_one_next() {
    let stack = STACK.lock();
    let (held, _) = crate::support::enroll_pod(&stack, "at-once");
    let next = Key::generate();
    let same: HashSet<String> =
        all_at_once(20, |_| Held::from(&next, held.renew(&stack, &next)).serial()).into_iter().collect();
    assert_eq!(same.len(), 1, "{same:?}");
    let rotated: HashSet<String> = all_at_once(20, |_| held.rotate(&stack).serial()).into_iter().collect();
    assert_eq!(rotated.len(), 20);
    let recorded = stack.admin().runner("acme", &held.runner_id).serial;
    assert!(rotated.contains(&recorded));
}
