//! A Kubernetes cluster's OIDC issuer on loopback, in GKE's and EKS's shape.
//!
//! It signs with real-shaped `iss` values and serves the keys on its own address: at
//! `<base><path of the issuer>/jwks` (GKE) and `…/keys` (EKS), which a policy names as `jwks_uri`. Any
//! other path that ends so serves the common keys, so that an issuer need not be announced;
//! an announced one ([`OidcIssuer::add_issuer`]) has keys of its own. Out of scope: token review, anything else of
//! the API server.
//!
//! ```no_run
//! use edge_tests::emulators::{IssuerConfig, OidcIssuer, TokenOptions, oidc};
//! let issuer = OidcIssuer::start(IssuerConfig::default())?;
//! let cluster = oidc::gke_issuer("acme-prod", "europe-west1", "runners");
//! let token = issuer.token(&TokenOptions { issuer: Some(cluster.clone()), ..TokenOptions::default() });
//! let jwks_uri = issuer.jwks_uri(&cluster);
//! # std::io::Result::Ok(())
//! ```

pub mod control;
pub mod jwks;
pub mod keys;
pub mod token;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::json;

pub use self::keys::{KeyAlgorithm, Rotation};
use self::keys::{KeyMaker, KeyRing, KidStyle, SigningKey};
use self::token::MintError;
pub use self::token::{SignatureKind, TokenOptions};
use super::clock::Clock;
use super::control::Core;
use super::fault::{Answer, Fault, FaultPlan, deliver};
use super::recorder::RecordedRequest;
use super::server::{ConnectionSwitch, Server};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// How an issuer is set up.
#[derive(Debug, Clone)]
pub struct IssuerConfig {
    /// Port on 127.0.0.1; 0 picks one.
    pub port: u16,
    /// `iss` of tokens that name none.
    pub default_issuer: String,
    /// What the common key signs.
    pub algorithm: KeyAlgorithm,
    /// `cache-control` of key sets; GKE sends `public, max-age=3600`.
    pub cache_control: Option<String>,
}

impl Default for IssuerConfig {
    fn default() -> Self {
        Self {
            port: 0,
            default_issuer: gke_issuer("acme-prod", "europe-west1", "runners"),
            algorithm: KeyAlgorithm::RS256,
            cache_control: Some("public, max-age=3600".to_owned()),
        }
    }
}

/// The `iss` of a GKE cluster.
pub fn gke_issuer(project: &str, location: &str, cluster: &str) -> String {
    format!("https://container.googleapis.com/v1/projects/{project}/locations/{location}/clusters/{cluster}")
}

/// The `iss` of an EKS cluster; `id` is 32 upper-case hex digits.
pub fn eks_issuer(region: &str, id: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://oidc.eks.{region}.amazonaws.com{suffix}/id/{id}")
}

#[derive(Debug)]
struct Keys {
    maker: KeyMaker,
    common: KeyRing,
    /// By path of the issuer.
    own: HashMap<String, KeyRing>,
    /// Belongs to no issuer.
    stranger: SigningKey,
}

impl Keys {
    fn new(algorithm: KeyAlgorithm) -> Self {
        let mut maker = KeyMaker::default();
        Self {
            common: KeyRing::new(&mut maker, algorithm, KidStyle::Hash),
            stranger: maker.make(algorithm, KidStyle::Hash),
            own: HashMap::new(),
            maker,
        }
    }

    fn ring(&self, path: &str) -> &KeyRing {
        self.own.get(path).unwrap_or(&self.common)
    }
}

#[derive(Debug, Clone)]
struct State {
    core: Core,
    keys: Arc<Mutex<Keys>>,
    cache_control: Arc<Mutex<Option<String>>>,
    default_issuer: Arc<str>,
}

/// A running issuer. Dropping it ends it.
#[derive(Debug)]
pub struct OidcIssuer {
    state: State,
    server: Server,
}

