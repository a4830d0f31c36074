//! Every request comes in here and leaves here. In order, first failure wins (PROTOCOL, Errors):
//!
//! 1. rate limit: 429
//! 2. route and method: 404, 405
//! 3. bearer: 401, 403
//! 4. media type 415, size 413, JSON and fields 400
//! 5. what the route decides
//!
//! Whatever happens, the answer carries `x-request-id`, refusals are counted and one log line is written.

use protocol::Code;
use verifier::UnixTime;
use worker::{Context, Env};

use crate::log::{self, Subject};
use crate::metrics;
use crate::platform::{clock, webcrypto};
use crate::problem::Refusal;
use crate::rate_limit::Limits;
use crate::request::Request;
use crate::response::Response;
use crate::routes::{self, Route};

/// The header that every answer carries.
const REQUEST_ID: &str = "x-request-id";

/// One request on its way through the worker.
pub struct Call<'a> {
    /// Bindings.
    pub env: &'a Env,
    /// For work that outlives the answer.
    pub context: &'a Context,
    /// Made by us, never taken from the client.
    pub request_id: String,
    /// The clock, read once.
    pub now: UnixTime,
    /// What the log line says of the caller.
    pub subject: Subject,
}

/// Serves one request.
pub async fn serve(request: &Request, env: &Env, context: &Context) -> Response {
    let mut call =
        Call { env, context, request_id: webcrypto::request_id(), now: clock::now(), subject: Subject::default() };
    let route = Route::of(request.path());
    let limits = Limits::of(request, env);
    let outcome = answer(request, route.as_ref(), &limits, &mut call).await;
    let (name, now, request_id) = (route.as_ref().map_or("unknown_route", Route::name), call.now, call.request_id);
    let (response, code, reason) = match outcome {
        Ok(response) => (response.with(REQUEST_ID, request_id.clone()), None, None),
        Err(refusal) => {
            if refusal.counts_as_refused() {
                limits.refused(now).await;
            }
            let (code, reason) = (refusal.denial.code, refusal.denial.reason);
            (refuse(refusal, &request_id, now), Some(code.as_str()), reason.map(protocol::Reason::as_str))
        }
    };
    if route.as_ref().is_some_and(Route::is_decision) {
        let event = log::Event {
            time: now.to_rfc3339(),
            route: name,
            request_id: &request_id,
            status: response.status,
            code,
            reason,
            subject: call.subject.cleaned(),
        };
        log::write(&event);
        metrics::count(env, &event);
    }
    response
}

/// The answer of a refusal; what is internal is logged and left out.
pub fn refuse(refusal: Refusal, request_id: &str, now: UnixTime) -> Response {
    if refusal.denial.code == Code::Internal {
        log::fault(request_id, now, &refusal.denial.detail);
    }
    refusal.hide_internals().into_response(request_id, now).with(REQUEST_ID, request_id.to_owned())
}

async fn answer(
    request: &Request,
    route: Option<&Route>,
    limits: &Limits<'_>,
    call: &mut Call<'_>,
) -> Result<Response, Refusal> {
    limits.admit(call.now, route.is_none_or(Route::is_unauthenticated)).await?;
    let route = route.ok_or_else(|| Refusal::new(Code::NotFound, "there is no such route"))?;
    if !route.allows(request.method()) {
        let mut refusal = Refusal::new(Code::MethodNotAllowed, format!("this route takes {}", route.methods()));
        refusal.allow = Some(route.methods());
        return Err(refusal);
    }
    routes::dispatch(route, request, call).await
}
