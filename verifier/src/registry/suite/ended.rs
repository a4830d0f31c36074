//! What ends, and what must not (CHECKS I6; `registry::purge`).

use protocol::admin::AuditType;
use protocol::admin::{MintRequest, RunnerState, TokenCause};

use super::world::{Counter, NOW, REATTEST, TTL, World, admin, by_token, enrolment, key, pod, renewal};
use crate::registry::{Allotment, Store, purge, tokens};

super::list_cases![
    serials_are_kept_until_their_end,
    nothing_live_is_purged,
    a_runner_keeps_its_id_while_it_is_away,
    first_key_and_slots_are_never_forgotten_before_the_runner,
    keys_are_remembered_beyond_their_certificates,
    a_token_is_the_same_with_any_key_while_it_lives,
    tokens_are_kept_for_a_week,
    bootstrap_runners_end_with_token_and_certificate,
    bans_and_banned_runners_stay,
    everything_else_goes_in_the_end,
    numbers_of_events_go_on_though_all_that_was_is_forgotten,
];

fn sweep(world: &mut World<'_>) {
    for _ in 0..1_000 {
        if !purge(world.store, world.now).unwrap() {
            return;
        }
    }
    panic!("purge does not end");
}

fn serials_are_kept_until_their_end(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(TTL);
    sweep(&mut world);
    assert!(world.store.serial(&first.runner_id, &first.serial).unwrap().is_some());
    world.pass(1);
    sweep(&mut world);
    assert_eq!(world.store.serial(&first.runner_id, &first.serial).unwrap(), None);
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Expired);
}

fn nothing_live_is_purged(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let by_bootstrap = world.enroll(&by_token(&token.token, "b")).unwrap();
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    world.ban(&by_bootstrap.runner_id, None);
    world.pass(TTL - 1);
    sweep(&mut world);
    assert_eq!(world.renew(&renewal(&first, "k2")).unwrap(), second);
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap(), first);
    assert_eq!(world.uses(&token), 1);
    assert_eq!(world.revoked().len(), 1);
}

fn a_runner_keeps_its_id_while_it_is_away(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    world.renew(&renewal(&second, "k3")).unwrap();
    world.pass(89 * 86_400);
    sweep(&mut world);
    // k2 is the key of its certificate, k3 one it may have stored without an answer.
    for (evidence, key) in [("e2", "k2"), ("e3", "k3")] {
        assert_eq!(world.enroll(&enrolment(&pod("u1"), evidence, key)).unwrap().runner_id, first.runner_id, "{key}");
    }
}

fn first_key_and_slots_are_never_forgotten_before_the_runner(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let mut last = first.clone();
    for day in 0..10 {
        last = world.renew(&renewal(&last, &format!("day {day}"))).unwrap();
        world.renew(&renewal(&last, &format!("day {day} again"))).unwrap();
        world.pass(REATTEST);
        last = world.enroll(&enrolment(&pod("u1"), &format!("day {day}"), &format!("day {day} again"))).unwrap();
        sweep(&mut world);
    }
    assert_eq!(last.runner_id, first.runner_id);
    // The id is derived from the first key, so that this can only be the same runner.
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "last", "k1")).unwrap().runner_id, first.runner_id);
}

/// A runner with three keys, of which only the last two are in a slot.
fn rotated(world: &mut World<'_>, first: &Allotment) {
    let second = world.renew(&renewal(first, "k2")).unwrap();
    let third = world.renew(&renewal(&second, "k3")).unwrap();
    world.renew(&renewal(&third, "k4")).unwrap();
}

/// 200 lifetimes, which is 8 days and 8 hours here.
fn keys_are_remembered_beyond_their_certificates(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    rotated(&mut world, &first);
    world.pass(TTL + 200 * TTL);
    sweep(&mut world);
    let same = world.enroll(&enrolment(&pod("u1"), "e2", "k2")).unwrap();
    assert_eq!(same.runner_id, first.runner_id);
    // It takes the key out of the slot again, so that only the index can know it.
    rotated(&mut world, &same);
    let next = world.store.runner(&first.runner_id).unwrap().unwrap();
    assert!(next.last().is_some_and(|slot| slot.spki_sha256 == key("k4")));
    world.pass(TTL + 200 * TTL + 1);
    sweep(&mut world);
    assert_ne!(world.enroll(&enrolment(&pod("u1"), "e3", "k2")).unwrap().runner_id, first.runner_id);
}

/// PROTOCOL, Serials: while the token lives, with any key certified for the runner that used it.
fn a_token_is_the_same_with_any_key_while_it_lives(store: &mut dyn Store) {
    let mut world = World::new(store);
    let request = MintRequest { ttl: Some("30d".to_owned()), ..MintRequest::default() };
    let token = tokens::mint(world.store, &admin(), &request, world.now, &Counter).unwrap().unwrap();
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    rotated(&mut world, &first);
    world.pass(30 * 86_400 - 1);
    sweep(&mut world);
    for key in ["k2", "k1", "k3", "k4"] {
        assert_eq!(world.enroll(&by_token(&token.token, key)).unwrap().runner_id, first.runner_id, "{key}");
    }
    assert_eq!(world.uses(&token), 1);
}

fn tokens_are_kept_for_a_week(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    world.pass(3_600 + 7 * 86_400);
    sweep(&mut world);
    world.enroll(&by_token(&token.token, "k1")).unwrap_err();
    assert_eq!(world.last(AuditType::Enroll).cause, Some(TokenCause::Expired));
    world.pass(1);
    sweep(&mut world);
    world.enroll(&by_token(&token.token, "k1")).unwrap_err();
    assert_eq!(world.last(AuditType::Enroll).cause, Some(TokenCause::Unknown));
}

fn bootstrap_runners_end_with_token_and_certificate(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    world.pass(1_800);
    world.renew(&renewal(&first, "k2")).unwrap();
    world.pass(3_600);
    sweep(&mut world);
    assert!(world.show(&first.runner_id).is_some());
    world.pass(1);
    sweep(&mut world);
    assert_eq!(world.show(&first.runner_id), None);
}

fn bans_and_banned_runners_stay(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.ban(&first.runner_id, None);
    world.pass(3_650 * 86_400);
    sweep(&mut world);
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Banned);
    assert!(world.enroll(&enrolment(&pod("u1"), "e2", "k2")).is_err());
    world.unban(&first.runner_id);
    sweep(&mut world);
    assert_eq!(world.show(&first.runner_id), None);
}

fn everything_else_goes_in_the_end(store: &mut dyn Store) {
    let mut world = World::new(store);
    assert!(!world.store.holds_rows().unwrap());
    let token = world.mint(1);
    world.enroll(&by_token(&token.token, "k1")).unwrap();
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.evict(&first.runner_id);
    world.enroll(&enrolment(&pod("u2"), "e2", "k2")).unwrap();
    assert!(world.store.holds_rows().unwrap());
    world.now = NOW.plus(400 * 86_400);
    sweep(&mut world);
    assert!(!world.store.holds_rows().unwrap());
}

fn numbers_of_events_go_on_though_all_that_was_is_forgotten(store: &mut dyn Store) {
    let mut world = World::new(store);
    for _ in 0..3 {
        world.mint(1);
    }
    world.pass(400 * 86_400);
    sweep(&mut world);
    let numbers = |world: &World<'_>| world.audit().into_iter().map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(numbers(&world), [3]);
    world.mint(1);
    assert_eq!(numbers(&world), [4, 3]);
    // A younger one has come: the old one may go.
    sweep(&mut world);
    assert_eq!(numbers(&world), [4]);
}
