//! CHECKS I4, I5; PROTOCOL, Renew and Serials.

use protocol::admin::{AuditType, RunnerState};
use protocol::{Code, Decision, Reason};

use super::world::{NOW, REATTEST, TTL, World, enrolment, invalid, key, pod, refusal, renewal, rule, session};
use crate::appraisal::Rule;
use crate::registry::{Allotment, RenewCommand, RevocationReason, Store};

super::list_cases![
    first_use_of_next_retires_current,
    the_same_request_gets_the_same_allotment,
    a_repeat_is_answered_after_the_serial_was_retired,
    another_key_replaces_next_and_is_audited,
    a_runner_that_keeps_its_key_renews,
    a_retired_serial_with_another_key_makes_the_runner_suspect,
    fresh_evidence_clears_suspect_and_revokes_every_earlier_serial,
    used_evidence_does_not_clear_suspect,
    evidence_seen_by_verify_does_not_clear_suspect,
    must_reattest_when_the_time_has_come,
    removed_rules_and_tenants_are_not_mapped,
    an_isolate_that_is_behind_brings_no_rule_back,
    a_key_of_another_runner_stays_with_the_first,
    a_certificate_renews_its_own_runner_only,
    unknown_and_ended_serials_are_invalid,
    mapping_comes_before_the_ban,
];

fn start(world: &mut World<'_>) -> Allotment {
    world.enroll(&enrolment(&pod("u1"), "e1", "k1")).unwrap()
}

fn slots(world: &World<'_>, id: &str) -> (Option<String>, Option<String>) {
    let runner = world.store.runner(id).unwrap().unwrap();
    (runner.current.map(|slot| slot.serial), runner.next.map(|slot| slot.serial))
}

fn first_use_of_next_retires_current(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    assert_eq!(slots(&world, &first.runner_id), (Some(first.serial.clone()), Some(second.serial.clone())));
    world.pass(TTL / 2);
    let third = world.renew(&renewal(&second, "k3")).unwrap();
    assert_eq!(slots(&world, &first.runner_id), (Some(second.serial), Some(third.serial.clone())));
    assert_eq!((third.not_after, third.reattest_before), (world.now.plus(TTL), Some(NOW.plus(REATTEST))));
    let item = world.show(&first.runner_id).unwrap();
    assert_eq!((item.serial, item.last_seen), (third.serial, world.now.to_rfc3339()));
    assert_eq!(item.attested_at, NOW.to_rfc3339());
    let event = world.last(AuditType::Renew);
    assert_eq!((event.outcome, event.reason, event.runner_id), (Decision::Allow, None, Some(first.runner_id)));
}

fn the_same_request_gets_the_same_allotment(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    world.pass(30);
    assert_eq!(world.renew(&renewal(&first, "k2")).unwrap(), second);
    assert_eq!(slots(&world, &first.runner_id), (Some(first.serial), Some(second.serial)));
}

fn a_repeat_is_answered_after_the_serial_was_retired(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    let third = world.renew(&renewal(&second, "k3")).unwrap();
    let before = slots(&world, &first.runner_id);
    assert_eq!(world.renew(&renewal(&first, "k2")).unwrap(), second);
    assert_eq!(slots(&world, &first.runner_id), before);
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Active);
    world.renew(&renewal(&third, "k4")).unwrap();
    assert_eq!(world.renew(&renewal(&second, "k3")).unwrap(), third);
    assert_eq!(world.renew(&renewal(&first, "k2")).unwrap(), second);
}

fn another_key_replaces_next_and_is_audited(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let lost = world.renew(&renewal(&first, "k2")).unwrap();
    let second = world.renew(&renewal(&first, "k3")).unwrap();
    assert_ne!(lost.serial, second.serial);
    assert_eq!(slots(&world, &first.runner_id), (Some(first.serial.clone()), Some(second.serial)));
    assert_eq!(world.last(AuditType::Renew).reason.as_deref(), Some("next_replaced"));
    // The one that was replaced is retired: its use by another key tells of two holders.
    assert_eq!(refusal(world.renew(&renewal(&lost, "k4"))), (Code::CertificateSuperseded, None));
}

fn a_runner_that_keeps_its_key_renews(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let second = world.renew(&renewal(&first, "k1")).unwrap();
    assert_ne!(first.serial, second.serial);
    assert_eq!(world.renew(&renewal(&first, "k1")).unwrap(), second);
    let third = world.renew(&renewal(&second, "k1")).unwrap();
    assert_eq!(third.spki_sha256, key("k1"));
    assert_eq!(slots(&world, &first.runner_id), (Some(second.serial), Some(third.serial)));
}

