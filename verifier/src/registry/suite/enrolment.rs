//! PROTOCOL, Enroll and Serials; CHECKS I3, K7: identities.

use protocol::admin::{AuditType, RunnerState};
use protocol::{Code, Decision, Reason};

use super::world::{
    NOW, REATTEST, SERVICE, TENANT, TTL, World, enrolment, invalid, key, pod, refusal, renewal, session, terms,
};
use crate::checks::Check;
use crate::registry::{CertificateTerms, EnrollCommand, Store};

super::list_cases![
    first_enrolment_allots_as_i2_and_i3_say,
    same_identity_and_key_is_the_same_runner,
    any_other_key_is_a_new_runner,
    keys_of_renewals_are_indexed,
    a_runner_keeps_its_id_though_another_had_its_key,
    an_enrolment_sets_next_and_never_retires_current,
    used_evidence_gives_back_the_pending_certificate_and_moves_nothing,
    used_evidence_is_reissued_when_its_certificate_has_ended,
    k7_evidence_belongs_to_the_first_key,
    used_evidence_is_refused_past_reattestation,
    not_after_is_the_least_of_three_ends,
    an_ended_issuer_allots_nothing,
    second_key_for_instance_is_audited,
    one_key_per_instance_refuses,
    a_second_key_is_none_when_the_first_has_ended,
    verify_consumes_as_enroll_does,
    verify_without_consume_writes_nothing,
    verify_answers_as_enroll_would,
    a_runner_cannot_fill_the_record,
];

fn first_enrolment_allots_as_i2_and_i3_say(store: &mut dyn Store) {
    let mut world = World::new(store);
    let allotment = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    assert_eq!(allotment.tenant, TENANT);
    assert_eq!(allotment.spki_sha256, key("k1"));
    assert_eq!((allotment.runner_id.len(), allotment.serial.len()), (26, 32));
    assert_eq!(allotment.not_before, NOW.plus(-60));
    assert_eq!(allotment.not_after, NOW.plus(TTL));
    assert_eq!(allotment.reattest_before, Some(NOW.plus(REATTEST)));
    let runner = world.show(&allotment.runner_id).unwrap();
    assert_eq!((runner.state, runner.serial.as_str()), (RunnerState::Active, allotment.serial.as_str()));
    assert_eq!((runner.identity, runner.instance), (pod("u1").identity(), "u1".to_owned()));
    let event = world.last(AuditType::Enroll);
    assert_eq!((event.outcome, event.code, event.runner_id), (Decision::Allow, None, Some(allotment.runner_id)));
    assert_eq!((event.request_id.as_str(), event.time), ("enroll e1 k1", NOW.to_rfc3339()));
}

fn same_identity_and_key_is_the_same_runner(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let again = world.enroll(&enrolment(&pod("u2"), "e2", "k1")).unwrap();
    assert_eq!(first.runner_id, again.runner_id);
    assert_ne!(first.serial, again.serial);
    assert_eq!(world.show(&first.runner_id).unwrap().instance, "u2");
    let elsewhere = world.enroll(&enrolment(&session("s"), "e3", "k1")).unwrap();
    assert_ne!(first.runner_id, elsewhere.runner_id);
}

fn any_other_key_is_a_new_runner(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let other = world.enroll(&enrolment(&pod("u2"), "e2", "k2")).unwrap();
    assert_ne!(first.runner_id, other.runner_id);
}

fn keys_of_renewals_are_indexed(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let renewed = world.renew(&renewal(&first, "k2")).unwrap();
    let attested = world.enroll(&enrolment(&pod("u1"), "e2", "k2")).unwrap();
    assert_eq!((&first.runner_id, &first.runner_id), (&renewed.runner_id, &attested.runner_id));
    // A key that another runner certifies later stays with the first.
    let other = world.enroll(&enrolment(&pod("u9"), "e3", "k9")).unwrap();
    world.renew(&renewal(&other, "k2")).unwrap();
    let owner = world.enroll(&enrolment(&pod("u1"), "e4", "k2")).unwrap();
    assert_eq!(owner.runner_id, first.runner_id);
}

/// After an evict a later key of the runner begins a runner of its own; neither takes the other's place when the evicted one comes back.
fn a_runner_keeps_its_id_though_another_had_its_key(store: &mut dyn Store) {
    let mut world = World::new(store);
    for number in 0..8 {
        let (own, shared, later) = (format!("own {number}"), format!("shared {number}"), format!("later {number}"));
        let enroll = |world: &mut World<'_>, key: &str| world.attest("u1", key).unwrap();
        let older = enroll(&mut world, &own);
        world.renew(&renewal(&older, &shared)).unwrap();
        world.evict(&older.runner_id);
        let younger = enroll(&mut world, &shared);
        assert_eq!(enroll(&mut world, &own).runner_id, older.runner_id);
        for _ in 0..2 {
            assert_eq!(enroll(&mut world, &shared).runner_id, younger.runner_id);
            assert_eq!(enroll(&mut world, &own).runner_id, older.runner_id);
        }
        // A later key that both were certified for is the one's that attests with it.
        let other = enroll(&mut world, &format!("other {number}"));
        world.renew(&renewal(&other, &later)).unwrap();
        world.evict(&other.runner_id);
        let attested = enroll(&mut world, &own);
        world.renew(&renewal(&attested, &later)).unwrap();
        assert_eq!(enroll(&mut world, &format!("other {number}")).runner_id, other.runner_id);
        assert_eq!(enroll(&mut world, &later).runner_id, older.runner_id);
    }
}

