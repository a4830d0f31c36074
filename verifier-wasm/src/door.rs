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
use worker::{Context, Env, Request, Response};

use crate::log::{self, Subject};
use crate::metrics;
use crate::platform::{clock, webcrypto};
use crate::problem::Refusal;
use crate::rate_limit::Limits;
use crate::routes::{self, Route};

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
pub async fn serve(mut request: Request, env: Env, context: Context) -> worker::Result<Response> {
    let mut call = Call {
        env: &env,
        context: &context,
        request_id: webcrypto::request_id(),
        now: clock::now(),
        subject: Subject::default(),
    };
    let route = Route::of(&request.path());
    let limits = Limits::of(&request, &env);
    let outcome = answer(&mut request, route.as_ref(), &limits, &mut call).await;
    let (name, now, request_id) = (route.as_ref().map_or("unknown_route", Route::name), call.now, call.request_id);
    let (response, code, reason) = match outcome {
        Ok(response) => (response, None, None),
        Err(refusal) => {
            if refusal.counts_as_refused() {
                limits.refused(now).await;
            }
            let (code, reason) = (refusal.denial.code, refusal.denial.reason);
            if code == Code::Internal {
                log::fault(&request_id, now, &refusal.denial.detail);
            }
            (
                refusal.hide_internals().into_response(&request_id, now)?,
                Some(code.as_str()),
                reason.map(protocol::Reason::as_str),
            )
        }
    };
    response.headers().set("x-request-id", &request_id)?;
    if route.as_ref().is_some_and(Route::is_decision) {
        let event = log::Event {
            time: now.to_rfc3339(),
            route: name,
            request_id: &request_id,
            status: response.status_code(),
            code,
            reason,
            subject: call.subject.cleaned(),
        };
        log::write(&event);
        metrics::count(&env, &event);
    }
    Ok(response)
}

async fn answer(
    request: &mut Request,
    route: Option<&Route>,
    limits: &Limits<'_>,
    call: &mut Call<'_>,
) -> Result<Response, Refusal> {
    limits.admit(call.now, route.is_none_or(Route::is_unauthenticated)).await?;
    let route = route.ok_or_else(|| Refusal::new(Code::NotFound, "there is no such route"))?;
    // As sent: `worker` reads every method that it does not know as GET.
    if !route.allows(&request.inner().method()) {
        let mut refusal = Refusal::new(Code::MethodNotAllowed, format!("this route takes {}", route.methods()));
        refusal.allow = Some(route.methods());
        return Err(refusal);
    }
    routes::dispatch(route, request.method(), request, call).await
}
