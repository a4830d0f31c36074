//! What happens between two steps of others: an operator's order among the calls of runners. Whoever is answered after the order was
//! answered obeys it, and whoever got a certificate before is on the CRL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use edge_tests::stack::{Key, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Held, Shared, all_at_once, assert_certificate_invalid, enroll_pod, pod, state};

static STACK: Shared = Shared::new("state-races");

/// Callers at once.
const CALLERS: usize = 16;
/// In which an order is answered among as many calls, however slow the machine.
const ANSWERED: Duration = Duration::from_mins(2);

/// Runs `call` by many, and `order` as soon as some of them are under way; every call knows whether the order was answered before it began.
fn among<T: Send>(order: impl Fn() + Sync, call: impl Fn(usize, bool) -> T + Sync) -> Vec<T> {
    let answered = AtomicBool::new(false);
    let calls = all_at_once(CALLERS + 1, |index| {
        if index == CALLERS {
            order();
            answered.store(true, Ordering::SeqCst);
            return Vec::new();
        }
        let (mut results, mut after, begun) = (Vec::new(), 0, Instant::now());
        while after < 3 {
            assert!(begun.elapsed() < ANSWERED, "the order is not answered");
            let is_after = answered.load(Ordering::SeqCst);
            results.push(call(index, is_after));
            after += usize::from(is_after);
        }
        results
    });
    calls.into_iter().flatten().collect()
}

/// Serials of the certificates that were given.
fn given(results: Vec<Option<String>>) -> Vec<String> {
    let mut serials: Vec<String> = results.into_iter().flatten().collect();
    serials.sort_unstable();
    serials.dedup();
    serials
}

#[test]
fn a_ban_among_renewals() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "race-ban");
    let ban = || _ = stack.admin().ban("acme", &held.runner_id, &json!({}));
    let renewed = among(ban, |_, is_after| {
        let next = Key::generate();
        let answer = held.renew(&stack, &next);
        if is_after || answer.status != 200 {
            answer.assert_problem(403, "runner_banned", "");
            return None;
        }
        Some(Held::from(&next, answer).serial())
    });
    let mut serials = given(renewed);
    println!("{} renewals before the ban", serials.len());
    serials.push(held.serial());
    assert_eq!(state(&stack, &held.runner_id), "banned");
    stack.admin().assert_on_crl(&serials);
}

#[test]
fn an_evict_among_repetitions_of_the_enrolment() {
    let stack = STACK.lock();
    let (held, used) = enroll_pod(&stack, "race-evict");
    let evict = || stack.admin().evict("acme", &held.runner_id);
    let repeated = among(evict, |_, is_after| {
        let answer = stack.enroll(&held.key, &used);
        if is_after || answer.status != 200 {
            answer.assert_problem(401, "attestation_invalid", "token_reused");
            return None;
        }
        Some(Held::from(&held.key, answer).serial())
    });
    assert!(given(repeated).iter().all(|serial| *serial == held.serial()), "a repetition moves nothing");
    assert_certificate_invalid(&held.renew(&stack, &Key::generate()));
    stack.admin().assert_on_crl(&[held.serial()]);
    // New evidence makes a new record, which the old evidence is no way into.
    let back = Held::from(&held.key, stack.enroll(&held.key, &pod(&stack, "race-evict")));
    stack.enroll(&held.key, &used).assert_problem(401, "attestation_invalid", "token_reused");
    assert!(!stack.admin().revoked().contains(&back.serial()));
    back.rotate(&stack);
}

#[test]
fn a_revocation_among_enrolments_by_the_token() {
    let stack = STACK.lock();
    let token = stack.admin().mint_with("acme", &json!({"max_uses": 10_000}));
    let attestation = evidence::token("bootstrap-token", &token.token);
    let revoke = || stack.admin().revoke("acme", &token.id);
    let enrolled = among(revoke, |_, is_after| {
        let key = Key::generate();
        let answer = stack.enroll(&key, &attestation);
        if is_after || answer.status != 200 {
            answer.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
            return None;
        }
        Some(Held::from(&key, answer).serial())
    });
    let admitted = given(enrolled).len();
    let item = stack.admin().tokens("acme").items.into_iter().find(|item| item.id == token.id).unwrap();
    assert_eq!((item.revoked, item.uses), (true, u32::try_from(admitted).unwrap()));
}

