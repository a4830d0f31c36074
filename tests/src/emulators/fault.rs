//! Misbehaviour on command: what can go wrong, for how long, and how it is put on an answer.
//!
//! The answer is always computed first; a fault then bends or replaces it on its way out. Faults
//! of the transport are the same for both emulators and made here. Those that only mean something to
//! one of them ([`Fault::WrongAccount`], [`Fault::Jwks`] …) are made by that emulator.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::Sleep;

use super::server::ConnectionSwitch;

/// How long "for ever" is: longer than any client waits, shorter than a forgotten process.
const FOREVER: Duration = Duration::from_hours(1);
/// Lets what was written leave the process before the connection is cut behind it.
const FLUSH_TIME: Duration = Duration::from_millis(50);
const GARBAGE_LENGTH: usize = 512;
const HTML: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Welcome to the guest network</h1></body></html>\n";

/// One way to misbehave. JSON: `{"kind":"status","status":500}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Another answer altogether.
    Status {
        /// HTTP status.
        status: u16,
        /// Body; empty when absent.
        #[serde(default)]
        body: Option<String>,
        /// `content-type`; that of the right answer when absent.
        #[serde(default)]
        content_type: Option<String>,
    },
    /// The right answer, late.
    Delay {
        /// Milliseconds before the status line.
        ms: u64,
    },
    /// No answer; the connection stays open.
    Hang,
    /// A redirect.
    Redirect {
        /// The `location` header.
        location: String,
        /// 302 when absent.
        #[serde(default = "default_redirect")]
        status: u16,
    },
    /// 200 and the right content type with 512 random bytes.
    Garbage,
    /// The right answer made `bytes` longer and still well-formed, so that only its size is wrong.
    Huge {
        /// 2 MiB when absent.
        #[serde(default = "default_huge")]
        bytes: usize,
    },
    /// 200 with an HTML page, as captive portals and proxies answer.
    Html,
    /// Whole headers, half the body, then the connection ends.
    CloseMidBody,
    /// Whole headers, half the body, then silence.
    StallMidBody,
    /// The right answer, one byte of the body at a time.
    Drip {
        /// Milliseconds between bytes.
        ms: u64,
    },
    /// The connection ends (FIN) without an answer.
    Close,
    /// The connection is aborted (RST) without an answer.
    Reset,
    /// The service's own way to say "too many": STS 400 `Throttling`, JWKS host 429.
    Throttle,
    /// STS only: an AWS error in the format the caller asked for.
    Error {
        /// HTTP status.
        status: u16,
        /// AWS error code.
        code: String,
        /// AWS error message.
        #[serde(default)]
        message: String,
    },
    /// STS only: the right answer, but its ARN names another account than its `Account`.
    WrongAccount {
        /// `999999999999` when absent.
        #[serde(default = "default_wrong_account")]
        account: String,
    },
    /// OIDC only: the key set in a shape it should not have.
    Jwks {
        /// Which shape.
        shape: JwksShape,
    },
}

/// Key sets that are wrong, or right in an unusual way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JwksShape {
    /// The good keys behind 5,000 others.
    ManyKeys,
    /// The good keys and one of an unknown `kty`.
    UnknownKty,
    /// Each `kid` twice: first with a stranger's key, then with the good one.
    DuplicateKids,
    /// Good keys without `alg`.
    NoAlg,
    /// Good keys without `kid`.
    NoKid,
    /// The good keys and one whose modulus is not base64url.
    MalformedBase64,
    /// Every key's modulus is not base64url.
    AllMalformed,
    /// Good keys with their private members published.
    PrivateMembers,
    /// `{"keys":[]}`.
    Empty,
    /// `{"keys":null}`.
    Null,
    /// A JSON document that is no key set.
    NotAKeySet,
}

fn default_redirect() -> u16 {
    302
}

fn default_huge() -> usize {
    2 * 1024 * 1024
}

fn default_wrong_account() -> String {
    "999999999999".to_owned()
}

impl Fault {
    /// Every answer is this status with an empty body.
    pub fn status(status: u16) -> Self {
        Self::Status { status, body: None, content_type: None }
    }

    /// The `kind` it has in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Delay { .. } => "delay",
            Self::Hang => "hang",
            Self::Redirect { .. } => "redirect",
            Self::Garbage => "garbage",
            Self::Huge { .. } => "huge",
            Self::Html => "html",
            Self::CloseMidBody => "close_mid_body",
            Self::StallMidBody => "stall_mid_body",
            Self::Drip { .. } => "drip",
            Self::Close => "close",
            Self::Reset => "reset",
            Self::Throttle => "throttle",
            Self::Error { .. } => "error",
            Self::WrongAccount { .. } => "wrong_account",
            Self::Jwks { .. } => "jwks",
        }
    }
}

