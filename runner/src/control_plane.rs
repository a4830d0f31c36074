//! The client of the control plane: one call, one answer or one [`CallError`] that knows what kind of failure it was.
//!
//! No redirect is followed, no cookie kept, nothing read beyond a bound. Telling name resolution, connection, TLS and answer apart
//! is the point of this module: none of them is ever reported as a refusal, and a refusal never as any of them. What a person is
//! told about it is [`crate::explain`]'s part.

pub mod fault;
mod proxy;
pub mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use protocol::{EnrollRequest, EnrollResponse, Problem};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};

pub use fault::Fault;
use zeroize::Zeroizing;

use crate::clock::{Clock, Moment};
use crate::config::{Config, ControlPlaneUrl};
use crate::failure::Failure;

/// Bound on name resolution and connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bound on one call. The verifier itself waits for STS or a JWKS host up to 10 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest that an answer can make this runner wait.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Largest answer that is read.
const ANSWER_LIMIT: usize = 256 * 1024;

/// A client for one control plane.
#[derive(Clone)]
pub struct ControlPlane {
    url: ControlPlaneUrl,
    http: reqwest::Client,
    presented: tls::Presented,
    /// The proxy that calls go through, where the environment names one.
    proxy: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A certificate, and when it was received.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the control plane sent.
    pub response: EnrollResponse,
    /// When it arrived.
    pub received: Moment,
}

/// Why a call gave no certificate.
#[derive(Debug)]
pub enum CallError {
    /// Nothing came back.
    Network(Fault),
    /// The control plane said why.
    Problem {
        /// Its words.
        problem: Box<Problem>,
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// Something answered that does not speak this protocol.
    Foreign {
        /// HTTP status.
        status: u16,
        /// Target of a redirect.
        location: Option<String>,
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// An answer of success that cannot be used.
    Unusable(String),
}

/// A route that issues certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/enroll`.
    Enroll,
    /// `POST /v1/renew`.
    Renew,
}

impl Route {
    /// The path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Enroll => "/v1/enroll",
            Self::Renew => "/v1/renew",
        }
    }
}

impl ControlPlane {
    /// A client for the configured address. Reads certificate authorities only where TLS is used.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        Self::at(config.control_plane.clone(), config.ca_file.as_deref(), clock)
    }

    /// A client for an address.
    pub fn at(url: ControlPlaneUrl, ca_file: Option<&Path>, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let presented = tls::Presented::default();
        let proxy = if url.is_https() { proxy::of(&url) } else { None };
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("rootpilot-runner/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .pool_max_idle_per_host(0)
            .dns_resolver(fault::Resolver);
        builder = if url.is_https() {
            builder.https_only(true).tls_backend_preconfigured(tls::config(ca_file, &presented)?)
        } else {
            builder.no_proxy().tls_backend_preconfigured(tls::without_authorities()?)
        };
        let http = builder
            .build()
            .map_err(|error| Failure::configuration(format!("cannot set up the HTTP client: {error}")))?;
        Ok(Self { url, http, presented, proxy, clock })
    }

    /// The address.
    pub const fn url(&self) -> &ControlPlaneUrl {
        &self.url
    }

    /// Asks for a certificate.
    pub async fn request(&self, route: Route, request: &EnrollRequest<'_>) -> Result<Answer, CallError> {
        // Room for the largest request there is, so that no part of it is left behind by growing.
        let mut body = Zeroizing::new(Vec::with_capacity(protocol::limits::BODY));
        serde_json::to_writer(&mut *body, request).map_err(|error| CallError::Unusable(error.to_string()))?;
        let call = self
            .http
            .post(self.url.route(route.path()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, application/problem+json")
            .body(Bytes::from_owner(body));
        let (status, headers, body) = self.send(call).await?;
        let received = self.clock.now();
        if status != 200 {
            return Err(refusal(status, &headers, &body, received.wall));
        }
        let response = serde_json::from_slice(&body).map_err(|error| {
            CallError::Unusable(format!("it is not the documented answer of {}: {error}", route.path()))
        })?;
        Ok(Answer { response, received })
    }

    /// Asks for a public document: status, headers, body.
    pub async fn get(&self, path: &str) -> Result<(u16, HeaderMap, Vec<u8>), CallError> {
        self.send(self.http.get(self.url.route(path)).header(ACCEPT, "application/json")).await
    }

    async fn send(&self, call: reqwest::RequestBuilder) -> Result<(u16, HeaderMap, Vec<u8>), CallError> {
        self.presented.clear();
        let classify = |error: &reqwest::Error| {
            let fault = Fault::classify(error, &self.presented);
            CallError::Network(match &self.proxy {
                Some(proxy) if error.is_connect() => fault.at_proxy(proxy),
                _ => fault,
            })
        };
        let mut answer = call.send().await.map_err(|error| classify(&error))?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| classify(&error))? {
            if body.len() + chunk.len() > ANSWER_LIMIT {
                return Err(CallError::Unusable(format!("it is larger than {ANSWER_LIMIT} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((answer.status().as_u16(), std::mem::take(answer.headers_mut()), body))
    }
}

/// Reads an answer that is no success.
pub fn refusal(status: u16, headers: &HeaderMap, body: &[u8], now: Timestamp) -> CallError {
    let retry_after = retry_after(headers, now);
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) if problem.status == status => CallError::Problem { problem: Box::new(problem), retry_after },
        _ => {
            let location = headers.get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
            CallError::Foreign { status, location, retry_after }
        }
    }
}

/// `Retry-After`: seconds or an HTTP date (RFC 9110, 10.2.3). At most an hour, so that one odd answer takes nobody out for
/// longer; whoever still has to wait then is told so again.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Duration::try_from(date.duration_since(now)).unwrap_or_default()
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_takes_seconds_and_dates() {
        let now: Timestamp = "2024-11-06T08:49:07Z".parse().unwrap();
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 06 Nov 2024 08:49:37 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(read("Wed, 06 Nov 2024 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("999999999"), Some(Duration::from_hours(1)));
        assert_eq!(read("Wed, 06 Nov 2999 08:00:00 GMT"), Some(Duration::from_hours(1)));
        assert!(["soon", "-5", "1e3", "99999999999999999999999"].iter().all(|text| read(text).is_none()));
    }

    #[test]
    fn only_a_problem_document_of_this_protocol_is_a_refusal_of_the_control_plane() {
        let read = |status, body: &str| refusal(status, &HeaderMap::new(), body.as_bytes(), Timestamp::UNIX_EPOCH);
        let problem = r#"{"type":"t","title":"t","status":403,"code":"runner_banned","detail":"d","request_id":"r","retryable":false,"server_time":"2024-11-06T08:49:07Z"}"#;
        assert!(matches!(read(403, problem), CallError::Problem { .. }));
        assert!(matches!(read(401, problem), CallError::Foreign { status: 401, .. }));
        assert!(matches!(read(403, "<html>blocked</html>"), CallError::Foreign { status: 403, .. }));
    }
}
