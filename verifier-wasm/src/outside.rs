//! The ports of one request, all in one place: WebCrypto, fetch, key sets, the tenant's object.

use std::cell::RefCell;
use std::rc::Rc;

use verifier::Denial;
use verifier::jose::{JwksCache, KeySources, refresh};
use verifier::keys::{PublicKey, SignatureAlgorithm};
use verifier::ports::{
    BackendError, HttpClient, HttpError, HttpRequest, HttpResponse, JwksMemory, JwksStore, Registry, SignatureVerifier,
    StoredJwks,
};
use verifier::registry::{Allotment, Appraisal, EnrollCommand, RenewCommand, VerifyCommand};
use worker::Env;

use crate::door::Call;
use crate::objects::client;
use crate::platform::cache::DataCentreCache;
use crate::platform::http::PlatformFetch;
use crate::platform::webcrypto::WebCrypto;

/// The outside as one request sees it.
#[derive(Debug)]
pub struct Outside<'a> {
    env: &'a Env,
    jwks: Rc<RefCell<JwksCache>>,
}

thread_local! {
    static JWKS: Rc<RefCell<JwksCache>> = Rc::default();
}

impl<'a> Outside<'a> {
    /// For `call`.
    pub fn new(call: &Call<'a>) -> Self {
        Self { env: call.env, jwks: JWKS.with(Rc::clone) }
    }
}

/// Fetches again, after the answer, what stops being fresh soon.
pub fn refresh_key_sets(call: &Call<'_>) {
    let Some(due) = JWKS.with(|cache| cache.borrow_mut().take_due()) else { return };
    let now = call.now;
    call.context.wait_until(async move {
        let cache = JWKS.with(Rc::clone);
        let sources = KeySources { cache: &cache, store: &DataCentreCache, http: &PlatformFetch };
        refresh(sources, now, &due).await;
    });
}

impl JwksMemory for Outside<'_> {
    fn jwks_cache(&self) -> &RefCell<JwksCache> {
        &self.jwks
    }
}

impl JwksStore for Outside<'_> {
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks> {
        DataCentreCache.get(jwks_uri).await
    }

    async fn put(&self, jwks_uri: &str, set: &StoredJwks) {
        DataCentreCache.put(jwks_uri, set).await;
    }
}

impl HttpClient for Outside<'_> {
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        PlatformFetch.send(request).await
    }
}

impl SignatureVerifier for Outside<'_> {
    async fn verify(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError> {
        WebCrypto.verify(key, algorithm, message, signature).await
    }
}

impl Registry for Outside<'_> {
    async fn enroll(&self, command: &EnrollCommand) -> Result<Allotment, Denial> {
        client::enroll(self.env, command).await
    }

    async fn renew(&self, command: &RenewCommand) -> Result<Allotment, Denial> {
        client::renew(self.env, command).await
    }

    async fn verify_evidence(&self, command: &VerifyCommand) -> Result<Appraisal, Denial> {
        client::verify(self.env, command).await
    }
}
