//! What the topics share: one stack per topic, and how answers are read.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use edge_tests::stack::{Answer, Options, Stack, places};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A stack started by the first test of a topic that needs it and used by one test at a time.
pub struct Shared {
    name: &'static str,
    stack: Mutex<Option<Stack>>,
}

impl Shared {
    /// `name` is that of the topic.
    pub const fn new(name: &'static str) -> Self {
        Self { name, stack: Mutex::new(None) }
    }

    /// The stack, behaving and with its own policy, whatever the test before did.
    pub fn lock(&self) -> MappedMutexGuard<'_, Stack> {
        let mut guard = self.stack.lock();
        let stack = guard.get_or_insert_with(|| Stack::start(Options::new(self.name)));
        stack.sts.clear_faults();
        stack.sts.forget_requests();
        stack.issuer.clear_faults();
        stack.issuer.forget_fetches();
        let policy = stack.policy();
        stack.admin().apply(&policy);
        MutexGuard::map(guard, |stack| stack.as_mut().expect("it was started above"))
    }
}

/// Unix seconds of an RFC 3339 text.
#[track_caller]
pub fn seconds(text: &Value) -> i64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no time"));
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_second()
}

/// The clock.
pub fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Member names of a JSON object, sorted.
#[track_caller]
pub fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Whether a text is lower-case hex of this length.
pub fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A problem document to the letter (PROTOCOL, Errors).
#[track_caller]
pub fn assert_problem_form(answer: &Answer) {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{}", answer.text());
    let problem = answer.json();
    let always = ["code", "detail", "reason", "request_id", "retryable", "server_time", "status", "title", "type"];
    for name in always {
        assert!(problem.get(name).is_some(), "{name} is missing in {problem}");
    }
    for name in members(&problem) {
        assert!(always.contains(&name) || ["aws_error_code", "errors"].contains(&name), "{name} in {problem}");
    }
    assert_eq!(problem["status"], answer.status);
    assert_eq!(problem["request_id"].as_str(), answer.header("x-request-id"));
    assert_eq!(problem["retryable"], matches!(answer.status, 429 | 503));
    assert_eq!(answer.header("retry-after").is_some(), matches!(answer.status, 429 | 503), "{problem}");
    // The clock is read once, when the call comes in: a call to STS may have taken ten seconds since.
    assert!((0..=15).contains(&(now() - seconds(&problem["server_time"]))), "{problem}");
    assert!(!problem["title"].as_str().unwrap().is_empty() && !problem["type"].as_str().unwrap().is_empty());
}

/// A 503 that a runner will try again (PROTOCOL, Errors).
#[track_caller]
pub fn assert_retryable(answer: &Answer, code: &str) {
    answer.assert_problem(503, code, "");
    assert_problem_form(answer);
    let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&after), "{after}");
}

/// A file of `tests/vectors`.
pub fn vector(folder: &str, name: &str) -> Vec<u8> {
    let path: PathBuf = places::vectors().join(folder).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cases of a folder of `tests/vectors`.
pub fn cases<T: DeserializeOwned>(folder: &str) -> Vec<T> {
    serde_json::from_slice(&vector(folder, "index.json")).unwrap()
}
