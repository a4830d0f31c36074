//! `POST /v1/verify`: appraisal for control planes that issue their own credentials.

use verifier::trace::Trace;

use super::json;
use crate::access::Actor;
use crate::body::json_text;
use crate::door::Call;
use crate::isolate;
use crate::outside::{Outside, refresh_key_sets};
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::Response;

/// Appraises; the bearer has been checked.
pub async fn verify(request: &Request, call: &mut Call<'_>, actor: &Actor) -> Result<Response, Refusal> {
    call.subject.actor = Some(actor.id().to_owned());
    let ready = isolate::ready(call).await?;
    let body = json_text(request).await?;
    let outside = Outside::new(call);
    let mut trace = Trace::on();
    let outcome = ready.call(&outside, call.now, &call.request_id).verify(&body, actor.id(), &mut trace).await;
    refresh_key_sets(call);
    call.subject.know(trace.subject);
    json(200, &outcome?)
}
