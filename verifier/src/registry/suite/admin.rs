//! CHECKS I6, I7; PROTOCOL, Admin routes.

use protocol::admin::{AuditType, BanRequest, BanScope, MintRequest, RunnerState};
use protocol::{Code, Decision, Reason};

use super::world::{Counter, NOW, TENANT, TTL, World, admin, enrolment, invalid, pod, refusal, renewal, session};
use crate::registry::{PageQuery, RevocationReason, Store, audit, runners, tokens};

super::list_cases![
    a_ban_covers_the_instance_and_every_key,
    a_runner_ban_covers_one_runner,
    aws_roles_are_warned_of,
    after_unban_the_runner_is_expired_until_it_attests,
    used_evidence_counts_again_after_unban,
    evict_forgets_and_wants_new_evidence,
    evict_voids_what_was_used_before_the_runner_was_one,
    evict_does_not_lift_a_ban,
    a_ban_holds_for_every_key_of_a_runner_that_shares_one,
    an_evicted_banned_runner_can_be_unbanned,
    every_live_serial_reaches_the_outbox,
    the_outbox_keeps_what_is_not_acknowledged,
    unknown_runners_and_tokens_are_refused_on_the_record,
    refused_calls_name_what_they_were_about,
    lists_are_paged,
    audit_is_newest_first_and_paged,
    bad_cursors_and_limits,
];

fn a_ban_covers_the_instance_and_every_key(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let twin = world.enroll(&enrolment(&pod("u1"), "e2", "k2")).unwrap();
    let answer = world.ban(&first.runner_id, None);
    assert_eq!((answer.runner.state, answer.warning), (RunnerState::Banned, None));
    assert_eq!(world.show(&twin.runner_id).unwrap().state, RunnerState::Banned);
    let event = world.last(AuditType::Ban);
    assert_eq!((event.outcome, event.reason.as_deref()), (Decision::Allow, Some("stolen")));
    assert_eq!((event.actor.as_deref(), event.runner_id.as_ref()), (Some("0a1b2c3d"), Some(&first.runner_id)));
    for key in ["k1", "k2", "k3"] {
        let fresh = enrolment(&pod("u1"), &format!("fresh {key}"), key);
        assert_eq!(refusal(world.enroll(&fresh)), (Code::RunnerBanned, None), "{key}");
    }
    assert_eq!(refusal(world.renew(&renewal(&twin, "k4"))), (Code::RunnerBanned, None));
    // The runner as recorded is banned, whatever instance it claims now.
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u2"), "e5", "k1"))), (Code::RunnerBanned, None));
    world.enroll(&enrolment(&pod("u2"), "e6", "k6")).unwrap();
}

fn a_runner_ban_covers_one_runner(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let renewed = world.renew(&renewal(&first, "k2")).unwrap();
    let answer = world.ban(&first.runner_id, Some(BanScope::Runner));
    assert!(answer.warning.unwrap().contains("new key"));
    for key in ["k1", "k2"] {
        assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e2", key))), (Code::RunnerBanned, None));
    }
    assert_eq!(refusal(world.renew(&renewal(&renewed, "k3"))), (Code::RunnerBanned, None));
    world.enroll(&enrolment(&pod("u1"), "e3", "k9")).unwrap();
}

fn aws_roles_are_warned_of(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&session("i-1"), "e1", "k1")).unwrap();
    let answer = world.ban(&first.runner_id, None);
    assert!(answer.warning.unwrap().contains("remove the rule"));
    assert_eq!(refusal(world.enroll(&enrolment(&session("i-1"), "e2", "k2"))), (Code::RunnerBanned, None));
    world.enroll(&enrolment(&session("chosen"), "e3", "k3")).unwrap();
}

fn after_unban_the_runner_is_expired_until_it_attests(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let twin = world.enroll(&enrolment(&pod("u1"), "e2", "k2")).unwrap();
    world.ban(&first.runner_id, None);
    assert_eq!(world.unban(&twin.runner_id).state, RunnerState::Expired);
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Expired);
    assert_eq!(world.last(AuditType::Unban).actor.as_deref(), Some("0a1b2c3d"));
    assert_eq!(refusal(world.renew(&renewal(&first, "k3"))), invalid(Reason::CertificateInvalid));
    let again = world.enroll(&enrolment(&pod("u1"), "e3", "k1")).unwrap();
    assert_eq!(again.runner_id, first.runner_id);
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Active);
    assert_eq!(world.revoked().len(), 2);
    world.renew(&renewal(&again, "k4")).unwrap();
    // Once more is no error.
    world.unban(&first.runner_id);
}