fn make_suspect(world: &mut World<'_>) -> [Allotment; 3] {
    let first = start(world);
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    let third = world.renew(&renewal(&second, "k3")).unwrap();
    assert_eq!(refusal(world.renew(&renewal(&first, "thief"))), (Code::CertificateSuperseded, None));
    [first, second, third]
}

fn a_retired_serial_with_another_key_makes_the_runner_suspect(store: &mut dyn Store) {
    let mut world = World::new(store);
    let serials = make_suspect(&mut world);
    let id = serials[0].runner_id.clone();
    assert_eq!(world.show(&id).unwrap().state, RunnerState::Suspect);
    let event = world.last(AuditType::Suspect);
    assert_eq!((event.outcome, event.runner_id), (Decision::Deny, Some(id)));
    assert_eq!(world.last(AuditType::Renew).code, Some(Code::CertificateSuperseded));
    for serial in &serials {
        for key in ["k1", "k2", "k3", "k4", "thief"] {
            assert_eq!(refusal(world.renew(&renewal(serial, key))), (Code::MustReattest, None), "{key}");
        }
    }
    assert!(world.revoked().is_empty());
}

fn fresh_evidence_clears_suspect_and_revokes_every_earlier_serial(store: &mut dyn Store) {
    let mut world = World::new(store);
    let serials = make_suspect(&mut world);
    let cleared = world.enroll(&enrolment(&pod("u1"), "e2", "k3")).unwrap();
    assert_eq!(cleared.runner_id, serials[0].runner_id);
    assert_eq!(slots(&world, &cleared.runner_id), (Some(cleared.serial.clone()), None));
    assert_eq!(world.show(&cleared.runner_id).unwrap().state, RunnerState::Active);
    let mut expected: Vec<_> = serials.iter().map(|serial| serial.serial.clone()).collect();
    let mut revoked = world.revoked();
    expected.sort();
    revoked.sort();
    assert_eq!(revoked, expected);
    let outbox = world.store.outbox(10).unwrap();
    assert!(outbox.iter().all(|item| item.revocation.reason == RevocationReason::KeyCompromise));
    for serial in &serials {
        assert_eq!(refusal(world.renew(&renewal(serial, "k9"))), invalid(Reason::CertificateInvalid));
    }
    world.renew(&renewal(&cleared, "k5")).unwrap();
}

fn used_evidence_does_not_clear_suspect(store: &mut dyn Store) {
    let mut world = World::new(store);
    let [first, ..] = make_suspect(&mut world);
    assert_eq!(refusal(world.enroll(&enrolment(&pod("u1"), "e1", "k1"))), invalid(Reason::TokenReused));
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Suspect);
}

fn evidence_seen_by_verify_does_not_clear_suspect(store: &mut dyn Store) {
    let mut world = World::new(store);
    let [first, ..] = make_suspect(&mut world);
    let seen = enrolment(&pod("u1"), "e2", "k3");
    assert_eq!(world.verify(&seen, true).denial, None);
    assert_eq!(refusal(world.enroll(&seen)), invalid(Reason::TokenReused));
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Suspect);
}

fn must_reattest_when_the_time_has_come(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    world.pass(600);
    let shortened = |key: &str| {
        let mut command = renewal(&first, key);
        command.terms.reattest_after = 600;
        command
    };
    assert_eq!(refusal(world.renew(&shortened("k2"))), (Code::MustReattest, None));
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Active);
    world.enroll(&enrolment(&pod("u1"), "e2", "k1")).unwrap();
    world.renew(&shortened("k2")).unwrap();
}

fn removed_rules_and_tenants_are_not_mapped(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    for rules in [Some(Vec::new()), None] {
        let denial = world.renew(&RenewCommand { rules, ..renewal(&first, "k2") }).unwrap_err();
        assert_eq!(denial.code, Code::IdentityNotMapped);
        assert!(denial.detail.contains(&pod("u1").identity()));
    }
    let event = world.last(AuditType::Renew);
    assert_eq!((event.code, event.identity), (Some(Code::IdentityNotMapped), Some(pod("u1").identity())));
    // Nor is what was allotted before given out again.
    world.renew(&renewal(&first, "k2")).unwrap();
    let removed = RenewCommand { rules: Some(Vec::new()), ..renewal(&first, "k2") };
    assert_eq!(refusal(world.renew(&removed)), (Code::IdentityNotMapped, None));
    world.renew(&renewal(&first, "k2")).unwrap();
}