fn an_enrolment_sets_next_and_never_retires_current(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let second = world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
    let runner = world.store.runner(&first.runner_id).unwrap().unwrap();
    assert_eq!(runner.current.unwrap().serial, first.serial);
    assert_eq!(runner.next.unwrap().serial, second.serial);
    // `current` still renews; `next` that was never used is retired by it.
    let third = world.renew(&renewal(&first, "k2")).unwrap();
    let runner = world.store.runner(&first.runner_id).unwrap().unwrap();
    assert_eq!((runner.current.unwrap().serial, runner.next.unwrap().serial), (first.serial, third.serial));
    assert!(world.revoked().is_empty());
}

fn used_evidence_gives_back_the_pending_certificate_and_moves_nothing(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(60);
    let before = world.store.runner(&first.runner_id).unwrap();
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap(), first);
    assert_eq!(world.store.runner(&first.runner_id).unwrap(), before);
    assert_eq!(world.store.count_serials(&first.runner_id, world.now).unwrap(), 1);
    // Also after the runner moved on.
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    world.renew(&renewal(&second, "k3")).unwrap();
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap(), first);
}

fn used_evidence_is_reissued_when_its_certificate_has_ended(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(TTL);
    let second = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    assert_eq!(first.runner_id, second.runner_id);
    assert_eq!(second.not_after, world.now.plus(TTL));
    assert_eq!(second.reattest_before, first.reattest_before);
    assert_eq!(world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap(), second);
}

fn k7_evidence_belongs_to_the_first_key(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k2"))), invalid(Reason::TokenReused));
    let event = world.last(AuditType::Enroll);
    assert_eq!((event.outcome, event.code), (Decision::Deny, Some(Code::AttestationInvalid)));
    assert_eq!(event.protocol_reason(), Some(Reason::TokenReused));
    // Not even a later key of the same runner.
    world.renew(&renewal(&first, "k3")).unwrap();
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k3"))), invalid(Reason::TokenReused));
    // K7 comes before the ban.
    world.ban(&first.runner_id, None);
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k2"))), invalid(Reason::TokenReused));
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k1"))), (Code::RunnerBanned, None));
}

fn used_evidence_is_refused_past_reattestation(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(REATTEST);
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k1"))), invalid(Reason::TokenReused));
    assert_eq!(world.last(AuditType::Enroll).runner_id, Some(first.runner_id.clone()));
    let fresh = world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
    assert_eq!(fresh.runner_id, first.runner_id);
    assert_eq!(fresh.reattest_before, Some(world.now.plus(REATTEST)));
}

fn not_after_is_the_least_of_three_ends(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let with = |name: &str, change: fn(&mut CertificateTerms)| {
        let mut command = enrolment(&pod(name), name, name);
        change(&mut command.terms);
        command
    };
    let issuer = world.enroll(&with("a", |terms| terms.issuer_not_after = NOW.plus(100))).unwrap();
    assert_eq!(issuer.not_after, NOW.plus(100));
    // A renewal shortly before re-attestation ends with it.
    let mut last = first;
    while world.now.plus(TTL) < NOW.plus(REATTEST) {
        world.pass(TTL / 2);
        last = world.renew(&renewal(&last, &format!("k{}", world.now.secs()))).unwrap();
    }
    world.pass(TTL / 2);
    last = world.renew(&renewal(&last, "last")).unwrap();
    assert_eq!(Some(last.not_after), last.reattest_before);
    assert_eq!(last.not_after, NOW.plus(REATTEST));
}

fn an_ended_issuer_allots_nothing(store: &mut dyn Store) {
    let mut world = World::new(store);
    let command = EnrollCommand {
        terms: CertificateTerms { issuer_not_after: NOW, ..terms() },
        ..enrolment(&pod("u1"), "e1", "k1")
    };
    assert_eq!(refusal(world.enroll(&command)), (Code::NotConfigured, None));
    assert!(world.store.runners(None, 10).unwrap().is_empty());
    world.enroll(&enrolment(&pod("u1"), "e1", "k2")).unwrap();
}

