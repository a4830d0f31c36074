//! `POST /v1/enroll` and `POST /v1/renew`.
//!
//! 1. not configured: 503
//! 2. media type 415, size 413
//! 3. JSON, fields, limits: 400
//! 4. CSR: 400
//! 5. evidence: 401, or 503 when STS or a JWKS host is not there
//! 6. mapping: 403
//! 7. the tenant's object: 401, 403
//! 8. the worker signs what was allotted: 200

use verifier::trace::Trace;
use verifier::{Denial, Issued};

use super::json;
use crate::body::json_text;
use crate::door::Call;
use crate::edge_tls;
use crate::isolate;
use crate::outside::{Outside, refresh_key_sets};
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::Response;

/// Enrols.
pub async fn enroll(request: &Request, call: &mut Call<'_>) -> Result<Response, Refusal> {
    let ready = isolate::ready(call).await?;
    let body = json_text(request).await?;
    let outside = Outside::new(call);
    let mut trace = Trace::off();
    let outcome = ready.call(&outside, call.now, &call.request_id).enroll(&body, &mut trace).await;
    answer(outcome, trace, call)
}

/// Renews.
pub async fn renew(request: &Request, call: &mut Call<'_>) -> Result<Response, Refusal> {
    let ready = isolate::ready(call).await?;
    let body = json_text(request).await?;
    let edge = edge_tls::client_certificate(request);
    let outside = Outside::new(call);
    let mut trace = Trace::off();
    let outcome = ready.call(&outside, call.now, &call.request_id).renew(&body, edge, &mut trace).await;
    answer(outcome, trace, call)
}

fn answer(outcome: Result<Issued, Denial>, trace: Trace, call: &mut Call<'_>) -> Result<Response, Refusal> {
    refresh_key_sets(call);
    call.subject.know(trace.subject);
    json(200, &outcome?.response)
}