/// PROTOCOL names who needs fresh evidence: suspect, past re-attestation, evicted. Who was unbanned is not among them, and the operator has
/// said that the runner may attest: evidence that is still valid, with the key that used it, is an attestation.
fn used_evidence_counts_again_after_unban(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.ban(&first.runner_id, None);
    world.unban(&first.runner_id);
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k2"))), invalid(Reason::TokenReused));
    let again = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    assert_eq!(again.runner_id, first.runner_id);
    assert_ne!(again.serial, first.serial);
    assert_eq!(again.reattest_before, first.reattest_before);
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap(), again);
    assert_eq!(refusal(world.renew(&renewal(&first, "k3"))), invalid(Reason::CertificateInvalid));
    world.renew(&renewal(&again, "k3")).unwrap();
}

fn evict_forgets_and_wants_new_evidence(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.evict(&first.runner_id);
    assert_eq!(world.show(&first.runner_id), None);
    assert_eq!(world.last(AuditType::Evict).runner_id.as_ref(), Some(&first.runner_id));
    assert_eq!(refusal(world.renew(&renewal(&first, "k2"))), invalid(Reason::CertificateInvalid));
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k1"))), invalid(Reason::TokenReused));
    let again = world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
    assert_eq!(world.show(&again.runner_id).unwrap().state, RunnerState::Active);
    // Still not the old evidence nor the old certificate.
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k1"))), invalid(Reason::TokenReused));
    assert_eq!(refusal(world.renew(&renewal(&first, "k2"))), invalid(Reason::CertificateInvalid));
    let outbox = world.store.outbox(10).unwrap();
    assert_eq!(outbox.len(), 1);
    assert_eq!(outbox[0].revocation.reason, RevocationReason::CessationOfOperation);
}

/// Evidence that only `/v1/verify` had used is used evidence, however long after the evict it comes.
fn evict_voids_what_was_used_before_the_runner_was_one(store: &mut dyn Store) {
    let mut world = World::new(store);
    let verified = enrolment(&pod("u1"), "e1", "k1");
    assert_eq!(world.verify(&verified, true).denial, None);
    assert_eq!(world.last(AuditType::Verify).runner_id, None);
    let first = world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
    world.evict(&first.runner_id);
    assert_eq!(refusal(world.enroll(&verified)), invalid(Reason::TokenReused));
    world.pass(TTL + 1);
    while crate::registry::purge(world.store, world.now).unwrap() {}
    assert_eq!(world.store.runner(&first.runner_id).unwrap(), None);
    assert_eq!(refusal(world.enroll(&verified)), invalid(Reason::TokenReused));
}

fn evict_does_not_lift_a_ban(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let renewed = world.renew(&renewal(&first, "k2")).unwrap();
    world.ban(&first.runner_id, Some(BanScope::Runner));
    world.evict(&first.runner_id);
    assert_eq!(world.show(&first.runner_id), None);
    for (evidence, key) in [("e2", "k1"), ("e3", "k2")] {
        assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), evidence, key))), (Code::RunnerBanned, None));
    }
    assert_eq!(refusal(world.renew(&renewal(&renewed, "k3"))), (Code::RunnerBanned, None));
    world.pass(200 * 86_400);
    while crate::registry::purge(world.store, world.now).unwrap() {}
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e4", "k2"))), (Code::RunnerBanned, None));
}

/// After an evict a later key of the runner begins a runner of its own. Whichever of the two is banned, and whichever has the lesser id, the
/// key that both were certified for is refused.
fn a_ban_holds_for_every_key_of_a_runner_that_shares_one(store: &mut dyn Store) {
    let mut world = World::new(store);
    for number in 0..16 {
        let (uid, own, shared) = (format!("u{number}"), format!("own {number}"), format!("shared {number}"));
        let older = world.attest(&uid, &own).unwrap();
        world.renew(&renewal(&older, &shared)).unwrap();
        world.evict(&older.runner_id);
        let younger = world.attest(&uid, &shared).unwrap();
        assert_ne!(younger.runner_id, older.runner_id);
        let banned = if number % 2 == 0 {
            younger.runner_id
        } else {
            world.evict(&younger.runner_id);
            world.attest(&uid, &own).unwrap().runner_id
        };
        world.ban(&banned, Some(BanScope::Runner));
        world.evict(&banned);
        assert_eq!(refusal(world.attest(&uid, &shared)), (Code::RunnerBanned, None), "{number}");
        world.unban(&banned);
        world.attest(&uid, &shared).unwrap();
    }
}

