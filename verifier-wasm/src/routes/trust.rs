//! What relying parties fetch: roots and CRLs.

use std::cell::RefCell;

use verifier::UnixTime;
use verifier::encoding::{hex, sha256};
use verifier::issuance::SignedCrl;

use super::internal;
use crate::door::Call;
use crate::isolate;
use crate::objects::client;
use crate::platform::clock;
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::{Body, Response};

/// `application/pem-certificate-chain` (RFC 8555 section 9.1).
const PEM_CHAIN: &str = "application/pem-certificate-chain";

/// `GET /v1/trust-bundle`: the roots; 304 when `If-None-Match` names the same.
pub async fn bundle(request: &Request, call: &Call<'_>) -> Result<Response, Refusal> {
    let authority = isolate::authority(call.env).await?;
    let pem = authority.ca.roots_pem();
    let etag = format!("\"{}\"", hex(&sha256(pem.as_bytes())).chars().take(32).collect::<String>());
    let known = request.header("if-none-match").is_some_and(|known| names(&known, &etag));
    let response = if known { Response::new(304, Body::None) } else { Response::new(200, Body::Text(pem.to_owned())) };
    Ok(response.with("content-type", PEM_CHAIN).with("etag", etag).with("cache-control", "public, max-age=300"))
}

/// Whether an `If-None-Match` value names `etag` (RFC 9110 section 13.1.2: weak comparison).
fn names(header: &str, etag: &str) -> bool {
    header.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

/// `GET /v1/crl`: DER.
pub async fn crl_der(call: &Call<'_>) -> Result<Response, Refusal> {
    let crl = current(call).await?;
    Ok(list("application/pkix-crl", Body::Bytes(crl.der)))
}

/// `GET /v1/crl.pem`: the same and the root's, as `ssl_crl` of nginx and `-crl_check_all` of openssl want them.
pub async fn crl_pem(call: &Call<'_>) -> Result<Response, Refusal> {
    let crl = current(call).await?;
    let authority = isolate::authority(call.env).await?;
    let text = [crl.pem.trim_end(), "\n", authority.root_crl.trim_end(), "\n"].concat();
    Ok(list("application/x-pem-file", Body::Text(text)))
}

fn list(content_type: &'static str, body: Body) -> Response {
    Response::new(200, body).with("content-type", content_type).with("cache-control", "public, max-age=5")
}

/// Seconds an isolate serves the list it signed: with `max-age=5` at caches, a ban is on every list within 10 s (CHECKS I7).
const SIGNED_FOR: i64 = 3;

thread_local! {
    static SIGNED: RefCell<Option<(UnixTime, SignedCrl)>> = const { RefCell::new(None) };
}

/// Signs what the Revocation object knows now (CHECKS I7).
async fn current(call: &Call<'_>) -> Result<SignedCrl, Refusal> {
    let kept = SIGNED.with_borrow(Clone::clone);
    if let Some((signed_at, crl)) = kept
        && (0..SIGNED_FOR).contains(&call.now.since(signed_at))
    {
        return Ok(crl);
    }
    let crl = sign(call).await?;
    SIGNED.with_borrow_mut(|kept| *kept = Some((call.now, crl.clone())));
    Ok(crl)
}

async fn sign(call: &Call<'_>) -> Result<SignedCrl, Refusal> {
    let authority = isolate::authority(call.env).await?;
    let draft = client::revocations(call.env).await?.draft(clock::now());
    Ok(draft.sign(authority.ca.issuing(), &authority.key).await.map_err(|error| internal(&error))?)
}
