//! The data centre's cache of key sets, behind the isolate's memory (CHECKS K8). It has no effect on some domains: a miss is only slower.

use verifier::UnixTime;
use verifier::ports::{JwksStore, StoredJwks};
use worker::{Cache, Headers, ResponseBuilder};

/// How long the cache may keep a set, seconds: the hard end of a set's service. Freshness is decided by the verifier.
const KEPT: i64 = 86_400;
/// Cache keys are URLs; this host is never called.
const KEY_PREFIX: &str = "https://jwks.rootpilot-edge.invalid/";

/// Cache API of the data centre.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataCentreCache;

fn key(jwks_uri: &str) -> String {
    [KEY_PREFIX, &verifier::encoding::b64url(jwks_uri.as_bytes())].concat()
}

async fn read(jwks_uri: &str) -> worker::Result<Option<StoredJwks>> {
    let Some(mut response) = Cache::default().get(key(jwks_uri), false).await? else { return Ok(None) };
    let number = |name: &str| -> Option<i64> { response.headers().get(name).ok().flatten()?.parse().ok() };
    let (fetched_at, fresh_for) = (number("x-fetched-at"), number("x-fresh-for"));
    let (Some(fetched_at), Some(fresh_for)) = (fetched_at, fresh_for) else { return Ok(None) };
    let body = response.bytes().await?;
    Ok(Some(StoredJwks { body, fetched_at: UnixTime::from_secs(fetched_at), fresh_for }))
}

async fn write(jwks_uri: &str, set: &StoredJwks) -> worker::Result<()> {
    let headers = Headers::new();
    headers.set("cache-control", &format!("max-age={KEPT}"))?;
    headers.set("x-fetched-at", &set.fetched_at.secs().to_string())?;
    headers.set("x-fresh-for", &set.fresh_for.to_string())?;
    let response = ResponseBuilder::new().with_headers(headers).fixed(set.body.clone());
    Cache::default().put(key(jwks_uri), response).await
}

impl JwksStore for DataCentreCache {
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks> {
        read(jwks_uri).await.ok().flatten()
    }

    async fn put(&self, jwks_uri: &str, set: &StoredJwks) {
        // A cache that does not take it costs a fetch later, nothing else.
        let _ = write(jwks_uri, set).await;
    }
}
