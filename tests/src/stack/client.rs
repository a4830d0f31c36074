//! HTTP as the tests speak it to the verifier: any octets out, everything that came back kept.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use reqwest::blocking::{Body, Client as Http, RequestBuilder};
use reqwest::header::HeaderMap;
use reqwest::{Method, redirect};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longer than the verifier may take for anything.
const TIMEOUT: Duration = Duration::from_mins(1);

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {} {}", self.status, self.text()))
    }

    /// The body as a type of the protocol.
    pub fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {} {}", self.status, self.text()))
    }

    /// `code` of a problem; empty for a success.
    pub fn code(&self) -> String {
        self.problem_text("code")
    }

    /// `reason` of a problem; empty where it has none.
    pub fn reason(&self) -> String {
        self.problem_text("reason")
    }

    fn problem_text(&self, member: &str) -> String {
        if self.status < 400 {
            return String::new();
        }
        self.json()[member].as_str().unwrap_or_default().to_owned()
    }

    /// Status, code and reason in one, to be compared.
    pub fn outcome(&self) -> (u16, String, String) {
        (self.status, self.code(), self.reason())
    }

    /// This answer, if it has `status`.
    #[must_use]
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Fails unless this has `status`.
    #[track_caller]
    pub fn assert_status(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
    }

    /// Fails unless this is the refusal named; an empty `reason` means none.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, code: &str, reason: &str) {
        assert_eq!(self.outcome(), (status, code.to_owned(), reason.to_owned()), "{}", self.text());
    }
}

fn http(from: Option<Ipv4Addr>) -> Http {
    Http::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .local_address(from.map(IpAddr::from))
        .timeout(TIMEOUT)
        .build()
        .expect("a client can be made")
}

/// A client of one verifier, with or without a bearer token. Redirects are not followed.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http,
    url: String,
    bearer: Option<String>,
}

impl Client {
    /// For the verifier at `url`.
    pub fn new(url: &str) -> Self {
        Self { http: http(None), url: url.to_owned(), bearer: None }
    }

    /// The same calling from another address of this machine, such as 127.0.0.2 on Linux.
    #[must_use]
    pub fn calling_from(&self, address: Ipv4Addr) -> Self {
        Self { http: http(Some(address)), ..self.clone() }
    }

    /// Address of the verifier.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same with a bearer token.
    #[must_use]
    pub fn with_bearer(&self, token: &str) -> Self {
        Self { bearer: Some(token.to_owned()), ..self.clone() }
    }

    /// A request to be completed and sent by [`Self::send`].
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method is a token");
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.bearer {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request and reads the answer.
    pub fn send(request: RequestBuilder) -> Answer {
        let response = request.send().expect("the verifier answers");
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().expect("the answer is whole").to_vec(),
        }
    }

    /// GET.
    pub fn get(&self, path: &str) -> Answer {
        Self::send(self.request("GET", path))
    }

    /// A request with a JSON body.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        Self::send(self.request(method, path).json(body))
    }

    /// POST of a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, body)
    }

    /// POST of any octets that claim to be JSON.
    pub fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let request = self.request("POST", path).header("content-type", "application/json");
        Self::send(request.body(body.into()))
    }

    /// The same in chunks, without a content length.
    pub fn post_chunked(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let request = self.request("POST", path).header("content-type", "application/json");
        Self::send(request.body(Body::new(std::io::Cursor::new(body.into()))))
    }
}
