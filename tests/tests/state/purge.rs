//! Alarms forget what has ended, and nothing that must be known for longer (CHECKS I6; `registry::purge` says how long).

use std::time::{Duration, Instant};

use edge_tests::stack::{Key, Options, Stack};
use serde_json::json;

use crate::storage;
use crate::support::{enroll_pod, enroll_token, pod, state};

/// A revocation sets the alarm for now; the machine may be busy.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn an_alarm_forgets_what_has_ended_and_nothing_else() {
    let mut stack = Stack::start(Options::new("state-purge"));
    let (banned, _) = enroll_pod(&stack, "banned");
    stack.admin().ban("acme", &banned.runner_id, &json!({}));
    let old = [enroll_pod(&stack, "old").0, enroll_token(&stack, "acme").0];
    stack.admin().assert_on_crl(&[banned.serial()]);
    let last = stack.admin().audit("acme")[0].id;
    stack.stop();
    storage::object(&stack, storage::WITH_RUNNERS, |sql| storage::shift_times(sql, -200 * 86_400));
    stack.restart();
    assert_eq!(stack.admin().runners("acme").items.len(), 3, "nothing is forgotten by looking");

    let (evicted, used) = enroll_pod(&stack, "new");
    stack.admin().evict("acme", &evicted.runner_id);
    let until = Instant::now() + SOON;
    while stack.admin().runners("acme").items.len() > 1 {
        assert!(Instant::now() < until, "{:?}", stack.admin().runners("acme").items);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(state(&stack, &banned.runner_id), "banned");
    stack.enroll(&Key::generate(), &pod(&stack, "banned")).assert_problem(403, "runner_banned", "");
    assert!(stack.admin().tokens("acme").items.is_empty());
    stack.enroll(&evicted.key, &used).assert_problem(401, "attestation_invalid", "token_reused");
    let events = stack.admin().audit("acme");
    assert!(events.iter().all(|event| event.id > last), "events of 200 days ago are gone: {events:?}");
    for held in old {
        let path = format!("/v1/admin/tenants/acme/runners/{}", held.runner_id);
        stack.admin().0.get(&path).assert_problem(404, "not_found", "");
    }
}