fn second_key_for_instance_is_audited(store: &mut dyn Store) {
    let mut world = World::new(store);
    world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let second = world.enroll(&enrolment(&pod("u1"), "e2", "k2")).unwrap();
    let event = world.last(AuditType::SecondKeyForInstance);
    assert_eq!((event.outcome, event.runner_id), (Decision::Allow, Some(second.runner_id)));
    // Attesting again is nothing new.
    world.enroll(&enrolment(&pod("u1"), "e3", "k2")).unwrap();
    world.enroll(&enrolment(&pod("u2"), "e4", "k4")).unwrap();
    let count = world.audit().iter().filter(|event| event.event == AuditType::SecondKeyForInstance).count();
    assert_eq!(count, 1);
}

fn one_key(mut command: EnrollCommand) -> EnrollCommand {
    command.terms.one_key_per_instance = true;
    command
}

fn one_key_per_instance_refuses(store: &mut dyn Store) {
    let mut world = World::new(store);
    world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    assert_eq!(refusal(world.enroll(&one_key(enrolment(&pod("u1"), "e2", "k2")))), (Code::IdentityInUse, None));
    world.enroll(&one_key(enrolment(&pod("u1"), "e3", "k1"))).unwrap();
    world.enroll(&one_key(enrolment(&pod("u2"), "e4", "k3"))).unwrap();
    // The refusal bound nothing: the evidence is still free.
    world.enroll(&enrolment(&pod("u1"), "e2", "k4")).unwrap();
    let banned = world.enroll(&enrolment(&pod("u1"), "e5", "k1")).unwrap();
    world.ban(&banned.runner_id, None);
    // The ban is told before the state.
    assert_eq!(refusal(world.enroll(&one_key(enrolment(&pod("u1"), "e6", "k9")))), (Code::RunnerBanned, None));
}

fn a_second_key_is_none_when_the_first_has_ended(store: &mut dyn Store) {
    let mut world = World::new(store);
    world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    world.pass(TTL);
    world.enroll(&one_key(enrolment(&pod("u1"), "e2", "k2"))).unwrap();
    assert!(world.audit().iter().all(|event| event.event != AuditType::SecondKeyForInstance));
}

fn verify_consumes_as_enroll_does(store: &mut dyn Store) {
    let mut world = World::new(store);
    let command = enrolment(&pod("u1"), "e1", "k1");
    let appraisal = world.verify(&command, true);
    assert_eq!((appraisal.denial, appraisal.consumed), (None, true));
    assert_eq!(appraisal.passed, [Check::K7, Check::M2]);
    let event = world.last(AuditType::Verify);
    assert_eq!((event.outcome, event.actor.as_deref()), (Decision::Allow, Some(SERVICE)));
    assert!(world.store.runners(None, 10).unwrap().is_empty());
    let other = enrolment(&pod("u1"), "e1", "k2");
    assert_eq!(refusal(world.enroll(&other)), invalid(Reason::TokenReused));
    let refused = world.verify(&other, true);
    assert_eq!((refused.denial.unwrap().reason, refused.consumed), (Some(Reason::TokenReused), false));
    assert!(refused.passed.is_empty());
    // The same key may: it registers the runner.
    let enrolled = world.enroll(&command).unwrap();
    assert_eq!(world.enroll(&command).unwrap(), enrolled);
    assert_eq!(world.verify(&command, true).denial, None);
    assert_eq!(world.enroll(&command).unwrap(), enrolled);
}

fn verify_without_consume_writes_nothing(store: &mut dyn Store) {
    let mut world = World::new(store);
    let command = enrolment(&pod("u1"), "e1", "k1");
    let appraisal = world.verify(&command, false);
    assert_eq!((appraisal.denial, appraisal.consumed), (None, false));
    world.enroll(&enrolment(&pod("u2"), "e2", "k2")).unwrap();
    let events = world.audit().len();
    let refused = world.verify(&enrolment(&pod("u2"), "e2", "k3"), false);
    assert_eq!(refused.denial.unwrap().reason, Some(Reason::TokenReused));
    assert_eq!(world.audit().len(), events);
    world.enroll(&enrolment(&pod("u1"), "e1", "k9")).unwrap();
}

fn verify_answers_as_enroll_would(store: &mut dyn Store) {
    let mut world = World::new(store);
    let runner = world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap();
    let second = world.verify(&one_key(enrolment(&pod("u1"), "e2", "k2")), false);
    assert_eq!(second.denial.unwrap().code, Code::IdentityInUse);
    assert_eq!(second.passed, [Check::K7]);
    world.ban(&runner.runner_id, None);
    assert_eq!(world.verify(&enrolment(&pod("u1"), "e2", "k2"), false).denial.unwrap().code, Code::RunnerBanned);
}

fn a_runner_cannot_fill_the_record(store: &mut dyn Store) {
    let mut world = World::new(store);
    for number in 0..1_000 {
        world.enroll(&enrolment(&pod("u1"), &format!("e{number}"), "k1")).unwrap();
    }
    let denial = world.enroll(&enrolment(&pod("u1"), "more", "k1")).unwrap_err();
    assert_eq!((denial.code, denial.retry_after), (Code::RateLimited, Some(300)));
    world.pass(TTL);
    world.enroll(&enrolment(&pod("u1"), "more", "k1")).unwrap();
}
