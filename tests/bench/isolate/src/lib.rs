//! A loop over the verification of one token, for P2: the verifier's own steps over the worker's own WebCrypto, with nothing of a request around
//! it. The deployed bundle has no such entry.

use std::cell::RefCell;

use protocol::Mode;
use verifier::UnixTime;
use verifier::appraisal::{Policy, PolicyDocument};
use verifier::evidence::kubernetes_oidc::{self, Ports};
use verifier::jose::{JwksCache, KeySources};
use verifier::ports::{HttpClient, HttpError, HttpRequest, HttpResponse, NoJwksStore};
use verifier::trace::Trace;
use verifier_wasm::platform::webcrypto::WebCrypto;
use wasm_bindgen::prelude::*;

/// The one answer of the issuer, so that no network is in the figure.
struct Answers(String);

impl HttpClient for Answers {
    async fn send(&self, _: &HttpRequest) -> Result<HttpResponse, HttpError> {
        Ok(HttpResponse {
            status: 200,
            content_type: Some("application/json".to_owned()),
            cache_control: Some("public, max-age=3600".to_owned()),
            body: self.0.clone().into_bytes(),
        })
    }
}

fn failed(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

/// Verifies `token` so many times: parsing, choice of the key, signature, claims. An error when one of them is refused.
#[wasm_bindgen]
pub async fn verify_many(policy: &str, jwks: String, token: &str, now: u32, count: u32) -> Result<(), JsError> {
    let document: PolicyDocument = serde_json::from_str(policy).map_err(failed)?;
    let policy = Policy::compile(document).map_err(|problems| failed(format!("{problems:?}")))?;
    let (cache, http) = (RefCell::new(JwksCache::default()), Answers(jwks));
    let keys = KeySources { cache: &cache, store: &NoJwksStore, http: &http };
    let ports = Ports { keys, signatures: &WebCrypto };
    let (settings, audience, now) = (policy.oidc(), policy.audience(), UnixTime::from_secs(now.into()));
    for _ in 0..count {
        let mut trace = Trace::off();
        kubernetes_oidc::verify(token, Mode::GkeOidc, settings, audience, now, &ports, &mut trace)
            .await
            .map_err(|denial| failed(denial.detail))?;
    }
    Ok(())
}
