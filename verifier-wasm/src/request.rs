//! A request as the platform gives it. Bound by hand: few things are asked of it, each of them once.

use js_sys::Uint8Array;
use wasm_bindgen::{JsCast as _, JsValue};

pub use self::binding::Incoming;

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        /// `Request`.
        #[derive(Debug, Clone)]
        pub type Incoming;

        /// Method.
        #[wasm_bindgen(method, getter)]
        pub fn method(this: &Incoming) -> String;

        /// URL.
        #[wasm_bindgen(method, getter)]
        pub fn url(this: &Incoming) -> String;

        /// Headers.
        #[wasm_bindgen(method, getter)]
        pub fn headers(this: &Incoming) -> Headers;

        #[derive(Debug, Clone)]
        pub type Headers;

        #[wasm_bindgen(method, catch)]
        pub fn get(this: &Headers, name: &str) -> Result<Option<String>, JsValue>;
    }

    #[wasm_bindgen(module = "/js/platform.mjs")]
    extern "C" {
        #[wasm_bindgen(catch)]
        pub async fn body(request: &Incoming, max: usize) -> Result<JsValue, JsValue>;
    }
}

/// One request.
#[derive(Debug)]
pub struct Request {
    raw: Incoming,
    headers: binding::Headers,
    method: String,
    url: String,
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// More than was allowed.
    TooLarge,
    /// The connection broke.
    Cut,
}

impl Request {
    /// What came in.
    pub fn new(raw: Incoming) -> Self {
        Self { headers: raw.headers(), method: raw.method(), url: raw.url(), raw }
    }

    /// The object itself, for what is not HTTP.
    pub fn raw(&self) -> &JsValue {
        &self.raw
    }

    /// Method, as sent.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Path, as sent: nothing is decoded.
    pub fn path(&self) -> &str {
        split(&self.url).0
    }

    /// What follows the `?`.
    pub fn query(&self) -> &str {
        split(&self.url).1
    }

    /// A header; of several with one name all, comma-separated.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).ok().flatten()
    }

    /// The body, at most `max` octets.
    pub async fn body(&self, max: usize) -> Result<Vec<u8>, BodyError> {
        let body = binding::body(&self.raw, max).await.map_err(|_| BodyError::Cut)?;
        body.dyn_into().map(|octets: Uint8Array| octets.to_vec()).map_err(|_| BodyError::TooLarge)
    }
}

/// Path and query of a URL as the platform writes it: `https://host/path?query`, the path never empty.
fn split(url: &str) -> (&str, &str) {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = after_scheme.find('/').and_then(|start| after_scheme.get(start..));
    (path.unwrap_or("/"), query)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn path_and_query_are_taken_as_they_are() {
        for (url, path, query) in [
            ("https://edge.example.com/", "/", ""),
            ("https://edge.example.com", "/", ""),
            ("https://edge.example.com?a", "/", "a"),
            ("http://127.0.0.1:8787/v1/admin/audit?limit=1&cursor=a/b?c", "/v1/admin/audit", "limit=1&cursor=a/b?c"),
            ("https://edge.example.com/v1/%65nroll/", "/v1/%65nroll/", ""),
            ("https://edge.example.com/a?b#c?d", "/a", "b"),
            ("https://edge.example.com//v1/enroll", "//v1/enroll", ""),
        ] {
            assert_eq!(split(url), (path, query), "{url}");
        }
    }
}
