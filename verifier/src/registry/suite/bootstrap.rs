//! CHECKS B2 to B5; PROTOCOL, Serials: bootstrap tokens.

use protocol::admin::{AuditType, BanScope, MintRequest, RunnerState, TokenCause};
use protocol::{Code, Mode, Reason};

use super::world::{Counter, NOW, TTL, World, admin, by_token, invalid, refusal, renewal};
use crate::checks::Check;
use crate::evidence::bootstrap_token;
use crate::registry::{AdmittedEvidence, EnrollCommand, Store, tokens};

super::list_cases![
    a_token_admits_as_often_as_it_says,
    the_same_key_is_the_same_use,
    any_key_of_the_runner_is_the_same_use,
    a_new_allotment_when_the_certificate_has_ended,
    every_refusal_looks_the_same_and_audit_tells_them_apart,
    used_evidence_does_not_help_a_suspect,
    used_evidence_does_not_help_after_an_evict,
    reattestation_is_off_unless_set,
    the_same_use_is_refused_past_reattestation,
    ban_covers_the_runner_by_default,
    instance_ban_revokes_the_token,
    no_second_key_for_tokens,
    verify_uses_a_token_up,
    a_revoked_token_leaves_its_runners_alone,
    bad_mint_values,
];

const REFUSED: (Code, Option<Reason>) = invalid(Reason::BootstrapTokenRefused);

fn a_token_admits_as_often_as_it_says(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(3);
    let runners: Vec<_> =
        (0..3).map(|n| world.enroll(&by_token(&token.token, &format!("k{n}"))).unwrap().runner_id).collect();
    assert!(runners[0] != runners[1] && runners[1] != runners[2] && runners[0] != runners[2]);
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k3"))), REFUSED);
    assert_eq!(world.uses(&token), 3);
    let item = world.show(&runners[0]).unwrap();
    assert_eq!((item.mode, item.state), (Mode::BootstrapToken, RunnerState::Active));
    assert_eq!(item.identity, format!("bootstrap-token:{}", token.id));
    assert_eq!(item.instance, item.identity);
}

fn the_same_key_is_the_same_use(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    world.pass(10);
    assert_eq!(world.enroll(&by_token(&token.token, "k1")).unwrap(), first);
    assert_eq!(world.uses(&token), 1);
}

fn any_key_of_the_runner_is_the_same_use(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    let renewed = world.renew(&renewal(&first, "k2")).unwrap();
    assert_eq!(world.enroll(&by_token(&token.token, "k2")).unwrap(), renewed);
    assert_eq!(world.uses(&token), 1);
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k3"))), REFUSED);
}

fn a_new_allotment_when_the_certificate_has_ended(store: &mut dyn Store) {
    let mut world = World::new(store);
    let request = MintRequest { ttl: Some("2d".to_owned()), ..MintRequest::default() };
    let token = tokens::mint(world.store, &admin(), &request, NOW, &Counter).unwrap().unwrap();
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    world.pass(TTL);
    let second = world.enroll(&by_token(&token.token, "k1")).unwrap();
    assert_eq!(first.runner_id, second.runner_id);
    assert_ne!(first.serial, second.serial);
    assert_eq!(world.uses(&token), 1);
    assert_eq!(world.enroll(&by_token(&token.token, "k1")).unwrap(), second);
}

fn every_refusal_looks_the_same_and_audit_tells_them_apart(store: &mut dyn Store) {
    let mut world = World::new(store);
    let used_up = world.mint(1);
    world.enroll(&by_token(&used_up.token, "k1")).unwrap();
    let revoked = world.mint(1);
    tokens::revoke(world.store, &admin(), &revoked.id, NOW).unwrap().unwrap();
    let expired = world.mint(1);
    let unknown = format!("rpbt_acme_aaaaaaaaaaaaaaaa_{}", "a".repeat(52));
    let live = world.mint(1);
    let wrong = [&live.token[..live.token.len() - 52], &"a".repeat(52)].concat();
    let mut denials = Vec::new();
    let mut look = |world: &mut World<'_>, token: &str, cause| {
        denials.push(world.enroll(&by_token(token, "k2")).unwrap_err());
        assert_eq!(world.last(AuditType::Enroll).cause, Some(cause));
        denials.push(world.verify(&by_token(token, "k2"), true).denial.unwrap());
        assert_eq!(world.last(AuditType::Verify).cause, Some(cause));
    };
    look(&mut world, &used_up.token, TokenCause::UsedUp);
    look(&mut world, &revoked.token, TokenCause::Revoked);
    look(&mut world, &unknown, TokenCause::Unknown);
    look(&mut world, &wrong, TokenCause::WrongSecret);
    world.pass(3_600);
    look(&mut world, &expired.token, TokenCause::Expired);
    assert!(denials.iter().all(|denial| *denial == bootstrap_token::refused(Check::B3)));
    assert_eq!(world.uses(&live), 0);
}

