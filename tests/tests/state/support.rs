//! What the topics share: one stack per topic, runners enrolled by hand, many callers at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use edge_tests::stack::{Answer, Client, Key, Options, Stack, evidence, serial};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use serde_json::{Value, json};

/// In which every enrolment is decided, however many come at once on however slow a machine.
const DECIDED: Duration = Duration::from_mins(10);

/// A stack started by the first test of a topic and used by one test at a time.
pub struct Shared {
    name: &'static str,
    stack: Mutex<Option<Stack>>,
}

impl Shared {
    /// `name` is that of the topic.
    pub const fn new(name: &'static str) -> Self {
        Self { name, stack: Mutex::new(None) }
    }

    /// The stack, with its own policy whatever the test before did.
    pub fn lock(&self) -> MappedMutexGuard<'_, Stack> {
        let mut guard = self.stack.lock();
        let stack = guard.get_or_insert_with(|| Stack::start(Options::new(self.name)));
        stack.sts.forget_requests();
        stack.admin().apply(&stack.policy());
        MutexGuard::map(guard, |stack| stack.as_mut().expect("it was started above"))
    }
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Held {
    pub key: Key,
    pub certificate: String,
    pub runner_id: String,
}

impl Held {
    /// What a 200 of enrolment or renewal gave to `key`.
    #[track_caller]
    pub fn from(key: &Key, answer: Answer) -> Self {
        let answer = answer.expect(200).json();
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        Self { key: key.clone(), certificate: text("certificate"), runner_id: text("runner_id") }
    }

    /// 32 lower-case hex digits.
    pub fn serial(&self) -> String {
        serial(&self.certificate)
    }

    /// Asks for a certificate of `next` by the body proof.
    pub fn renew(&self, stack: &Stack, next: &Key) -> Answer {
        stack.renew(&self.key, &self.certificate, next)
    }

    /// The same with a new key, to be answered.
    #[track_caller]
    pub fn rotate(&self, stack: &Stack) -> Self {
        let next = Key::generate();
        Self::from(&next, self.renew(stack, &next))
    }
}

/// New evidence of a pod of tenant acme.
pub fn pod(stack: &Stack, name: &str) -> Value {
    evidence::token("gke-oidc", &stack.gke_token(name))
}

/// A runner of tenant acme in a pod, with a new key, and the evidence it used.
#[track_caller]
pub fn enroll_pod(stack: &Stack, name: &str) -> (Held, Value) {
    let (key, attestation) = (Key::generate(), pod(stack, name));
    (Held::from(&key, stack.enroll(&key, &attestation)), attestation)
}

/// A runner with a bootstrap token of its own, and the evidence it used.
#[track_caller]
pub fn enroll_token(stack: &Stack, tenant: &str) -> (Held, Value) {
    let (key, token) = (Key::generate(), stack.admin().mint(tenant));
    let attestation = evidence::token("bootstrap-token", &token.token);
    (Held::from(&key, stack.enroll(&key, &attestation)), attestation)
}

/// An answer to `/v1/enroll`, or `None` where the connection broke or took too long. Whether it was carried out is not known then.
pub fn try_enroll(client: &Client, body: &Value) -> Option<Answer> {
    let response = client.request("POST", "/v1/enroll").json(body).send().ok()?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Some(Answer { status, headers, body: response.bytes().ok()?.to_vec() })
}

/// Repeats an enrolment until it is decided, as a runner does; `repeated` counts what was not.
pub fn enroll_until_answered(client: impl Fn() -> Client, body: &Value, repeated: &AtomicUsize) -> Answer {
    let until = Instant::now() + DECIDED;
    loop {
        let last = match try_enroll(&client(), body) {
            Some(answer) if answer.status < 500 => return answer,
            Some(answer) => {
                assert_eq!(answer.status, 503, "{}", answer.text());
                answer.text()
            }
            None => "no answer".to_owned(),
        };
        assert!(Instant::now() < until, "an enrolment is not decided in {DECIDED:?}, at last: {last}");
        repeated.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// First 8 hex digits of SHA-256 of a bearer token: who the audit log says it was.
pub fn actor(token: &str) -> String {
    use sha2::{Digest as _, Sha256};
    base16ct::lower::encode_string(&Sha256::digest(token))[..8].to_owned()
}

/// State of a runner, as listed.
pub fn state(stack: &Stack, runner_id: &str) -> Value {
    json!(stack.admin().runner("acme", runner_id).state)
}

/// Results of `count` calls that start together.
pub fn all_at_once<T: Send>(count: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..count)
            .map(|index| {
                let (barrier, call) = (&barrier, &call);
                scope.spawn(move || {
                    barrier.wait();
                    call(index)
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().expect("no call panics")).collect()
    })
}

/// The refusal named, reasons of CHECKS I4 included.
#[track_caller]
pub fn assert_certificate_invalid(answer: &Answer) {
    answer.assert_problem(401, "attestation_invalid", "certificate_invalid");
}