/// A fault with its scope: `{"kind":"status","status":500,"count":3,"path":"/jwks"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct FaultPlan {
    /// What goes wrong.
    #[serde(flatten)]
    pub fault: Fault,
    /// For how many requests; until cleared when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Only for paths that contain this text; for all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl FaultPlan {
    /// The next `count` requests only.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }

    /// Only requests whose path contains `text`.
    #[must_use]
    pub fn on_path(mut self, text: &str) -> Self {
        self.path = Some(text.to_owned());
        self
    }
}

impl From<Fault> for FaultPlan {
    /// For every request, until cleared.
    fn from(fault: Fault) -> Self {
        Self { fault, count: None, path: None }
    }
}

impl TryFrom<serde_json::Value> for FaultPlan {
    type Error = String;

    /// By hand, as serde cannot refuse unknown fields beside a flattened enum.
    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        let serde_json::Value::Object(mut members) = value else {
            return Err("a fault is an object with a `kind`".to_owned());
        };
        let mut take = |name: &str| members.remove(name).unwrap_or_default();
        let count = serde_json::from_value(take("count")).map_err(|e| format!("count: {e}"))?;
        let path = serde_json::from_value(take("path")).map_err(|e| format!("path: {e}"))?;
        let fault = Fault::deserialize(serde_json::Value::Object(members)).map_err(|e| e.to_string())?;
        Ok(Self { fault, count, path })
    }
}

/// The plans in force, first come first served.
#[derive(Debug, Default)]
pub struct FaultQueue(Mutex<VecDeque<FaultPlan>>);

impl FaultQueue {
    /// Replaces all plans. A plan that is used up gives way to the next one.
    pub fn set(&self, plans: impl IntoIterator<Item = FaultPlan>) {
        *self.0.lock() = plans.into_iter().filter(|p| p.count != Some(0)).collect();
    }

    /// The plans that are left.
    pub fn plans(&self) -> Vec<FaultPlan> {
        self.0.lock().iter().cloned().collect()
    }

    /// The fault for a request on `path`, counted as used.
    pub fn next(&self, path: &str) -> Option<Fault> {
        let mut plans = self.0.lock();
        let index = plans.iter().position(|plan| plan.path.as_ref().is_none_or(|text| path.contains(text)))?;
        let plan = plans.get_mut(index)?;
        let fault = plan.fault.clone();
        if let Some(count) = &mut plan.count {
            *count -= 1;
            if *count == 0 {
                plans.remove(index);
            }
        }
        Some(fault)
    }
}

/// An answer before it is sent.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// `content-type`.
    pub content_type: String,
    /// Further headers.
    pub headers: Vec<(HeaderName, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer without further headers.
    pub fn new(status: StatusCode, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type: content_type.to_owned(), headers: Vec::new(), body: body.into() }
    }

    fn into_response(self, steps: impl FnOnce(Vec<u8>) -> VecDeque<Step>) -> Response {
        let length = self.body.len();
        let mut response = Response::new(Body::new(ScriptedBody { steps: steps(self.body), pause: None }));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        let typed = [(header::CONTENT_TYPE, self.content_type)];
        for (name, value) in typed.into_iter().chain(self.headers) {
            // Control calls can name any text; what no header can hold is left out.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.append(name, value);
            }
        }
        response
    }
}

/// Sends `answer`, bent by a fault of the transport. Other faults have been put on it before.
pub async fn deliver(mut answer: Answer, fault: Option<Fault>, line: &ConnectionSwitch) -> Response {
    match fault {
        Some(Fault::Status { status, body, content_type }) => {
            answer.status = status_code(status);
            answer.body = body.unwrap_or_default().into_bytes();
            if let Some(content_type) = content_type {
                answer.content_type = content_type;
            }
        }
        Some(Fault::Delay { ms }) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Some(Fault::Hang) => tokio::time::sleep(FOREVER).await,
        Some(Fault::Redirect { location, status }) => {
            answer.status = status_code(status);
            answer.headers.push((header::LOCATION, location));
            answer.body.clear();
        }
        Some(Fault::Garbage) => {
            let mut body = vec![0; GARBAGE_LENGTH];
            rand::rng().fill(body.as_mut_slice());
            answer.status = StatusCode::OK;
            answer.body = body;
        }
        Some(Fault::Huge { bytes }) => answer.body = padded(&answer, bytes),
        Some(Fault::Html) => answer = Answer::new(StatusCode::OK, "text/html; charset=utf-8", HTML),
        Some(Fault::CloseMidBody) => {
            return answer
                .into_response(|body| VecDeque::from([first_half(body), Step::Pause(FLUSH_TIME), Step::Fail]));
        }
        Some(Fault::StallMidBody) => {
            return answer.into_response(|body| VecDeque::from([first_half(body), Step::Pause(FOREVER), Step::Fail]));
        }
        Some(Fault::Drip { ms }) => return answer.into_response(|body| drip(&body, ms)),
        Some(Fault::Close) => line.close(),
        Some(Fault::Reset) => line.reset(),
        Some(Fault::Throttle | Fault::Error { .. } | Fault::WrongAccount { .. } | Fault::Jwks { .. }) | None => {}
    }
    answer.into_response(|body| VecDeque::from([Step::Data(body.into())]))
}

