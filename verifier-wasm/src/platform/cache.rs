//! The data centre's cache of key sets, behind the isolate's memory (CHECKS K8). It has no effect on some domains: a miss is only slower.

use js_sys::{Array, Uint8Array};
use verifier::UnixTime;
use verifier::ports::{JwksStore, StoredJwks};
use wasm_bindgen::JsCast as _;

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen(module = "/js/platform.mjs")]
    extern "C" {
        #[wasm_bindgen(catch)]
        pub async fn cached(url: &str) -> Result<JsValue, JsValue>;

        #[wasm_bindgen(catch)]
        pub async fn cache(
            url: &str,
            octets: &[u8],
            fetched_at: &str,
            fresh_for: &str,
            max_age: u32,
        ) -> Result<JsValue, JsValue>;
    }
}

/// How long the cache may keep a set, seconds: the hard end of a set's service. Freshness is decided by the verifier.
const KEPT: u32 = 86_400;
/// Cache keys are URLs; this host is never called.
const KEY_PREFIX: &str = "https://jwks.rootpilot-edge.invalid/";

/// Cache API of the data centre.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataCentreCache;

fn key(jwks_uri: &str) -> String {
    [KEY_PREFIX, &verifier::encoding::b64url(jwks_uri.as_bytes())].concat()
}

impl JwksStore for DataCentreCache {
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks> {
        let kept: Array = binding::cached(&key(jwks_uri)).await.ok()?.dyn_into().ok()?;
        let octets: Uint8Array = kept.get(0).dyn_into().ok()?;
        let number = |index| -> Option<i64> { kept.get(index).as_string()?.parse().ok() };
        let (fetched_at, fresh_for) = (number(1)?, number(2)?);
        Some(StoredJwks { body: octets.to_vec(), fetched_at: UnixTime::from_secs(fetched_at), fresh_for })
    }

    async fn put(&self, jwks_uri: &str, set: &StoredJwks) {
        let (fetched_at, fresh_for) = (set.fetched_at.secs().to_string(), set.fresh_for.to_string());
        // A cache that does not take it costs a fetch later, nothing else.
        let _ = binding::cache(&key(jwks_uri), &set.body, &fetched_at, &fresh_for, KEPT).await;
    }
}
