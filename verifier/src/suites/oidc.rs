//! The token vectors of `tests/vectors/oidc-tokens`, from the wire to an identity or a refusal, over any signature back end.

use std::cell::RefCell;

use protocol::Mode;
use serde::Deserialize;

use crate::appraisal::policy::KeySource;
use crate::appraisal::{OidcSettings, TrustedIssuer};
use crate::evidence::kubernetes_oidc::{Ports, verify};
use crate::evidence::{KubernetesPrincipal, Principal, VerifiedIdentity};
use crate::jose::{JwksCache, KeySources};
use crate::ports::fakes::{FakeHttp, response};
use crate::ports::{NoJwksStore, SignatureVerifier};
use crate::trace::{self, Trace};
use crate::{Denial, UnixTime};

/// GKE issuer that the vectors' policy trusts.
pub const GKE: &str =
    "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1-b/clusters/runners";
/// EKS issuer that the vectors' policy trusts.
pub const EKS: &str = "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E";

/// A case of `index.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// Name.
    pub id: String,
    /// `accept`, `refuse`, `either`.
    pub expect: String,
    /// For `refuse`: the reasons (or codes) that are right.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The verifier's clock.
    pub now: i64,
    /// Whose keys `jwks` are.
    pub issuer: String,
    /// The verifier's audience.
    pub audience: String,
    /// File with the issuer's keys.
    pub jwks: String,
    /// What the runner sent.
    pub token: String,
}

/// What became of a case.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// Identity or refusal.
    pub result: Result<VerifiedIdentity, Denial>,
    /// What is wrong with the trace of a refusal, if anything is.
    pub trace: Option<String>,
}

impl Outcome {
    /// Who was proven.
    pub fn principal(&self) -> Option<&KubernetesPrincipal> {
        match self.result.as_ref().map(VerifiedIdentity::principal) {
            Ok(Principal::Kubernetes(principal)) => Some(principal),
            _ => None,
        }
    }

    /// `reason` of a refusal, or its `code`.
    pub fn refusal(&self) -> Option<&'static str> {
        let denial = self.result.as_ref().err()?;
        Some(denial.reason.map_or(denial.code.as_str(), |reason| reason.as_str()))
    }

    /// What is wrong with the outcome, if anything is.
    pub fn fault(&self) -> Option<String> {
        let fits = match self.case.expect.as_str() {
            "accept" => self.principal().is_some(),
            "refuse" => self.refusal().is_some_and(|refusal| self.case.reasons.iter().any(|reason| reason == refusal)),
            "either" => true,
            _ => false,
        };
        if fits {
            return self.trace.as_ref().map(|fault| format!("{}: {fault}", self.case.id));
        }
        Some(format!("{}: expected {} {:?}, got {:?}", self.case.id, self.case.expect, self.case.reasons, self.result))
    }
}

/// The policy of the vectors.
pub fn settings() -> OidcSettings {
    let issuer = |mode, issuer: &str, path: &str| TrustedIssuer {
        mode,
        issuer: issuer.to_owned(),
        keys: KeySource::Fetch { jwks_uri: [issuer, path].concat() },
        max_token_lifetime: 3_600,
    };
    OidcSettings {
        issuers: vec![issuer(Mode::GkeOidc, GKE, "/jwks"), issuer(Mode::EksOidc, EKS, "/keys")],
        wildcard_projects: Vec::new(),
    }
}

/// Runs every case of `index.json`, each in an isolate of its own; `jwks` reads a file beside it.
pub async fn run(
    backend: &impl SignatureVerifier,
    index: &str,
    jwks: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<Vec<Outcome>, String> {
    let cases: Vec<Case> = serde_json::from_str(index).map_err(|error| error.to_string())?;
    let mut outcomes = Vec::with_capacity(cases.len());
    for case in cases {
        let body = jwks(&case.jwks).ok_or_else(|| format!("no file {}", case.jwks))?;
        let eks = case.issuer == EKS;
        let uri = [case.issuer.as_str(), if eks { "/keys" } else { "/jwks" }].concat();
        let http = FakeHttp::answering(move |request| {
            let found = request.url == uri;
            Ok(response(
                if found { 200 } else { 404 },
                "application/json",
                if found { body.clone() } else { Vec::new() },
            ))
        });
        let cache = RefCell::new(JwksCache::default());
        let ports = Ports { keys: KeySources { cache: &cache, store: &NoJwksStore, http: &http }, signatures: backend };
        let mode = if eks { Mode::EksOidc } else { Mode::GkeOidc };
        let (now, settings) = (UnixTime::from_secs(case.now), settings());
        let mut trace = Trace::on();
        let result = verify(&case.token, mode, &settings, &case.audience, now, &ports, &mut trace).await;
        let told = result.as_ref().err().filter(|denial| denial.reason.is_some());
        let trace = told.and_then(|denial| trace::fault(mode, denial, &trace.finish(mode, Some(denial))));
        outcomes.push(Outcome { case, result, trace });
    }
    Ok(outcomes)
}