/// Out of range statuses, which only a control call can ask for, become 500.
fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The answer's body with `bytes` of filling in a place that keeps JSON and XML well-formed.
fn padded(answer: &Answer, bytes: usize) -> Vec<u8> {
    let closing: &[u8] = if answer.content_type.contains("xml") { b"</" } else { b"}" };
    let at = answer.body.windows(closing.len()).rposition(|window| window == closing).unwrap_or(answer.body.len());
    let mut body = answer.body.clone();
    body.splice(at..at, std::iter::repeat_n(b' ', bytes));
    body
}

fn first_half(mut body: Vec<u8>) -> Step {
    body.truncate(body.len() / 2);
    Step::Data(body.into())
}

fn drip(body: &[u8], ms: u64) -> VecDeque<Step> {
    body.iter()
        .flat_map(|byte| [Step::Pause(Duration::from_millis(ms)), Step::Data(Bytes::copy_from_slice(&[*byte]))])
        .collect()
}

enum Step {
    Data(Bytes),
    Pause(Duration),
    Fail,
}

/// A response body that follows a script.
struct ScriptedBody {
    steps: VecDeque<Step>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for ScriptedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match self.steps.pop_front() {
                Some(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Step::Pause(time)) => self.pause = Some(Box::pin(tokio::time::sleep(time))),
                Some(Step::Fail) => {
                    return Poll::Ready(Some(Err(std::io::ErrorKind::BrokenPipe.into())));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plans_are_read_strictly() {
        let plan: FaultPlan =
            serde_json::from_value(json!({"kind":"status","status":500,"count":3,"path":"/keys"})).unwrap();
        assert_eq!(plan, FaultPlan::from(Fault::status(500)).times(3).on_path("/keys"));
        for wrong in [
            json!({"kind":"status","status":500,"cuont":3}),
            json!({"kind":"no_such"}),
            json!({"kind":"delay"}),
            json!({"kind":"hang","count":-1}),
            json!("hang"),
        ] {
            assert!(serde_json::from_value::<FaultPlan>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plans_survive_json() {
        let plan = FaultPlan::from(Fault::Jwks { shape: JwksShape::NoAlg }).times(2);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<FaultPlan>(&text).unwrap(), plan);
    }

    #[test]
    fn the_kind_is_the_one_of_json() {
        let faults = [
            Fault::status(500),
            Fault::Delay { ms: 1 },
            Fault::Hang,
            Fault::Redirect { location: String::new(), status: 302 },
            Fault::Garbage,
            Fault::Huge { bytes: 1 },
            Fault::Html,
            Fault::CloseMidBody,
            Fault::StallMidBody,
            Fault::Drip { ms: 1 },
            Fault::Close,
            Fault::Reset,
            Fault::Throttle,
            Fault::Error { status: 400, code: String::new(), message: String::new() },
            Fault::WrongAccount { account: String::new() },
            Fault::Jwks { shape: JwksShape::Empty },
        ];
        for fault in faults {
            assert_eq!(serde_json::to_value(&fault).unwrap()["kind"], fault.kind());
        }
    }

    #[test]
    fn plans_are_used_in_order_and_by_path() {
        let queue = FaultQueue::default();
        queue.set([
            FaultPlan::from(Fault::Hang).times(1).on_path("/jwks"),
            FaultPlan::from(Fault::Html).times(1),
            FaultPlan::from(Fault::Reset),
        ]);
        assert_eq!(queue.next("/other"), Some(Fault::Html));
        assert_eq!(queue.next("/a/jwks"), Some(Fault::Hang));
        assert_eq!(queue.next("/a/jwks"), Some(Fault::Reset));
        assert_eq!(queue.next("/a/jwks"), Some(Fault::Reset));
        queue.set([]);
        assert_eq!(queue.next("/a/jwks"), None);
    }

    #[test]
    fn padding_keeps_documents_well_formed() {
        let json = Answer::new(StatusCode::OK, "application/json", r#"{"a":{"b":1}}"#);
        let body = padded(&json, 1_000);
        assert_eq!(body.len(), json.body.len() + 1_000);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap(), json!({"a":{"b":1}}));
        let xml = Answer::new(StatusCode::OK, "text/xml", "<a>\n<b/>\n</a>\n");
        assert!(padded(&xml, 10).ends_with(b"          </a>\n"));
    }
}
