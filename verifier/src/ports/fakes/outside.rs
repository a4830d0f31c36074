//! The whole outside of a decision in memory: tenants' objects as [`MemoryStore`]s, one isolate's key sets, scripted HTTP.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::{Answer, FakeHttp};
use crate::jose::JwksCache;
use crate::keys::{PublicKey, SignatureAlgorithm};
use crate::ports::{
    BackendError, Entropy, HttpClient, HttpRequest, JwksMemory, JwksStore, NoJwksStore, Registry, SignatureVerifier,
    StoredJwks,
};
use crate::registry::{self, Allotment, Appraisal, EnrollCommand, MemoryStore, Outcome, RenewCommand, VerifyCommand};
use crate::rust_crypto::RustCrypto;
use crate::{Denial, UnixTime};

/// A signature back end that gives one answer to everything: for what lies behind a signature that no test can make.
#[derive(Debug, Clone, Copy)]
pub struct AnySignature(pub bool);

impl SignatureVerifier for AnySignature {
    async fn verify(&self, _: &PublicKey, _: SignatureAlgorithm, _: &[u8], _: &[u8]) -> Result<bool, BackendError> {
        Ok(self.0)
    }
}

/// Every port at once. A tenant's object comes to be at its first command, as on the edge.
#[derive(Debug)]
pub struct FakeOutside<V = RustCrypto> {
    /// Outbound calls.
    pub http: FakeHttp,
    /// Tenants' objects, by tenant.
    pub tenants: RefCell<BTreeMap<String, MemoryStore>>,
    /// The objects' clock.
    pub now: Cell<UnixTime>,
    signatures: V,
    jwks: RefCell<JwksCache>,
    drawn: Cell<u64>,
}

impl<V> FakeOutside<V> {
    /// An outside without tenants.
    pub fn new(http: FakeHttp, signatures: V, now: UnixTime) -> Self {
        Self {
            http,
            tenants: RefCell::default(),
            now: Cell::new(now),
            signatures,
            jwks: RefCell::default(),
            drawn: Cell::new(0),
        }
    }

    /// Runs a decision in a tenant's object, in one transaction.
    pub fn in_tenant<T>(
        &self,
        tenant: &str,
        decide: impl FnOnce(&mut MemoryStore, UnixTime, &Self) -> Outcome<T>,
    ) -> Result<T, Denial> {
        let mut tenants = self.tenants.borrow_mut();
        let store = tenants.entry(tenant.to_owned()).or_default();
        store
            .transaction(|store| decide(store, self.now.get(), self))
            .unwrap_or_else(|fault| panic!("the memory store failed: {fault}"))
    }
}

impl<V> Entropy for FakeOutside<V> {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        for chunk in buffer.chunks_mut(32) {
            let drawn = self.drawn.replace(self.drawn.get().wrapping_add(1));
            let octets = crate::encoding::sha256(&drawn.to_be_bytes());
            chunk.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}

impl<V> HttpClient for FakeOutside<V> {
    async fn send(&self, request: &HttpRequest) -> Answer {
        self.http.send(request).await
    }
}

impl<V: SignatureVerifier> SignatureVerifier for FakeOutside<V> {
    async fn verify(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError> {
        self.signatures.verify(key, algorithm, message, signature).await
    }
}

impl<V> JwksStore for FakeOutside<V> {
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks> {
        NoJwksStore.get(jwks_uri).await
    }

    async fn put(&self, jwks_uri: &str, stored: &StoredJwks) {
        NoJwksStore.put(jwks_uri, stored).await;
    }
}

impl<V> JwksMemory for FakeOutside<V> {
    fn jwks_cache(&self) -> &RefCell<JwksCache> {
        &self.jwks
    }
}

impl<V> Registry for FakeOutside<V> {
    async fn enroll(&self, command: &EnrollCommand) -> Result<Allotment, Denial> {
        self.in_tenant(&command.tenant, |store, now, entropy| registry::enroll(store, command, now, entropy))
    }

    async fn renew(&self, command: &RenewCommand) -> Result<Allotment, Denial> {
        self.in_tenant(&command.tenant, |store, now, entropy| registry::renew(store, command, now, entropy))
    }

    async fn verify_evidence(&self, command: &VerifyCommand) -> Result<Appraisal, Denial> {
        self.in_tenant(&command.enroll.tenant, |store, now, _| registry::verify(store, command, now).map(Ok))
    }
}