impl OidcIssuer {
    /// Starts one; it listens when this returns.
    pub fn start(config: IssuerConfig) -> io::Result<Self> {
        let state = State {
            core: Core::default(),
            keys: Arc::new(Mutex::new(Keys::new(config.algorithm))),
            cache_control: Arc::new(Mutex::new(config.cache_control)),
            default_issuer: config.default_issuer.into(),
        };
        let service = state.clone();
        let router = super::control::routes(&state.core, "fetches").merge(control::routes(&state)).fallback(
            move |request: Request| {
                let service = service.clone();
                async move { service.serve(request).await }
            },
        );
        let server = Server::start(config.port, router)?;
        Ok(Self { state, server })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Where the keys of `issuer` are served: what a policy names as `jwks_uri`.
    pub fn jwks_uri(&self, issuer: &str) -> String {
        format!("{}{}", self.url(), jwks_path(issuer))
    }

    /// The path of [`Self::jwks_uri`], for [`Self::fetches`].
    pub fn jwks_path(&self, issuer: &str) -> String {
        jwks_path(issuer)
    }

    /// Gives `issuer` keys of its own.
    pub fn add_issuer(&self, issuer: &str, algorithm: KeyAlgorithm) {
        self.state.add_issuer(issuer, algorithm);
    }

    /// A token.
    ///
    /// # Panics
    /// When the options name a signing key that does not exist; see [`Self::try_token`].
    pub fn token(&self, options: &TokenOptions) -> String {
        self.try_token(options).expect("the options name a known key")
    }

    /// A token, or why there is none.
    pub fn try_token(&self, options: &TokenOptions) -> Result<String, MintError> {
        self.state.token(options)
    }

    /// Rotates the keys of `issuer`; answers the new `kid`.
    pub fn rotate(&self, issuer: &str, rotation: Rotation) -> String {
        self.state.rotate(issuer, rotation)
    }

    /// Takes a key of `issuer` out of the published set; false when it is not in it.
    pub fn drop_key(&self, issuer: &str, kid: &str) -> bool {
        self.state.drop_key(issuer, kid)
    }

    /// The `kid` that signs for `issuer`.
    pub fn signing_kid(&self, issuer: &str) -> String {
        let keys = self.state.keys.lock();
        keys.ring(issuer_path(issuer)).signer().kid.clone()
    }

    /// The key set of `issuer` as published, for a policy's static `jwks`.
    pub fn jwks(&self, issuer: &str) -> serde_json::Value {
        let keys = self.state.keys.lock();
        jwks::document(keys.ring(issuer_path(issuer)), &keys.stranger, None)
    }

    /// Sets the `cache-control` of key sets; `None` sends none.
    pub fn set_cache_control(&self, value: Option<&str>) {
        *self.state.cache_control.lock() = value.map(str::to_owned);
    }

    /// Requests for one path since the start or [`Self::forget_fetches`].
    pub fn fetches(&self, path: &str) -> u64 {
        self.state.core.recorder.count(path)
    }

    /// Requests for all paths.
    pub fn fetch_count(&self) -> u64 {
        self.state.core.recorder.total()
    }

    /// The last requests received, oldest first, control calls left out.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.core.recorder.traffic(usize::MAX).requests
    }

    /// Starts counting anew.
    pub fn forget_fetches(&self) {
        self.state.core.recorder.reset();
    }

    /// Misbehaves in this one way.
    pub fn set_fault(&self, plan: impl Into<FaultPlan>) {
        self.state.core.faults.set([plan.into()]);
    }

    /// Misbehaves in these ways, each when those before it are used up.
    pub fn set_faults(&self, plans: impl IntoIterator<Item = FaultPlan>) {
        self.state.core.faults.set(plans);
    }

    /// Behaves.
    pub fn clear_faults(&self) {
        self.state.core.faults.set([]);
    }

    /// The issuer's clock.
    pub fn clock(&self) -> &Clock {
        &self.state.core.clock
    }
}

impl State {
    fn add_issuer(&self, issuer: &str, algorithm: KeyAlgorithm) {
        let path = issuer_path(issuer);
        let style = if path.starts_with("/id/") { KidStyle::Hex } else { KidStyle::Hash };
        let keys = &mut *self.keys.lock();
        let ring = KeyRing::new(&mut keys.maker, algorithm, style);
        keys.own.insert(path.to_owned(), ring);
    }

