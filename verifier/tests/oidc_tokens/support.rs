//! A cluster that signs what it is told, and a verifier around it.

use std::cell::RefCell;

use pollster::block_on;
use protocol::{Mode, Reason};
use serde_json::{Value, json};
use verifier::appraisal::OidcSettings;
use verifier::encoding::b64url;
use verifier::evidence::VerifiedIdentity;
use verifier::evidence::kubernetes_oidc::{Ports, verify};
use verifier::jose::{JwksCache, KeySources};
use verifier::keys::KeyMaterial;
use verifier::ports::fakes::{FakeHttp, response};
use verifier::ports::{HttpError, HttpResponse, IssuingKey as _, NoJwksStore};
use verifier::rust_crypto::{RustCrypto, RustIssuingKey};
use verifier::suites::oidc::{GKE, settings};
use verifier::trace::Trace;
use verifier::{Denial, UnixTime};

pub const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);
pub const AUDIENCE: &str = "edge.example.com";

/// A P-256 key of a cluster.
pub struct Signer {
    pub kid: String,
    key: RustIssuingKey,
}

impl Signer {
    /// The same key for the same name.
    pub fn new(kid: &str) -> Self {
        let scalar = verifier::encoding::sha256(kid.as_bytes());
        Self { kid: kid.to_owned(), key: RustIssuingKey::from_scalar(&scalar).unwrap() }
    }

    pub fn jwk(&self) -> Value {
        let public = self.key.public_key().unwrap();
        let KeyMaterial::P256(point) = public.material() else { unreachable!() };
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "use": "sig", "alg": "ES256",
            "x": b64url(&point[1..33]), "y": b64url(&point[33..])})
    }

    /// Any header and payload, signed.
    pub fn sign_text(&self, header: &str, payload: &str) -> String {
        let input = format!("{}.{}", b64url(header.as_bytes()), b64url(payload.as_bytes()));
        let signature = block_on(self.key.sign(input.as_bytes())).unwrap();
        format!("{input}.{}", b64url(&signature))
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_text(&json!({"alg": "ES256", "kid": self.kid}).to_string(), &claims.to_string())
    }
}

/// Claims of a good token of [`GKE`].
pub fn claims() -> Value {
    json!({
        "aud": [AUDIENCE], "exp": 1_790_003_000, "iat": 1_789_999_400, "nbf": 1_789_999_400, "iss": GKE, "jti": "j-1",
        "sub": "system:serviceaccount:runners:runner",
        "kubernetes.io": {
            "namespace": "runners", "node": {"name": "n", "uid": "u"}, "warnafter": 1_790_003_007,
            "pod": {"name": "runner-0", "uid": "413b22ca-4833-48d9-b6db-76219d583173"},
            "serviceaccount": {"name": "runner", "uid": "8b77ea6d"}
        }
    })
}

/// `claims()` with one change.
pub fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = claims();
    change(&mut claims);
    claims
}

pub fn jwks(keys: &[Value]) -> HttpResponse {
    response(200, "application/json", json!({ "keys": keys }).to_string())
}

pub type Answer = Result<HttpResponse, HttpError>;

/// A verifier with an isolate's cache.
pub struct World {
    pub settings: OidcSettings,
    pub cache: RefCell<JwksCache>,
    pub http: FakeHttp,
}

impl World {
    pub fn answering(answers: impl FnMut(&str) -> Answer + 'static) -> Self {
        let mut answers = answers;
        Self {
            settings: settings(),
            cache: RefCell::default(),
            http: FakeHttp::answering(move |request| answers(&request.url)),
        }
    }

    /// The GKE cluster's key is that of `Signer::new("a")`.
    pub fn new() -> Self {
        Self::answering(|_| Ok(jwks(&[Signer::new("a").jwk()])))
    }

    pub fn verify_as(
        &self,
        token: &str,
        mode: Mode,
        now: UnixTime,
        trace: &mut Trace,
    ) -> Result<VerifiedIdentity, Denial> {
        let keys = KeySources { cache: &self.cache, store: &NoJwksStore, http: &self.http };
        let ports = Ports { keys, signatures: &RustCrypto };
        block_on(verify(token, mode, &self.settings, AUDIENCE, now, &ports, trace))
    }

    pub fn verify(&self, token: &str, now: UnixTime) -> Result<VerifiedIdentity, Denial> {
        self.verify_as(token, Mode::GkeOidc, now, &mut Trace::off())
    }

    pub fn fetches(&self) -> usize {
        self.http.sent().len()
    }
}

/// What becomes of a token of the cluster with these claims.
pub fn outcome(claims: &Value) -> Result<VerifiedIdentity, Denial> {
    World::new().verify(&Signer::new("a").sign(claims), NOW)
}

/// The reason of a refusal.
#[track_caller]
pub fn reason(result: Result<VerifiedIdentity, Denial>) -> Reason {
    let denial = result.expect_err("refused");
    assert_eq!(denial.code, protocol::Code::AttestationInvalid, "{denial:?}");
    denial.reason.expect("a reason")
}

/// [`World::verify`] for another verifier.
pub fn verify_for(world: &World, token: &str, audience: &str) -> Result<VerifiedIdentity, Denial> {
    let keys = KeySources { cache: &world.cache, store: &NoJwksStore, http: &world.http };
    let ports = Ports { keys, signatures: &RustCrypto };
    block_on(verify(token, Mode::GkeOidc, &world.settings, audience, NOW, &ports, &mut Trace::off()))
}

/// The other ECDSA signature of the same text by the same key: n − s for s.
pub fn twin(signature: &str) -> String {
    const N: [u8; 32] = [
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad,
        0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ];
    let mut octets = verifier::encoding::from_b64url(signature).unwrap();
    let mut borrow = 0_i16;
    for at in (0..32).rev() {
        let difference = i16::from(N[at]) - i16::from(octets[32 + at]) - borrow;
        borrow = i16::from(difference < 0);
        octets[32 + at] = u8::try_from(difference.rem_euclid(256)).unwrap();
    }
    b64url(&octets)
}