fn an_evicted_banned_runner_can_be_unbanned(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.ban(&first.runner_id, None);
    world.evict(&first.runner_id);
    assert_eq!(world.unban(&first.runner_id).state, RunnerState::Expired);
    assert_eq!(refusal(runners::unban(world.store, &admin(), &first.runner_id, NOW).unwrap()), (Code::NotFound, None));
    world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
}

fn every_live_serial_reaches_the_outbox(store: &mut dyn Store) {
    let mut world = World::new(store);
    let ended = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(TTL / 2);
    let retired = world.renew(&renewal(&ended, "k2")).unwrap();
    let current = world.renew(&renewal(&retired, "k3")).unwrap();
    world.pass(TTL / 2);
    let next = world.renew(&renewal(&current, "k4")).unwrap();
    world.ban(&ended.runner_id, None);
    let mut expected = [retired.serial, current.serial, next.serial];
    let mut revoked = world.revoked();
    expected.sort();
    revoked.sort();
    assert_eq!(revoked, expected);
    let outbox = world.store.outbox(10).unwrap();
    assert!(outbox.iter().all(|item| item.revocation.reason == RevocationReason::PrivilegeWithdrawn));
    assert!(outbox.iter().all(|item| item.revocation.revoked_at == world.now));
    world.evict(&ended.runner_id);
    assert_eq!(world.store.outbox(10).unwrap(), outbox);
}

fn the_outbox_keeps_what_is_not_acknowledged(store: &mut dyn Store) {
    let mut world = World::new(store);
    for number in 0..3 {
        let name = format!("n{number}");
        let runner = world.enroll(&enrolment(&pod(&name), &name, &name)).unwrap();
        world.ban(&runner.runner_id, None);
    }
    let outbox = world.store.outbox(2).unwrap();
    assert_eq!(outbox.len(), 2);
    world.store.outbox_ack(outbox[1].seq).unwrap();
    let rest = world.store.outbox(10).unwrap();
    assert_eq!(rest.len(), 1);
    assert!(rest[0].seq > outbox[1].seq);
    world.store.outbox_ack(rest[0].seq).unwrap();
    let runner = world.enroll(&enrolment(&pod("last"), "last", "last")).unwrap();
    world.ban(&runner.runner_id, None);
    assert!(world.store.outbox(10).unwrap()[0].seq > rest[0].seq);
}

fn unknown_runners_and_tokens_are_refused_on_the_record(store: &mut dyn Store) {
    let world = World::new(store);
    let (runner, token) = ("a".repeat(26), "b".repeat(16));
    let long = "x".repeat(10_000);
    let kinds = [AuditType::TokenRevoke, AuditType::Evict, AuditType::Unban, AuditType::Ban];
    for id in [runner.as_str(), &token, "", "../x", "é", &long] {
        assert_eq!(refusal(runners::show(world.store, TENANT, id, NOW).unwrap()), (Code::NotFound, None));
        let before = world.audit().len();
        let ban = runners::ban(world.store, &admin(), id, &BanRequest::default(), NOW).unwrap();
        assert_eq!(refusal(ban), (Code::NotFound, None));
        assert_eq!(refusal(runners::unban(world.store, &admin(), id, NOW).unwrap()), (Code::NotFound, None));
        assert_eq!(refusal(runners::evict(world.store, &admin(), id, NOW).unwrap()), (Code::NotFound, None));
        assert_eq!(refusal(tokens::revoke(world.store, &admin(), id, NOW).unwrap()), (Code::NotFound, None));
        let events = world.audit();
        assert_eq!(events.len(), before + kinds.len(), "a look is no event");
        for (event, kind) in events.iter().zip(kinds) {
            assert_eq!((event.event, event.outcome, event.code), (kind, Decision::Deny, Some(Code::NotFound)));
            assert_eq!((event.actor.as_deref(), event.request_id.as_str()), (Some("0a1b2c3d"), "admin"));
            // What has the form of an id is named, in the place of its kind.
            let (named, identity) = match kind {
                AuditType::TokenRevoke => (None, (id == token).then(|| format!("bootstrap-token:{token}"))),
                _ => ((id == runner).then_some(id), None),
            };
            assert_eq!((event.runner_id.as_deref(), &event.identity), (named, &identity));
        }
    }
}