fn make_suspect(world: &mut World<'_>, token: &str) -> String {
    let first = world.enroll(&by_token(token, "k1")).unwrap();
    let second = world.renew(&renewal(&first, "k2")).unwrap();
    world.renew(&renewal(&second, "k3")).unwrap();
    assert_eq!(refusal(world.renew(&renewal(&first, "thief"))), (Code::CertificateSuperseded, None));
    first.runner_id
}

fn used_evidence_does_not_help_a_suspect(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(2);
    let id = make_suspect(&mut world, &token.token);
    for key in ["k1", "k2", "k3"] {
        assert_eq!(refusal(world.enroll(&by_token(&token.token, key))), REFUSED, "{key}");
        assert_eq!(world.last(AuditType::Enroll).runner_id.as_ref(), Some(&id));
    }
    assert_eq!(world.uses(&token), 1);
    let fresh = world.enroll(&by_token(&token.token, "k9")).unwrap();
    assert_ne!(fresh.runner_id, id);
}

fn used_evidence_does_not_help_after_an_evict(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(2);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    world.renew(&renewal(&first, "k2")).unwrap();
    world.evict(&first.runner_id);
    for key in ["k1", "k2"] {
        assert_eq!(refusal(world.enroll(&by_token(&token.token, key))), REFUSED, "{key}");
    }
    // Also when certificates and alarms have come and gone, while the token lives.
    world.pass(TTL - 1);
    while crate::registry::purge(world.store, world.now).unwrap() {}
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k1"))), REFUSED);
    let new_token = world.mint(1);
    let fresh = world.enroll(&by_token(&new_token.token, "k1")).unwrap();
    assert_ne!(fresh.runner_id, first.runner_id);
}

fn reattestation_is_off_unless_set(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let mut last = world.enroll(&by_token(&token.token, "k")).unwrap();
    assert_eq!(last.reattest_before, None);
    for step in 0..100 {
        world.pass(TTL / 2);
        last = world.renew(&renewal(&last, &format!("k{step}"))).unwrap();
    }
    let mut due = renewal(&last, "due");
    due.terms.bootstrap_reattest_after = Some(TTL);
    assert_eq!(refusal(world.renew(&due)), (Code::MustReattest, None));
}

fn the_same_use_is_refused_past_reattestation(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(2);
    let due = |key: &str| {
        let mut command = by_token(&token.token, key);
        command.terms.bootstrap_reattest_after = Some(600);
        command
    };
    world.enroll(&due("k1")).unwrap();
    world.pass(600);
    assert_eq!(refusal(world.enroll(&due("k1"))), REFUSED);
    world.enroll(&due("k2")).unwrap();
}

fn ban_covers_the_runner_by_default(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(3);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    let other = world.enroll(&by_token(&token.token, "k2")).unwrap();
    let answer = world.ban(&first.runner_id, None);
    assert_eq!(answer.runner.state, RunnerState::Banned);
    assert!(answer.warning.unwrap().contains("uses left"));
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k1"))), (Code::RunnerBanned, None));
    assert_eq!(refusal(world.renew(&renewal(&first, "k4"))), (Code::RunnerBanned, None));
    assert_eq!(world.show(&other.runner_id).unwrap().state, RunnerState::Active);
    world.enroll(&by_token(&token.token, "k3")).unwrap();
    assert_eq!(world.ban(&first.runner_id, None).warning, None);
    assert_eq!(world.revoked(), [first.serial]);
}

