//! What the outside must give: small traits, `async fn` without a `Send` bound. Fakes live in [`crate::ports::fakes`] behind `test-support`.

#[cfg(feature = "test-support")]
pub mod fakes;

use std::cell::RefCell;

use thiserror::Error;

use crate::jose::JwksCache;
use crate::keys::{PublicKey, SignatureAlgorithm};
use crate::registry::{Allotment, Appraisal, EnrollCommand, RenewCommand, VerifyCommand};
use crate::{Denial, UnixTime};

/// One outbound call. Redirects are never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Absolute URL, built from constants and the policy only.
    pub url: String,
    /// Body of a POST; a GET without one.
    pub body: Option<&'static str>,
    /// Headers, lower-case names.
    pub headers: Vec<(String, String)>,
    /// Whole time allowed, milliseconds.
    pub timeout_ms: u32,
    /// Octets of the answer's body read at most.
    pub max_body: usize,
}

/// Answer of an outbound call, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// HTTP status.
    pub status: u16,
    /// `content-type`, as sent.
    pub content_type: Option<String>,
    /// `cache-control`, as sent.
    pub cache_control: Option<String>,
    /// Body; at most [`HttpRequest::max_body`] octets.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HttpError {
    /// No connection, or it broke before the answer's head.
    #[error("connection failed")]
    Connect,
    /// Nothing within the time allowed.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke inside the body.
    #[error("the answer was cut off")]
    Cut,
    /// The head came, and the body is larger than allowed.
    #[error("the answer is too large")]
    TooLarge {
        /// HTTP status of that answer.
        status: u16,
    },
}

/// Outbound HTTP.
#[expect(async_fn_in_trait, reason = "futures of the edge platform are not Send, so no bound is wanted")]
pub trait HttpClient {
    /// Sends one request.
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError>;
}

/// A JWK set as the data centre's cache keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJwks {
    /// The set as the host sent it.
    pub body: Vec<u8>,
    /// When.
    pub fetched_at: UnixTime,
    /// Seconds it is fresh, counted from then.
    pub fresh_for: i64,
}

/// The data centre's cache of JWK sets, behind the isolate's own. Best effort: a failure of either call is as if nothing were kept.
#[expect(async_fn_in_trait, reason = "futures of the edge platform are not Send, so no bound is wanted")]
pub trait JwksStore {
    /// What was kept for this address.
    async fn get(&self, jwks_uri: &str) -> Option<StoredJwks>;
    /// Keeps a set, for at most a day. The caller does not depend on it having happened.
    async fn put(&self, jwks_uri: &str, stored: &StoredJwks);
}

/// Keeps nothing: for places without such a cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJwksStore;

impl JwksStore for NoJwksStore {
    async fn get(&self, _: &str) -> Option<StoredJwks> {
        None
    }

    async fn put(&self, _: &str, _: &StoredJwks) {}
}

/// A back end could not decide (not: the signature is wrong).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("signature back end: {0}")]
pub struct BackendError(pub String);

/// Verification of signatures.
#[expect(async_fn_in_trait, reason = "futures of the edge platform are not Send, so no bound is wanted")]
pub trait SignatureVerifier {
    /// Whether `signature` over `message` is by `key`. ECDSA signatures are r‖s. A signature of the wrong length is `false`.
    /// The algorithm has been checked to fit the key by the caller ([`PublicKey::algorithm`], or an RSA variant for CSRs).
    async fn verify(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, BackendError>;
}

/// The issuing CA's P-256 key.
#[expect(async_fn_in_trait, reason = "futures of the edge platform are not Send, so no bound is wanted")]
pub trait IssuingKey {
    /// ECDSA with SHA-256 over `message`, r‖s.
    async fn sign(&self, message: &[u8]) -> Result<[u8; 64], BackendError>;
}

/// Cryptographic randomness.
pub trait Entropy {
    /// Fills `buffer`.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError>;
}

/// The tenant's object: one call per decision, each atomic (CHECKS I3). A call that does not answer in time is a retryable denial.
#[expect(async_fn_in_trait, reason = "futures of the edge platform are not Send, so no bound is wanted")]
pub trait Registry {
    /// Settles what the evidence left open, allots and records.
    async fn enroll(&self, command: &EnrollCommand) -> Result<Allotment, Denial>;

    /// Moves the runner's serials on.
    async fn renew(&self, command: &RenewCommand) -> Result<Allotment, Denial>;

    /// Appraises for `/v1/verify`.
    async fn verify_evidence(&self, command: &VerifyCommand) -> Result<Appraisal, Denial>;
}

/// The isolate's memory of key sets.
pub trait JwksMemory {
    /// Borrowed for a moment at a time, never across a wait.
    fn jwks_cache(&self) -> &RefCell<JwksCache>;
}

/// The whole outside of a decision.
pub trait Ports: HttpClient + SignatureVerifier + JwksStore + JwksMemory + Registry {}

impl<T: HttpClient + SignatureVerifier + JwksStore + JwksMemory + Registry> Ports for T {}
