//! A deployment with its tenants' objects in memory, one cluster that signs, and runners.

use pollster::block_on;
use protocol::admin::{BanRequest, BanScope, MintRequest};
use protocol::{Code, Reason, VerifyResponse};
use serde_json::{Value, json};
use verifier::appraisal::Policy;
use verifier::encoding::b64url;
use verifier::evidence::mtls_renewal::EdgeClientCertificate;
use verifier::ports::HttpError;
use verifier::ports::fakes::{FakeHttp, FakeOutside, response};
use verifier::registry::{AdminContext, MemoryStore, runners, tokens};
use verifier::rust_crypto::RustCrypto;
use verifier::trace::{Subject, Trace};
use verifier::{Call, Denial, Issued, UnixTime};

use crate::support::runner_key::RunnerKey;
use crate::support::{Authority, Key, NOW};
use crate::tokens::{Signer, claims, jwks};

pub const AUDIENCE: &str = "edge.example.com";

const POLICY: &str = r#"
trust_domain = "edge.example.com"
audience = "edge.example.com"
aws_sts.regions = ["eu-west-1"]

[[tenants]]
id = "acme"

[[tenants.rules]]
mode = "gke-oidc"
project = "acme-prod"
location = "europe-west1-b"
cluster = "runners"
namespace = "runners"
service_account = "runner"

[[tenants]]
id = "closed"
bootstrap_tokens = false
"#;

/// A runner's key pair.
pub struct Runner(pub RunnerKey);

impl Runner {
    pub fn new() -> Self {
        Self(RunnerKey::generate("EC:P-256"))
    }

    pub fn csr(&self) -> String {
        b64url(&self.0.csr_der)
    }

    pub fn spki_sha256(&self) -> String {
        b64url(self.0.csr().spki_sha256())
    }

    pub fn with(&self, attestation: &Value) -> Value {
        json!({"csr": self.csr(), "attestation": attestation})
    }

    /// Renewal evidence by this runner's key for the CSR of `next`.
    pub fn renewal(&self, issued: &Issued, next: &Self, now: UnixTime) -> Value {
        let leaf = leaf(issued);
        let hash = |octets: &[u8]| b64url(&verifier::encoding::sha256(octets));
        let (_, der) = der::pem::decode_vec(leaf.as_bytes()).unwrap();
        let text = protocol::renewal_text(AUDIENCE, now.secs(), &hash(&der), &hash(&next.0.csr_der));
        let signature = self.0.sign(&text);
        json!({"mode": "mtls-renewal", "certificate": leaf, "timestamp": now.secs(), "signature": signature})
    }
}

/// PEM of the certificate itself.
pub fn leaf(issued: &Issued) -> String {
    const END: &str = "-----END CERTIFICATE-----\n";
    let chain = &issued.response.certificate;
    chain[..chain.find(END).unwrap() + END.len()].to_owned()
}

pub struct World {
    pub authority: Authority,
    pub policy: Policy,
    pub outside: FakeOutside,
    pub now: UnixTime,
}

impl World {
    pub fn new() -> Self {
        Self::answering(|| Ok(jwks(&[Signer::new("a").jwk()])))
    }

    /// Every outbound call ends so.
    pub fn answering(answer: fn() -> crate::tokens::Answer) -> Self {
        Self {
            authority: Authority::new("flow"),
            policy: policy(POLICY),
            outside: FakeOutside::new(FakeHttp::answering(move |_| answer()), RustCrypto, NOW),
            now: NOW,
        }
    }

    /// STS and key sets are away.
    pub fn cut_off() -> Self {
        Self::answering(|| Err(HttpError::Timeout))
    }

    /// STS throttles.
    pub fn throttled() -> Self {
        Self::answering(|| Ok(response(429, "application/json", "{}")))
    }

    pub fn without_rules(&mut self) {
        self.policy = policy(&POLICY.replace("namespace = \"runners\"", "namespace = \"others\""));
    }

    pub fn without_tenant(&mut self) {
        self.policy = policy(&POLICY.replace("id = \"acme\"", "id = \"else\""));
    }

    pub fn pass(&mut self, secs: i64) {
        self.now = self.now.plus(secs);
        self.outside.now.set(self.now);
    }

    fn call(&self) -> Call<'_, FakeOutside, Key> {
        Call {
            ports: &self.outside,
            policy: &self.policy,
            policy_version: 1,
            ca: &self.authority.ca,
            key: &self.authority.issuing_key,
            now: self.now,
            request_id: "request",
        }
    }

    pub fn enroll(&self, body: &Value) -> Result<Issued, Denial> {
        self.enroll_text(&body.to_string()).0
    }

    /// With what became known on the way.
    pub fn enroll_text(&self, body: &str) -> (Result<Issued, Denial>, Subject) {
        let mut trace = Trace::off();
        let result = block_on(self.call().enroll(body, &mut trace));
        (result, trace.subject)
    }

    pub fn renew(&self, body: &Value) -> Result<Issued, Denial> {
        self.renew_with(&body.to_string(), Ok(None))
    }

    pub fn renew_with(
        &self,
        body: &str,
        edge: Result<Option<EdgeClientCertificate>, Denial>,
    ) -> Result<Issued, Denial> {
        block_on(self.call().renew(body, edge, &mut Trace::off()))
    }

    pub fn verify(&self, body: &Value) -> Result<VerifyResponse, Denial> {
        block_on(self.call().verify(&body.to_string(), "4f5e6d7c", &mut Trace::on()))
    }

    /// The objects that have come to be, with all they hold.
    pub fn records(&self) -> Vec<(String, MemoryStore)> {
        self.outside.tenants.borrow().iter().map(|(tenant, store)| (tenant.clone(), store.clone())).collect()
    }

    pub fn mint(&self) -> Value {
        let request = MintRequest::default();
        let minted = self
            .outside
            .in_tenant("acme", |store, now, entropy| tokens::mint(store, &operator(), &request, now, entropy))
            .unwrap();
        json!({"mode": "bootstrap-token", "token": minted.token})
    }

    pub fn uses(&self) -> Vec<u32> {
        let query = verifier::registry::PageQuery { limit: Some(50), cursor: None };
        let page = self.outside.in_tenant("acme", |store, _, _| tokens::list(store, "acme", &query)).unwrap();
        page.items.into_iter().map(|token| token.uses).collect()
    }

    pub fn ban(&self, runner_id: &str, scope: BanScope) {
        let request = BanRequest { reason: Some("stolen".to_owned()), scope: Some(scope) };
        self.outside
            .in_tenant("acme", |store, now, _| runners::ban(store, &operator(), runner_id, &request, now))
            .unwrap();
    }
}

fn policy(toml: &str) -> Policy {
    Policy::compile(toml::from_str(toml).unwrap()).unwrap()
}

fn operator() -> AdminContext {
    AdminContext { tenant: "acme".to_owned(), actor: "0a1b2c3d".to_owned(), request_id: "operator".to_owned() }
}

/// A token of the cluster, with one change of its claims.
pub fn token(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = claims();
    change(&mut claims);
    json!({"mode": "gke-oidc", "token": Signer::new("a").sign(&claims)})
}

/// A good one of this `jti`.
pub fn good(jti: &str) -> Value {
    token(|claims| claims["jti"] = jti.into())
}

/// Code and reason.
pub type Refusal = (Code, Option<Reason>);

#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Denial>) -> Refusal {
    let denial = result.expect_err("refused");
    (denial.code, denial.reason)
}

pub const fn invalid(reason: Reason) -> Refusal {
    (Code::AttestationInvalid, Some(reason))
}
