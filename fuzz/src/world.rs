//! A verifier that is the same in every run: its CA, its policy, and an outside that answers.

use pollster::block_on;
use verifier::UnixTime;
use verifier::appraisal::Policy;
use verifier::encoding::sha256;
use verifier::issuance::{CaCertificate, IssuingCa, ca};
use verifier::ports::fakes::{AnySignature, FakeHttp, FakeOutside, response};
use verifier::ports::{BackendError, Entropy};
use verifier::rust_crypto::RustIssuingKey;
use verifier::{Call, encoding};

/// 2026-09-21T14:13:20Z: the time of the vectors.
pub const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);
/// Audience of the vectors.
pub const AUDIENCE: &str = "edge.example.com";
/// The policy in force: both issuers of the vectors, a wildcard, and the role that STS answers with.
pub const POLICY: &str = include_str!("policy.json");
/// A bootstrap token that tenant `acme` has.
pub const TOKEN_SEED: &str = "the token of the corpus";

const GKE_KEYS: &[u8] = include_bytes!("../../tests/vectors/oidc-tokens/gke_jwks.json");
const EKS_KEYS: &[u8] = include_bytes!("../../tests/vectors/oidc-tokens/eks_keys.json");
const STS_ANSWER: &str = r#"{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"123456789012",
    "Arn":"arn:aws:sts::123456789012:assumed-role/r/s","UserId":"AROAEXAMPLE:s"},
    "ResponseMetadata":{"RequestId":"01234567-89ab-cdef-0123-456789abcdef"}}}"#;

/// Octets that follow from a name.
#[derive(Debug, Clone, Copy)]
pub struct Repeatable(pub &'static str);

impl Entropy for Repeatable {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        let octets = sha256(self.0.as_bytes());
        buffer.iter_mut().zip(octets.iter().cycle()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// What stays from input to input.
#[derive(Debug)]
pub struct World {
    /// The policy.
    pub policy: Policy,
    /// The CA.
    pub ca: IssuingCa,
    /// Its issuing key.
    pub key: RustIssuingKey,
    /// The root.
    pub root: CaCertificate,
}

impl World {
    /// The same every time.
    ///
    /// # Panics
    ///
    /// When the CA or the policy is refused.
    pub fn new() -> Self {
        let [root_key, key] =
            ["root", "issuing"].map(|name| RustIssuingKey::from_scalar(&sha256(name.as_bytes())).unwrap());
        let (root_public, public) = (root_key.public_key().unwrap(), key.public_key().unwrap());
        let root = block_on(ca::root("Fuzz", &root_public, &root_key, NOW, &Repeatable("root serial"))).unwrap();
        let issuing =
            block_on(ca::issuing("Fuzz", &root, &root_key, &public, NOW, &Repeatable("issuing serial"))).unwrap();
        let ca = IssuingCa::from_pem(&issuing.to_pem(), &root.to_pem()).unwrap();
        let policy = Policy::compile(serde_json::from_str(POLICY).unwrap()).unwrap();
        Self { policy, ca, key, root }
    }

    /// Runs `body` with the one of this thread.
    pub fn with<T>(body: impl FnOnce(&Self) -> T) -> T {
        thread_local! {
            static WORLD: World = World::new();
        }
        WORLD.with(body)
    }

    /// A call at [`NOW`].
    pub fn call<'a>(&'a self, outside: &'a Outside) -> Call<'a, Outside, RustIssuingKey> {
        Call {
            ports: outside,
            policy: &self.policy,
            policy_version: 1,
            ca: &self.ca,
            key: &self.key,
            now: NOW,
            request_id: "fuzz",
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// An outside where every signature is good.
pub type Outside = FakeOutside<AnySignature>;

/// A new one: no tenant has anything yet, STS and the issuers answer.
pub fn outside() -> Outside {
    let http = FakeHttp::answering(|request| {
        let body = match request.url.as_str() {
            url if url.starts_with("https://sts") => STS_ANSWER.as_bytes(),
            url if url.ends_with("/jwks") => GKE_KEYS,
            _ => EKS_KEYS,
        };
        Ok(response(200, "application/json", body))
    });
    FakeOutside::new(http, AnySignature(true), NOW)
}

/// SHA-256 in hexadecimal: names of corpus files.
pub fn name_of(input: &[u8]) -> String {
    encoding::hex(&sha256(input))[..16].to_owned()
}