/// The policy that the isolate took is in force at once, and the tenant's object keeps its rules.
#[test]
fn a_rule_removed_among_renewals() {
    let stack = STACK.lock();
    let runners: Vec<Held> = (0..CALLERS).map(|index| enroll_pod(&stack, &format!("race-rule-{index}")).0).collect();
    let mut without: Value = stack.policy();
    without["tenants"][0]["rules"].as_array_mut().unwrap().remove(2);
    let apply = || _ = stack.admin().apply(&without);
    among(apply, |index, is_after| {
        let answer = runners[index].renew(&stack, &Key::generate());
        if is_after || answer.status != 200 {
            answer.assert_problem(403, "identity_not_mapped", "");
        }
    });
    stack.admin().apply(&stack.policy());
    for held in &runners {
        assert_eq!(state(&stack, &held.runner_id), "active");
        held.rotate(&stack);
    }
}

#[test]
fn two_holders_at_once_and_an_attestation_among_them() {
    let stack = STACK.lock();
    let (first, _) = enroll_pod(&stack, "race-suspect");
    let second = first.rotate(&stack);
    let third = second.rotate(&stack);
    // The thief has the first certificate, the owner the last; whoever of them asks first, the thief is found out.
    let outcomes = all_at_once(CALLERS, |index| {
        let held = if index % 2 == 0 { &first } else { &third };
        held.renew(&stack, &Key::generate()).outcome()
    });
    for (index, (status, code, _)) in outcomes.iter().enumerate() {
        let allowed: &[&str] =
            if index % 2 == 0 { &["certificate_superseded", "must_reattest"] } else { &["", "must_reattest"] };
        assert!(allowed.contains(&code.as_str()), "{index}: {status} {code}");
    }
    assert_eq!(outcomes.iter().filter(|(_, code, _)| code == "certificate_superseded").count(), 1, "{outcomes:?}");
    assert_eq!(state(&stack, &first.runner_id), "suspect");
    // Of attestations at once all are the same runner's, and the last state is whole.
    let cleared = all_at_once(4, |_| Held::from(&third.key, stack.enroll(&third.key, &pod(&stack, "race-suspect"))));
    assert!(cleared.iter().all(|held| held.runner_id == first.runner_id));
    assert_eq!(state(&stack, &first.runner_id), "active");
    stack.admin().assert_on_crl(&[first.serial(), second.serial(), third.serial()]);
    assert_certificate_invalid(&third.renew(&stack, &Key::generate()));
}

/// However orders meet, the last one counts, and what was revoked stays so.
#[test]
fn bans_and_unbans_at_once() {
    let stack = STACK.lock();
    let (held, used) = enroll_pod(&stack, "race-orders");
    let order = |stack: &Stack, what: &str| {
        let path = format!("/v1/admin/tenants/acme/runners/{}/{what}", held.runner_id);
        stack.admin().0.post(&path, &json!({})).assert_status(200);
    };
    let _: Vec<()> = all_at_once(CALLERS, |index| order(&stack, ["ban", "unban"][index % 2]));
    order(&stack, "ban");
    stack.enroll(&held.key, &used).assert_problem(403, "runner_banned", "");
    order(&stack, "unban");
    assert_eq!(state(&stack, &held.runner_id), "expired");
    assert_certificate_invalid(&held.renew(&stack, &Key::generate()));
    stack.admin().assert_on_crl(&[held.serial()]);
    let back = Held::from(&held.key, stack.enroll(&held.key, &pod(&stack, "race-orders")));
    assert_eq!(back.runner_id, held.runner_id);
    let orders = stack.admin().audit("acme").into_iter().filter(|event| {
        event.runner_id.as_ref() == Some(&held.runner_id) && ["ban", "unban"].contains(&event.event.as_str())
    });
    assert_eq!(orders.count(), CALLERS + 2, "each is on the record");
}
