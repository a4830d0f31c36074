//! What an emulator received: counted for ever, the last ones kept whole.

use std::collections::{BTreeMap, VecDeque};

use axum::http::request::Parts;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// How many requests are kept whole.
const KEPT: usize = 1_000;
/// How many paths are counted one by one; a flood of random paths goes to [`OTHER_PATHS`].
const COUNTED_PATHS: usize = 10_000;
/// The name under which paths beyond the first ten thousand are counted.
pub const OTHER_PATHS: &str = "(other)";

/// A request as it arrived, with what was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Counts from 1 since the start or the last reset.
    pub number: u64,
    /// Unix seconds by the emulator's clock.
    pub time: i64,
    /// HTTP method.
    pub method: String,
    /// Path, as sent.
    pub path: String,
    /// Query without the question mark, as sent; empty when there is none.
    pub query: String,
    /// Header names (lower case) and values in order of arrival, repeats included.
    pub headers: Vec<(String, String)>,
    /// Body, bytes that are not UTF-8 replaced.
    pub body: String,
    /// Status of the answer before any fault was put on it.
    pub status: u16,
    /// Error code of that answer, where there is one.
    pub error_code: Option<String>,
    /// Kind of the fault put on the answer, where there was one.
    pub fault: Option<String>,
}

impl RecordedRequest {
    /// A record of a request that is yet to be answered.
    pub fn received(parts: &Parts, body: &[u8], time: i64) -> Self {
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        Self {
            number: 0,
            time,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers,
            body: String::from_utf8_lossy(body).into_owned(),
            status: 0,
            error_code: None,
            fault: None,
        }
    }

    /// The values of a header joined by a comma, if it was sent; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> =
            self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }
}

/// Counts and the last requests, as the control endpoint lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests since the start or the last reset, control calls not counted.
    pub total: u64,
    /// The same by path.
    pub paths: BTreeMap<String, u64>,
    /// The last ones, oldest first.
    pub requests: Vec<RecordedRequest>,
}

#[derive(Debug, Default)]
struct State {
    total: u64,
    paths: BTreeMap<String, u64>,
    kept: VecDeque<RecordedRequest>,
}

/// Keeps [`Traffic`]; memory is bounded.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<State>);

impl Recorder {
    /// Counts and keeps a request; its `number` is set here.
    pub fn record(&self, mut request: RecordedRequest) {
        let mut state = self.0.lock();
        state.total += 1;
        request.number = state.total;
        let counted = state.paths.contains_key(&request.path) || state.paths.len() < COUNTED_PATHS;
        let path = if counted { request.path.as_str() } else { OTHER_PATHS };
        *state.paths.entry(path.to_owned()).or_default() += 1;
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(request);
    }

    /// Requests since the start or the last reset.
    pub fn total(&self) -> u64 {
        self.0.lock().total
    }

    /// Requests for one path.
    pub fn count(&self, path: &str) -> u64 {
        self.0.lock().paths.get(path).copied().unwrap_or_default()
    }

    /// All counts and the last `limit` requests.
    pub fn traffic(&self, limit: usize) -> Traffic {
        let state = self.0.lock();
        let skip = state.kept.len().saturating_sub(limit);
        Traffic {
            total: state.total,
            paths: state.paths.clone(),
            requests: state.kept.iter().skip(skip).cloned().collect(),
        }
    }

    /// Forgets everything; counting starts at zero again.
    pub fn reset(&self) {
        *self.0.lock() = State::default();
    }
}