fn instance_ban_revokes_the_token(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(3);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    let other = world.enroll(&by_token(&token.token, "k2")).unwrap();
    let answer = world.ban(&first.runner_id, Some(BanScope::Instance));
    assert_eq!(answer.warning, None);
    assert_eq!(world.show(&other.runner_id).unwrap().state, RunnerState::Banned);
    assert_eq!(world.last(AuditType::TokenRevoke).actor.as_deref(), Some("0a1b2c3d"));
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k3"))), REFUSED);
    assert_eq!(world.last(AuditType::Enroll).cause, Some(TokenCause::Revoked));
    assert_eq!(refusal(world.renew(&renewal(&other, "k4"))), (Code::RunnerBanned, None));
    let mut revoked = world.revoked();
    revoked.sort();
    let mut expected = [first.serial, other.serial];
    expected.sort();
    assert_eq!(revoked, expected);
}

fn no_second_key_for_tokens(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(2);
    let strict = |key: &str| {
        let mut command = by_token(&token.token, key);
        command.terms.one_key_per_instance = true;
        command
    };
    world.enroll(&strict("k1")).unwrap();
    world.enroll(&strict("k2")).unwrap();
    assert!(world.audit().iter().all(|event| event.event != AuditType::SecondKeyForInstance));
}

fn verify_uses_a_token_up(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    assert_eq!(world.verify(&by_token(&token.token, "k1"), false).denial, None);
    assert_eq!(world.uses(&token), 0);
    let allowed = world.verify(&by_token(&token.token, "k1"), true);
    assert_eq!((allowed.denial, allowed.consumed), (None, true));
    assert_eq!(allowed.passed, [Check::B3, Check::M2]);
    assert_eq!(world.uses(&token), 1);
    assert_eq!(refusal(world.enroll(&by_token(&token.token, "k2"))), REFUSED);
    assert_eq!(world.verify(&by_token(&token.token, "k1"), true).denial, None);
    world.enroll(&by_token(&token.token, "k1")).unwrap();
    assert_eq!(world.uses(&token), 1);
}

fn a_revoked_token_leaves_its_runners_alone(store: &mut dyn Store) {
    let mut world = World::new(store);
    let token = world.mint(1);
    let first = world.enroll(&by_token(&token.token, "k1")).unwrap();
    tokens::revoke(world.store, &admin(), &token.id, NOW).unwrap().unwrap();
    tokens::revoke(world.store, &admin(), &token.id, NOW).unwrap().unwrap();
    world.renew(&renewal(&first, "k2")).unwrap();
    let AdmittedEvidence::Bootstrap(claim) = by_token(&token.token, "k1").evidence else { panic!() };
    let command = EnrollCommand { evidence: AdmittedEvidence::Bootstrap(claim), ..by_token(&token.token, "k1") };
    assert_eq!(refusal(world.enroll(&command)), REFUSED);
}

fn bad_mint_values(store: &mut dyn Store) {
    let world = World::new(store);
    let ttl = |text: &str| MintRequest { ttl: Some(text.to_owned()), ..MintRequest::default() };
    let uses = |max_uses| MintRequest { max_uses: Some(max_uses), ..MintRequest::default() };
    let long = MintRequest { description: Some("d".repeat(257)), ..MintRequest::default() };
    for bad in [
        ttl(""),
        ttl("0s"),
        ttl("-1h"),
        ttl("31d"),
        ttl("1"),
        ttl("500ms"),
        ttl("1h 1ms"),
        uses(0),
        uses(1_000_001),
        long,
    ] {
        let denial = tokens::mint(world.store, &admin(), &bad, NOW, &Counter).unwrap().unwrap_err();
        assert_eq!(denial.code, Code::MalformedRequest, "{bad:?}");
    }
    assert!(world.store.tokens(None, 10).unwrap().is_empty());
    let good = tokens::mint(world.store, &admin(), &ttl("30d"), NOW, &Counter).unwrap().unwrap();
    assert_eq!(good.expires_at, NOW.plus(30 * 86_400).to_rfc3339());
    assert_eq!(good.max_uses, 1);
}