    fn rotate(&self, issuer: &str, rotation: Rotation) -> String {
        let keys = &mut *self.keys.lock();
        let ring = keys.own.get_mut(issuer_path(issuer)).unwrap_or(&mut keys.common);
        ring.rotate(&mut keys.maker, rotation)
    }

    fn drop_key(&self, issuer: &str, kid: &str) -> bool {
        let keys = &mut *self.keys.lock();
        let ring = keys.own.get_mut(issuer_path(issuer)).unwrap_or(&mut keys.common);
        ring.drop_key(kid)
    }

    fn token(&self, options: &TokenOptions) -> Result<String, MintError> {
        let issuer = options.issuer.as_deref().unwrap_or(&self.default_issuer);
        let keys = self.keys.lock();
        let ring = keys.ring(issuer_path(issuer));
        token::mint(options, issuer, ring, &keys.stranger, self.core.clock.now())
    }

    async fn serve(&self, request: Request) -> Response {
        let (parts, _) = request.into_parts();
        let line = parts.extensions.get::<ConnectionSwitch>().cloned().unwrap_or_default();
        let path = parts.uri.path();
        let fault = self.core.faults.next(path);
        let answer = if fault == Some(Fault::Throttle) {
            Answer::new(StatusCode::TOO_MANY_REQUESTS, "application/json", "{}")
        } else {
            self.answer(parts.method == axum::http::Method::GET, path, fault.as_ref())
        };
        let mut record = RecordedRequest::received(&parts, b"", self.core.clock.now());
        record.status = answer.status.as_u16();
        record.fault = fault.as_ref().map(|fault| fault.kind().to_owned());
        self.core.recorder.record(record);
        deliver(answer, fault, &line).await
    }

    fn answer(&self, is_get: bool, path: &str, fault: Option<&Fault>) -> Answer {
        let key_set_of = path.strip_suffix("/jwks").or_else(|| path.strip_suffix("/keys"));
        let mut answer = match (is_get, key_set_of, path.strip_suffix(DISCOVERY)) {
            (true, Some(issuer), _) => {
                let shape = match fault {
                    Some(Fault::Jwks { shape }) => Some(*shape),
                    _ => None,
                };
                let keys = self.keys.lock();
                let document = jwks::document(keys.ring(issuer), &keys.stranger, shape);
                Answer::new(StatusCode::OK, content_type(path), document.to_string())
            }
            (true, None, Some(issuer)) => Answer::new(StatusCode::OK, "application/json", discovery(issuer)),
            (true, None, None) => Answer::new(StatusCode::NOT_FOUND, "application/json", "{}"),
            (false, ..) => Answer::new(StatusCode::METHOD_NOT_ALLOWED, "application/json", "{}"),
        };
        if let Some(value) = self.cache_control.lock().clone()
            && answer.status == StatusCode::OK
        {
            answer.headers.push((header::CACHE_CONTROL, value));
        }
        answer
    }
}

/// GKE answers with RFC 7517's media type, EKS with plain JSON.
fn content_type(path: &str) -> &'static str {
    if path.ends_with("/jwks") { "application/jwk-set+json" } else { "application/json" }
}

/// The path of an issuer's URL, by which its keys are found here.
fn issuer_path(issuer: &str) -> &str {
    let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    rest.find('/').map_or("", |slash| &rest[slash..])
}

fn jwks_path(issuer: &str) -> String {
    let path = issuer_path(issuer);
    let name = if path.starts_with("/id/") { "keys" } else { "jwks" };
    format!("{path}/{name}")
}

fn discovery(issuer_path: &str) -> String {
    // The region is not part of the path; discovery is never followed, so any will do.
    let (issuer, name) = if issuer_path.starts_with("/id/") {
        (format!("https://oidc.eks.eu-west-1.amazonaws.com{issuer_path}"), "keys")
    } else {
        (format!("https://container.googleapis.com{issuer_path}"), "jwks")
    };
    json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/{name}"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "claims_supported": ["iss", "sub", "kubernetes.io"],
        "grant_types": ["urn:kubernetes:grant_type:programmatic_authorization"],
    })
    .to_string()
}
