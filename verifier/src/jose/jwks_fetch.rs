//! Getting an issuer's key set: from the isolate's cache, the data centre's cache or the host, in this order (CHECKS K8, K9).
//!
//! The address is always one of the policy, or built from a GKE issuer's parsed parts ([`super::jwks_cache::Origin`]). A host that fails
//! is never the token's fault: [`NoKeys::Unavailable`]. Out of scope: when to fetch, which is [`super::jwks_cache`]'s.

use std::cell::RefCell;
use std::rc::Rc;

use super::jwk::JwkSet;
use super::jwks_cache::{Cause, Decision, Fetched, JwksCache, KeySetRef, NoKeys, RefreshDue, fresh_for};
use crate::UnixTime;
use crate::aws::endpoint::Endpoint;
use crate::ports::{HttpClient, HttpError, HttpRequest, HttpResponse, JwksStore, StoredJwks};

/// Whole time of a fetch, milliseconds.
const TIMEOUT_MS: u32 = 5_000;
/// Largest set of a provider's own host, octets.
const MAX_BODY: usize = 64 * 1024;
/// Largest set of an address that an operator wrote, octets.
const MAX_BODY_HARD: usize = 1024 * 1024;

/// Where key sets come from.
#[derive(Debug)]
pub struct KeySources<'a, H, S> {
    /// The isolate's cache. Never borrowed across a wait.
    pub cache: &'a RefCell<JwksCache>,
    /// The data centre's cache.
    pub store: &'a S,
    /// The hosts.
    pub http: &'a H,
}

impl<H, S> Clone for KeySources<'_, H, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H, S> Copy for KeySources<'_, H, S> {}

/// The set to verify a token with this `kid` with. The set may lack the key, which then is unknown.
pub async fn key_set<H: HttpClient, S: JwksStore>(
    sources: KeySources<'_, H, S>,
    now: UnixTime,
    wanted: &KeySetRef<'_>,
    kid: Option<&str>,
) -> Result<Rc<JwkSet>, NoKeys> {
    let decision = sources.cache.borrow_mut().decide(now, wanted, kid);
    match decision {
        Decision::Use(set) => Ok(set),
        Decision::Refuse(why) => Err(why),
        Decision::Fetch => fetch_set(sources, now, wanted, kid).await,
    }
}

/// What [`key_set`] does once the isolate's cache has said [`Decision::Fetch`].
pub async fn fetch_set<H: HttpClient, S: JwksStore>(
    sources: KeySources<'_, H, S>,
    now: UnixTime,
    wanted: &KeySetRef<'_>,
    kid: Option<&str>,
) -> Result<Rc<JwkSet>, NoKeys> {
    let jwks_uri = wanted.origin.jwks_uri().unwrap_or_default();
    if let Some(stored) = sources.store.get(jwks_uri).await
        && let Ok(set) = JwkSet::parse(&stored.body)
        && let Some(set) =
            sources.cache.borrow_mut().adopt(now, wanted, kid, (set, stored.fetched_at, stored.fresh_for))
    {
        return Ok(set);
    }
    sources.cache.borrow_mut().permit(now, wanted)?;
    fetch_and_record(sources, now, wanted, kid).await
}

/// Fetches a set again before it ends being fresh: for the time after an answer has been sent.
pub async fn refresh<H: HttpClient, S: JwksStore>(sources: KeySources<'_, H, S>, now: UnixTime, due: &RefreshDue) {
    let wanted = due.key_set();
    if sources.cache.borrow().keeps(now, &wanted) {
        // A failure is recorded, and the present set goes on serving while it may.
        let _ = fetch_and_record(sources, now, &wanted, None).await;
    }
}

async fn fetch_and_record<H: HttpClient, S: JwksStore>(
    sources: KeySources<'_, H, S>,
    now: UnixTime,
    wanted: &KeySetRef<'_>,
    kid: Option<&str>,
) -> Result<Rc<JwkSet>, NoKeys> {
    let jwks_uri = wanted.origin.jwks_uri().unwrap_or_default();
    let (outcome, stored) = fetch(sources.http, now, jwks_uri).await;
    let result = sources.cache.borrow_mut().record(now, wanted, kid, outcome);
    if let Some(stored) = stored {
        sources.store.put(jwks_uri, &stored).await;
    }
    result
}

/// One call to the host (CHECKS K8).
async fn fetch(http: &impl HttpClient, now: UnixTime, jwks_uri: &str) -> (Fetched, Option<StoredJwks>) {
    let failed = |cause| (Fetched::Failed(cause), None);
    if !may_be_called(jwks_uri) {
        return failed(Cause::Address);
    }
    let provider =
        ["https://container.googleapis.com/", "https://oidc.eks."].iter().any(|host| jwks_uri.starts_with(host));
    let request = HttpRequest {
        url: jwks_uri.to_owned(),
        body: None,
        headers: vec![("accept".to_owned(), "application/json".to_owned())],
        timeout_ms: TIMEOUT_MS,
        max_body: if provider { MAX_BODY } else { MAX_BODY_HARD },
    };
    let answer = match http.send(&request).await {
        Ok(answer) if answer.status == 200 && answer.body.len() <= request.max_body => answer,
        Ok(HttpResponse { status: 200, .. }) => return failed(Cause::Http(HttpError::TooLarge { status: 200 })),
        Ok(HttpResponse { status, .. }) | Err(HttpError::TooLarge { status }) if matches!(status, 403 | 404 | 410) => {
            return (Fetched::Gone(status), None);
        }
        Ok(HttpResponse { status, .. }) => return failed(Cause::Status(status)),
        Err(error) => return failed(Cause::Http(error)),
    };
    let set = match JwkSet::parse(&answer.body) {
        Ok(set) => set,
        Err(error) => return failed(Cause::NotASet(error)),
    };
    let fresh_for = fresh_for(answer.cache_control.as_deref());
    let stored = StoredJwks { body: answer.body, fetched_at: now, fresh_for };
    (Fetched::Set { set: Rc::new(set), fresh_for }, Some(stored))
}

/// https, or http to this machine. The policy has been validated; this is the last look before a call.
fn may_be_called(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    Endpoint::parse(&[scheme, "://", authority].concat()).is_ok()
}
