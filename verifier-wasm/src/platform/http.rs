//! Outbound HTTP by `fetch`: redirects manual, whole time and body bounded. A response of one request is never shared with another.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use verifier::ports::{HttpClient, HttpError, HttpRequest, HttpResponse};
use wasm_bindgen::JsValue;
use worker::{AbortController, Delay, Fetch, Headers, Method, Request, RequestInit, RequestRedirect, Response};

/// `fetch` as HTTP client.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlatformFetch;

fn outgoing(request: &HttpRequest) -> worker::Result<Request> {
    let headers = Headers::new();
    for (name, value) in &request.headers {
        headers.set(name, value)?;
    }
    let mut init = RequestInit::new();
    // `RequestRedirect::Error` fails at construction on workerd: manual, and the caller takes only the statuses it wants.
    init.with_redirect(RequestRedirect::Manual).with_headers(headers);
    match request.body {
        Some(body) => init.with_method(Method::Post).with_body(Some(JsValue::from_str(body))),
        None => init.with_method(Method::Get),
    };
    Request::new_with_init(&request.url, &init)
}

async fn read_body(response: &mut Response, status: u16, max: usize) -> Result<Vec<u8>, HttpError> {
    let Ok(mut stream) = response.stream() else {
        return Ok(Vec::new());
    };
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| HttpError::Cut)?;
        if body.len().saturating_add(chunk.len()) > max {
            return Err(HttpError::TooLarge { status });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

async fn exchange(request: Request, max_body: usize, abort: &AbortController) -> Result<HttpResponse, HttpError> {
    let mut response =
        Fetch::Request(request).send_with_signal(&abort.signal()).await.map_err(|_| HttpError::Connect)?;
    let header = |name: &str| response.headers().get(name).ok().flatten();
    let (content_type, cache_control) = (header("content-type"), header("cache-control"));
    let status = response.status_code();
    let body = read_body(&mut response, status, max_body).await?;
    Ok(HttpResponse { status, content_type, cache_control, body })
}

impl HttpClient for PlatformFetch {
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let outgoing = outgoing(request).map_err(|_| HttpError::Connect)?;
        let abort = AbortController::default();
        let deadline = Delay::from(Duration::from_millis(u64::from(request.timeout_ms)));
        let outcome = {
            let answer = std::pin::pin!(exchange(outgoing, request.max_body, &abort));
            match select(answer, deadline).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(_) => None,
            }
        };
        outcome.unwrap_or_else(|| {
            abort.abort();
            Err(HttpError::Timeout)
        })
    }
}
