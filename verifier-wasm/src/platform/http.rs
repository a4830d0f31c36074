//! Outbound HTTP by `fetch`: redirects manual, whole time and body bounded. A response of one request is never shared with another.

use js_sys::{Array, Uint8Array};
use verifier::ports::{HttpClient, HttpError, HttpRequest, HttpResponse};
use wasm_bindgen::{JsCast as _, JsValue};

use super::js;

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen(module = "/js/platform.mjs")]
    extern "C" {
        #[wasm_bindgen(catch)]
        pub async fn exchange(
            url: &str,
            headers: &JsValue,
            content: Option<&str>,
            limit: u32,
            max: usize,
        ) -> Result<JsValue, JsValue>;
    }
}

/// `fetch` as HTTP client.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformFetch;

impl HttpClient for PlatformFetch {
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let headers: Vec<_> =
            request.headers.iter().map(|(name, value)| (name.as_str(), JsValue::from_str(value))).collect();
        let headers = js::object(&headers);
        binding::exchange(&request.url, &headers, request.body, request.timeout_ms, request.max_body)
            .await
            .map_or(Err(HttpError::Connect), |outcome| read(&outcome))
    }
}

/// `[status, content-type, cache-control, octets]`, or the name of a fault.
fn read(outcome: &JsValue) -> Result<HttpResponse, HttpError> {
    let Some(answer) = outcome.dyn_ref::<Array>() else {
        return Err(match outcome.as_string().as_deref() {
            Some("timeout") => HttpError::Timeout,
            Some("cut") => HttpError::Cut,
            _ => HttpError::Connect,
        });
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a status has three digits")]
    let status = answer.get(0).as_f64().unwrap_or_default() as u16;
    match answer.get(3).dyn_ref::<Uint8Array>() {
        Some(octets) => Ok(HttpResponse {
            status,
            content_type: answer.get(1).as_string(),
            cache_control: answer.get(2).as_string(),
            body: octets.to_vec(),
        }),
        None => Err(HttpError::TooLarge { status }),
    }
}