/// CHECKS I5: the newest policy that a renewal brought decides, whichever isolate asks.
fn an_isolate_that_is_behind_brings_no_rule_back(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let other = world.enroll(&enrolment(&pod("u2"), "e2", "o1")).unwrap();
    let at = |policy_version, rules: Option<Vec<Rule>>| {
        move |presented: &Allotment, key: &str| RenewCommand {
            policy_version,
            rules: rules.clone(),
            ..renewal(presented, key)
        }
    };
    let (old, removed, gone) = (at(7, Some(vec![rule()])), at(8, Some(Vec::new())), at(9, None));
    let second = world.renew(&old(&first, "k2")).unwrap();
    assert_eq!(refusal(world.renew(&removed(&second, "k3"))), (Code::IdentityNotMapped, None));
    // Neither this runner nor another of the tenant, by no isolate that still has the rule; nor is an answer repeated.
    assert_eq!(refusal(world.renew(&old(&second, "k3"))), (Code::IdentityNotMapped, None));
    assert_eq!(refusal(world.renew(&old(&first, "k2"))), (Code::IdentityNotMapped, None));
    assert_eq!(refusal(world.renew(&old(&other, "o2"))), (Code::IdentityNotMapped, None));
    assert_eq!(refusal(world.renew(&gone(&other, "o2"))), (Code::IdentityNotMapped, None));
    assert_eq!(refusal(world.renew(&removed(&other, "o2"))), (Code::IdentityNotMapped, None));
    // Back in the next policy; then the one behind is a policy without the tenant, and does not count either.
    world.renew(&at(10, Some(vec![rule()]))(&other, "o2")).unwrap();
    world.renew(&gone(&second, "k3")).unwrap();
    // A certificate that is not valid tells nothing of a policy.
    let unknown = RenewCommand { presented_serial: "4".repeat(32), ..at(11, None)(&first, "k9") };
    assert_eq!(refusal(world.renew(&unknown)), invalid(Reason::CertificateInvalid));
    world.renew(&at(10, Some(vec![rule()]))(&second, "k4")).unwrap();
}

fn a_key_of_another_runner_stays_with_the_first(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let other = world.enroll(&enrolment(&pod("u2"), "e2", "o1")).unwrap();
    // Its first key, known by the id alone, and one of the index.
    let renewed = world.renew(&renewal(&first, "k2")).unwrap();
    let with_first = world.renew(&renewal(&other, "k1")).unwrap();
    world.renew(&renewal(&with_first, "k2")).unwrap();
    for (evidence, key) in [("e3", "k1"), ("e4", "k2")] {
        let again = world.enroll(&enrolment(&pod("u1"), evidence, key)).unwrap();
        assert_eq!(again.runner_id, renewed.runner_id, "{key}");
    }
    // Until the first is forgotten by an operator.
    world.evict(&first.runner_id);
    let last = world.renew(&renewal(&with_first, "k2")).unwrap();
    world.renew(&renewal(&last, "k2")).unwrap();
    assert_eq!(world.enroll(&enrolment(&pod("u2"), "e5", "k2")).unwrap().runner_id, other.runner_id);
}

fn a_certificate_renews_its_own_runner_only(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let other = world.enroll(&enrolment(&session("s"), "e2", "k1")).unwrap();
    let crossed = RenewCommand { runner_id: other.runner_id.clone(), ..renewal(&first, "k2") };
    assert_eq!(refusal(world.renew(&crossed)), invalid(Reason::CertificateInvalid));
    let foreign_key = RenewCommand { presented_spki_sha256: key("k2"), ..renewal(&first, "k2") };
    assert_eq!(refusal(world.renew(&foreign_key)), invalid(Reason::CertificateInvalid));
    assert_eq!(world.last(AuditType::Renew).outcome, Decision::Deny);
}

fn unknown_and_ended_serials_are_invalid(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    let unknown = RenewCommand { presented_serial: "4".repeat(32), ..renewal(&first, "k2") };
    assert_eq!(refusal(world.renew(&unknown)), invalid(Reason::CertificateInvalid));
    let event = world.last(AuditType::Renew);
    assert_eq!((event.runner_id.as_ref(), event.identity), (Some(&first.runner_id), None));
    world.pass(TTL);
    assert_eq!(refusal(world.renew(&renewal(&first, "k2"))), invalid(Reason::CertificateInvalid));
    let event = world.last(AuditType::Renew);
    assert_eq!((event.runner_id.as_ref(), event.identity), (Some(&first.runner_id), Some(pod("u1").identity())));
    assert_eq!(world.show(&first.runner_id).unwrap().state, RunnerState::Expired);
}

fn mapping_comes_before_the_ban(store: &mut dyn Store) {
    let mut world = World::new(store);
    let first = start(&mut world);
    world.ban(&first.runner_id, None);
    let removed = RenewCommand { rules: None, ..renewal(&first, "k2") };
    assert_eq!(refusal(world.renew(&removed)), (Code::IdentityNotMapped, None));
    assert_eq!(refusal(world.renew(&renewal(&first, "k2"))), (Code::RunnerBanned, None));
}