fn refused_calls_name_what_they_were_about(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.evict(&first.runner_id);
    for (kind, refused) in [
        (
            AuditType::Ban,
            refusal(runners::ban(world.store, &admin(), &first.runner_id, &BanRequest::default(), NOW).unwrap()),
        ),
        (AuditType::Unban, refusal(runners::unban(world.store, &admin(), &first.runner_id, NOW).unwrap())),
        (AuditType::Evict, refusal(runners::evict(world.store, &admin(), &first.runner_id, NOW).unwrap())),
    ] {
        assert_eq!(refused, (Code::NotFound, None));
        let event = world.last(kind);
        assert_eq!((event.outcome, event.runner_id.as_ref()), (Decision::Deny, Some(&first.runner_id)), "{kind}");
    }
    let long = BanRequest { reason: Some("x".repeat(513)), scope: None };
    let refused = runners::ban(world.store, &admin(), &first.runner_id, &long, NOW).unwrap();
    assert_eq!(refusal(refused), (Code::MalformedRequest, None));
    let event = world.last(AuditType::Ban);
    assert_eq!((event.code, event.reason), (Some(Code::MalformedRequest), None));
    let refused = tokens::mint(
        world.store,
        &admin(),
        &MintRequest { max_uses: Some(0), ..MintRequest::default() },
        NOW,
        &Counter,
    );
    assert_eq!(refusal(refused.unwrap()), (Code::MalformedRequest, None));
    let event = world.last(AuditType::TokenMint);
    assert_eq!((event.outcome, event.code, event.mode), (Decision::Deny, Some(Code::MalformedRequest), None));
    // What the worker itself refuses.
    audit::note_refused(world.store, &admin(), AuditType::TokenMint, None, Code::Forbidden, NOW).unwrap();
    assert_eq!(world.last(AuditType::TokenMint).code, Some(Code::Forbidden));
}

fn lists_are_paged(store: &mut dyn Store) {
    let mut world = World::new(store);
    for number in 0..5 {
        let name = format!("n{number}");
        world.enroll(&enrolment(&pod(&name), &name, &name)).unwrap();
        world.mint(1);
    }
    let evicted = world.enroll(&enrolment(&pod("gone"), "gone", "gone")).unwrap();
    world.evict(&evicted.runner_id);
    let mut ids = Vec::new();
    let mut query = PageQuery { limit: Some(2), cursor: None };
    loop {
        let page = runners::list(world.store, TENANT, &query, world.now).unwrap().unwrap();
        ids.extend(page.items.into_iter().map(|item| item.runner_id));
        let Some(next) = page.next else { break };
        query.cursor = Some(next);
    }
    assert_eq!(ids.len(), 5);
    assert!(ids.is_sorted() && !ids.contains(&evicted.runner_id));
    let exact = PageQuery { limit: Some(5), cursor: None };
    assert_eq!(runners::list(world.store, TENANT, &exact, world.now).unwrap().unwrap().next, None);
    let first = tokens::list(world.store, TENANT, &PageQuery { limit: Some(3), cursor: None }).unwrap().unwrap();
    let rest = tokens::list(world.store, TENANT, &PageQuery { limit: None, cursor: first.next }).unwrap().unwrap();
    assert_eq!((first.items.len(), rest.items.len(), rest.next), (3, 2, None));
    assert_eq!((rest.items[0].tenant.as_str(), rest.items[0].uses, rest.items[0].revoked), (TENANT, 0, false));
}

fn audit_is_newest_first_and_paged(store: &mut dyn Store) {
    let mut world = World::new(store);
    for _ in 0..5 {
        world.mint(1);
        world.pass(1);
    }
    let first = audit::list(world.store, &PageQuery { limit: Some(3), cursor: None }).unwrap().unwrap();
    assert_eq!(first.items[0].time, NOW.plus(4).to_rfc3339());
    let rest = audit::list(world.store, &PageQuery { limit: Some(3), cursor: first.next }).unwrap().unwrap();
    let ids: Vec<u64> = first.items.iter().chain(&rest.items).map(|event| event.id).collect();
    assert_eq!((ids, rest.next), (vec![5, 4, 3, 2, 1], None));
}

fn bad_cursors_and_limits(store: &mut dyn Store) {
    let query = |limit, cursor: Option<&str>| PageQuery { limit, cursor: cursor.map(str::to_owned) };
    for bad in [query(Some(0), None), query(Some(201), None), query(None, Some("'; --")), query(None, Some(""))] {
        assert_eq!(refusal(audit::list(store, &bad).unwrap()), (Code::MalformedRequest, None));
        assert_eq!(refusal(tokens::list(store, TENANT, &bad).unwrap()), (Code::MalformedRequest, None));
        assert_eq!(refusal(runners::list(store, TENANT, &bad, NOW).unwrap()), (Code::MalformedRequest, None));
    }
}
