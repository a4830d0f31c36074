//! An answer: plain data until it crosses to JavaScript, in three values.

use std::borrow::Cow;

use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Name and value of each header.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// Body.
    pub body: Body,
}

/// What an answer carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Nothing at all, as 204 and 304 have it.
    None,
    /// UTF-8.
    Text(String),
    /// Octets.
    Bytes(Vec<u8>),
}

impl Response {
    /// Without headers yet.
    pub const fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// `[status, headers as JSON, body]`, of which the entry module makes a `Response`.
    pub fn into_js(self) -> Array {
        // Pairs of texts always serialise.
        let headers = serde_json::to_string(&self.headers).unwrap_or_default();
        let body = match self.body {
            Body::None => JsValue::NULL,
            Body::Text(text) => JsValue::from_str(&text),
            Body::Bytes(bytes) => Uint8Array::from(bytes.as_slice()).into(),
        };
        Array::of3(&JsValue::from_f64(self.status.into()), &JsValue::from_str(&headers), &body)
    }
}
