//! `gke-oidc` and `eks-oidc`: projected ServiceAccount tokens of managed Kubernetes clusters (CHECKS K).
//!
//! [`verify`] goes the whole way. Its steps are public, for a platform that waits for keys and signatures in its own way:
//!
//! ```text
//! Presented::parse ──► key set ──► Presented::with_keys ──► signature ──► Unverified::conclude ──► VerifiedIdentity
//!   K1, K2, K3        K8, K9        K4: which keys              K4             K4, K5, K6
//! ```
//!
//! Out of scope: which tenant the identity belongs to, and whether the token was used before (CHECKS K7), for which
//! [`EvidenceUse`] names the use.

mod claims;
pub mod issuer;

use std::rc::Rc;

use protocol::{Code, Mode, Reason};

use self::claims::{Audience, Claims, Kubernetes};
pub use self::issuer::{EksIssuer, GkeIssuer, parse_eks_issuer, parse_gke_issuer};
use super::identity::{EvidenceUse, KubernetesPrincipal, Principal, VerifiedIdentity};
use crate::appraisal::OidcSettings;
use crate::appraisal::policy::{DEFAULT_TOKEN_LIFETIME, KeySource, TrustedIssuer};
use crate::checks::Check;
use crate::encoding::{hex, sha256, shown};
use crate::jose::jwk::SelectError;
use crate::jose::jwks_cache::Cause;
use crate::jose::{Claim, JwkSet, Jws, JwsError, KeySetRef, KeySources, NoKeys, Origin, key_set};
use crate::keys::{PublicKey, SignatureAlgorithm};
use crate::ports::{BackendError, HttpClient, JwksStore, SignatureVerifier};
use crate::trace::Trace;
use crate::{Denial, UnixTime};

/// How far clocks may differ, seconds (CHECKS K5).
pub const LEEWAY: i64 = 30;
/// How long after its end a token is remembered, seconds: longer than the leeway (CHECKS K7).
const REMEMBERED: i64 = 90;
/// What K1 to K4 expect, in traces.
const FORM: &str = "compact JWS of at most 16 KiB";
const ALGORITHMS: &str = "RS256 or ES256";
const TRUSTED: &str = "an issuer of the policy";
const SIGNED: &str = "signed by a key of the issuer";
/// Ends the detail of `issuer_unknown` where the policy names no EKS issuer (CHECKS K3).
const EKS_HINT: &str = "On EKS, use aws-sts, or name the issuer in the policy.";

/// What verification needs from outside.
#[derive(Debug)]
pub struct Ports<'a, H, S, V> {
    /// Key sets.
    pub keys: KeySources<'a, H, S>,
    /// Signatures.
    pub signatures: &'a V,
}

/// Verifies a token: CHECKS K1 to K6, in this order.
///
/// A set that should be fetched again afterwards waits in [`crate::jose::JwksCache::take_due`].
pub async fn verify<H: HttpClient, S: JwksStore, V: SignatureVerifier>(
    token: &str,
    mode: Mode,
    settings: &OidcSettings,
    audience: &str,
    now: UnixTime,
    ports: &Ports<'_, H, S, V>,
    trace: &mut Trace,
) -> Result<VerifiedIdentity, Denial> {
    let presented = Presented::parse(token, mode, settings, trace)?;
    let set = key_set(ports.keys, now, &presented.key_set(), presented.kid()).await;
    let unverified = presented.with_keys(set, trace)?;
    let mut valid = false;
    for key in unverified.keys() {
        valid = ports
            .signatures
            .verify(key, unverified.algorithm(), unverified.signing_input(), unverified.signature())
            .await
            .map_err(|error| backend_failed(&error))?;
        if valid {
            break;
        }
    }
    unverified.conclude(valid, audience, now, trace)
}

/// The signature back end could not decide: a fault of ours, not of the token.
pub fn backend_failed(error: &BackendError) -> Denial {
    let _ = error;
    Denial::new(Code::Internal, "the signature could not be verified").at(Check::K4)
}

/// A token of a trusted issuer: CHECKS K1 to K3 passed, nothing proven yet.
#[derive(Debug)]
pub struct Presented<'t, 'p> {
    mode: Mode,
    jws: Jws<'t>,
    issuer: Box<str>,
    claims: Claims,
    trusted: Trusted<'p>,
}

/// How the policy trusts an issuer.
#[derive(Debug)]
enum Trusted<'p> {
    Named(&'p TrustedIssuer),
    Wildcard { project: &'p str, jwks_uri: String },
}

impl<'t, 'p> Presented<'t, 'p> {
    /// CHECKS K1, K2 and K3.
    pub fn parse(token: &'t str, mode: Mode, settings: &'p OidcSettings, trace: &mut Trace) -> Result<Self, Denial> {
        let octets = || (FORM.to_owned(), format!("{} octets", token.len()));
        let jws = Jws::parse(token).map_err(|error| {
            let denial = unfit(&error);
            if denial.check == Some(Check::K2) {
                trace.pass(Check::K1, octets);
            }
            denial
        })?;
        let mut claims: Claims = jws.claims().map_err(|error| unfit(&error))?;
        trace.pass(Check::K1, octets);
        trace.pass(Check::K2, || (ALGORITHMS.to_owned(), jws.algorithm().to_string()));
        let Claim::Is(issuer) = std::mem::take(&mut claims.iss) else {
            return Err(issuer_unknown(mode, None, settings));
        };
        let trusted =
            trusted_issuer(mode, &issuer, settings).ok_or_else(|| issuer_unknown(mode, Some(&issuer), settings))?;
        Ok(Self { mode, jws, issuer, claims, trusted })
    }

    /// Whose keys are needed.
    pub fn key_set(&self) -> KeySetRef<'_> {
        let origin = match &self.trusted {
            Trusted::Named(TrustedIssuer { keys: KeySource::Fetch { jwks_uri }, .. }) => Origin::Named { jwks_uri },
            Trusted::Named(TrustedIssuer { keys: KeySource::Static { jwks }, .. }) => Origin::Static { jwks },
            Trusted::Wildcard { project, jwks_uri } => Origin::Wildcard { project, jwks_uri: jwks_uri.clone() },
        };
        KeySetRef { issuer: &self.issuer, origin }
    }

    /// `kid` of the token.
    pub fn kid(&self) -> Option<&str> {
        self.jws.kid()
    }

    /// CHECKS K4: which keys to try.
    pub fn with_keys(self, set: Result<Rc<JwkSet>, NoKeys>, trace: &mut Trace) -> Result<Unverified<'t, 'p>, Denial> {
        let set = set.map_err(|why| self.no_keys(why))?;
        trace.pass(Check::K3, || (TRUSTED.to_owned(), shown(&self.issuer)));
        set.check(self.kid(), self.jws.algorithm()).map_err(|error| {
            let reason = match error {
                SelectError::KidRequired | SelectError::UnknownKid => Reason::KeyUnknown,
                SelectError::AlgorithmMismatch => Reason::AlgNotAllowed,
            };
            let kid = self.kid().map_or_else(|| "no kid".to_owned(), |kid| format!("kid \"{}\"", shown(kid)));
            refusal(Check::K4, reason, SIGNED, format!("{error} ({kid}, {})", self.jws.algorithm()))
        })?;
        Ok(Unverified { presented: self, set })
    }

    fn no_keys(&self, why: NoKeys) -> Denial {
        let issuer = shown(&self.issuer);
        match why {
            NoKeys::Gone => Denial::evidence(
                Check::K3,
                Reason::IssuerUnknown,
                format!("the host of issuer \"{issuer}\" knows no such cluster, or does not publish its keys"),
            ),
            NoKeys::Unavailable { retry_after, cause } => {
                let private = matches!(cause, Cause::Status(401 | 403 | 404));
                let hint =
                    if private { "; a private cluster's keys can be written into the policy (jwks)" } else { "" };
                let detail = format!("the keys of issuer \"{issuer}\" are not available: {cause}{hint}");
                let denial = Denial::new(Code::UpstreamUnavailable, detail).at(Check::K4);
                Denial { retry_after: Some(retry_after), ..denial }
            }
        }
    }
}

/// A token with the keys that may have signed it: next is the platform's verification of its signature.
#[derive(Debug)]
pub struct Unverified<'t, 'p> {
    presented: Presented<'t, 'p>,
    set: Rc<JwkSet>,
}

impl Unverified<'_, '_> {
    /// The keys to try, one to four, in this order.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.set.candidates(self.presented.kid(), self.algorithm())
    }

    /// The algorithm to verify with.
    pub const fn algorithm(&self) -> SignatureAlgorithm {
        self.presented.jws.algorithm()
    }

    /// What was signed.
    pub const fn signing_input(&self) -> &[u8] {
        self.presented.jws.signing_input().as_bytes()
    }

    /// The signature; r‖s for ES256.
    pub fn signature(&self) -> &[u8] {
        self.presented.jws.signature()
    }

    /// CHECKS K4, K5 and K6: `valid` says whether the signature is by one of [`Self::keys`].
    pub fn conclude(
        self,
        valid: bool,
        audience: &str,
        now: UnixTime,
        trace: &mut Trace,
    ) -> Result<VerifiedIdentity, Denial> {
        let Presented { mode, jws, issuer, claims, trusted } = self.presented;
        if !valid {
            let detail = "the signature is not by the issuer's key of this `kid`";
            return Err(refusal(Check::K4, Reason::SignatureInvalid, SIGNED, detail.to_owned()));
        }
        trace.pass(Check::K4, || (SIGNED.to_owned(), shown(jws.kid().unwrap_or("its only key"))));
        let longest = match trusted {
            Trusted::Named(trusted) => trusted.max_token_lifetime,
            Trusted::Wildcard { .. } => DEFAULT_TOKEN_LIFETIME,
        };
        let expiry = check_audience_and_times(&claims, audience, now, longest, trace)?;
        let principal = check_service_account(mode, issuer, &claims, trace)?;
        let evidence = evidence_use(&principal, &claims, &jws, expiry);
        Ok(VerifiedIdentity::new(Principal::Kubernetes(principal), evidence))
    }
}

fn unfit(error: &JwsError) -> Denial {
    let (check, reason, expected) = match error {
        JwsError::Algorithm(_) | JwsError::Extension(_) => (Check::K2, Reason::AlgNotAllowed, ALGORITHMS),
        _ => (Check::K1, Reason::TokenMalformed, FORM),
    };
    refusal(check, reason, expected, error.to_string())
}

/// The trace tells what was wanted too; what was seen is in the detail.
fn refusal(check: Check, reason: Reason, expected: &str, detail: String) -> Denial {
    Denial::evidence(check, reason, &*detail).compared(expected, detail)
}

/// CHECKS K3: exact text of a configured issuer of this mode, or a full match of the GKE grammar with an allowed project.
fn trusted_issuer<'p>(mode: Mode, issuer: &str, settings: &'p OidcSettings) -> Option<Trusted<'p>> {
    if let Some(named) = settings.issuers.iter().find(|named| named.mode == mode && named.issuer == issuer) {
        return Some(Trusted::Named(named));
    }
    if mode != Mode::GkeOidc {
        return None;
    }
    let parsed = parse_gke_issuer(issuer)?;
    let (project, _) = settings
        .wildcard_projects
        .iter()
        .find(|(project, location)| project == parsed.project && (location == "*" || location == parsed.location))?;
    Some(Trusted::Wildcard { project, jwks_uri: parsed.jwks_uri() })
}

fn issuer_unknown(mode: Mode, issuer: Option<&str>, settings: &OidcSettings) -> Denial {
    let eks = mode == Mode::EksOidc || issuer.is_some_and(|issuer| parse_eks_issuer(issuer).is_some());
    let no_eks_issuer = !settings.issuers.iter().any(|named| named.mode == Mode::EksOidc);
    let mut detail = issuer.map_or_else(
        || "the token has no `iss` that is a text.".to_owned(),
        |issuer| format!("\"{}\" is not an issuer that the policy trusts for {mode}.", shown(issuer)),
    );
    if eks && no_eks_issuer {
        detail = [&detail, " ", EKS_HINT].concat();
    }
    refusal(Check::K3, Reason::IssuerUnknown, TRUSTED, detail)
}

/// CHECKS K5. Gives `exp`.
fn check_audience_and_times(
    claims: &Claims,
    audience: &str,
    now: UnixTime,
    longest: i64,
    trace: &mut Trace,
) -> Result<UnixTime, Denial> {
    let aud = claims.aud.required().ok_or_else(|| claim_missing(Check::K5, "aud", "a text or a list of texts"))?;
    let exp = *claims.exp.required().ok_or_else(|| claim_missing(Check::K5, "exp", "a time"))?;
    let iat = *claims.iat.required().ok_or_else(|| claim_missing(Check::K5, "iat", "a time"))?;
    if claims.sub.required().is_none() {
        return Err(claim_missing(Check::K5, "sub", "a text"));
    }
    let nbf = match claims.nbf {
        Claim::Absent => None,
        Claim::Is(nbf) => Some(nbf),
        Claim::Wrong => return Err(claim_missing(Check::K5, "nbf", "a time")),
    };
    if matches!(&claims.jti, Claim::Wrong) || matches!(&claims.jti, Claim::Is(jti) if jti.is_empty()) {
        return Err(claim_missing(Check::K5, "jti", "a text that is not empty"));
    }
    check_audience(aud, audience)?;
    let (expiry, issued) = (UnixTime::from_secs(exp), UnixTime::from_secs(iat));
    if now >= expiry.plus(LEEWAY) {
        let detail = format!("the token expired at {}, {} s ago", expiry.to_rfc3339(), now.since(expiry));
        return Err(refused(Reason::TokenExpired, detail, now, expiry));
    }
    let starts = nbf.map_or(issued, |nbf| issued.max(UnixTime::from_secs(nbf)));
    if starts > now.plus(LEEWAY) {
        let detail = format!("the token is valid from {}, in {} s", starts.to_rfc3339(), starts.since(now));
        return Err(refused(Reason::TokenNotYetValid, detail, now, starts));
    }
    let lifetime = expiry.since(issued);
    if lifetime <= 0 {
        return Err(Denial::evidence(Check::K5, Reason::ClaimsInvalid, "the token's `exp` is not after its `iat`"));
    }
    if lifetime > longest {
        let detail = format!("the token lives for {lifetime} s; the policy allows {longest} s (max_token_lifetime)");
        return Err(Denial::evidence(Check::K5, Reason::TokenLifetime, detail)
            .compared(format!("at most {longest} s"), format!("{lifetime} s")));
    }
    trace.pass(Check::K5, || {
        (format!("for {audience}, valid at {}", now.to_rfc3339()), format!("for it, until {}", expiry.to_rfc3339()))
    });
    Ok(expiry)
}

fn refused(reason: Reason, detail: String, now: UnixTime, then: UnixTime) -> Denial {
    Denial::evidence(Check::K5, reason, detail).compared(format!("valid at {}", now.to_rfc3339()), then.to_rfc3339())
}

/// The list must name this verifier; an empty name is in no list (CHECKS A4).
fn check_audience(Audience(aud): &Audience, audience: &str) -> Result<(), Denial> {
    if !audience.is_empty() && aud.iter().any(|one| &**one == audience) {
        return Ok(());
    }
    let named: Vec<String> = aud.iter().take(4).map(|one| format!("\"{}\"", shown(one))).collect();
    let named: String = if named.is_empty() { "nobody".into() } else { named.join(", ").chars().take(512).collect() };
    Err(Denial::evidence(
        Check::K5,
        Reason::AudienceMismatch,
        format!("the token is for {named}; this verifier is \"{audience}\""),
    )
    .compared(audience, named))
}

/// CHECKS K6.
fn check_service_account(
    mode: Mode,
    issuer: Box<str>,
    claims: &Claims,
    trace: &mut Trace,
) -> Result<KubernetesPrincipal, Denial> {
    let invalid = |detail: &str| Denial::evidence(Check::K6, Reason::ClaimsInvalid, detail);
    let sub = claims.sub.required().ok_or_else(|| claim_missing(Check::K6, "sub", "a text"))?;
    let (namespace, service_account) = parse_subject(sub).ok_or_else(|| {
        invalid("`sub` is not system:serviceaccount:<namespace>:<name>").compared("a ServiceAccount", shown(sub))
    })?;
    if claims.legacy {
        return Err(invalid("the token is that of a ServiceAccount secret; a projected token is needed"));
    }
    let kubernetes = claims
        .kubernetes
        .required()
        .ok_or_else(|| claim_missing(Check::K6, "kubernetes.io", "an object, as in projected tokens"))?;
    if kubernetes.secret {
        return Err(invalid("the token is bound to a secret; one that is bound to a pod is needed"));
    }
    let named_account = kubernetes.service_account.required().and_then(|account| account.name.required());
    let agrees = kubernetes.namespace.required().map(|text| &**text) == Some(namespace)
        && named_account.map(|text| &**text) == Some(service_account);
    if !agrees {
        return Err(invalid("`sub` and `kubernetes.io` do not name the same namespace and ServiceAccount"));
    }
    let (pod_name, pod_uid) =
        bound_pod(kubernetes).ok_or_else(|| invalid("the token is not bound to a pod with a name and a uid"))?;
    trace.pass(Check::K6, || ("a ServiceAccount's token, bound to a pod".to_owned(), format!("{sub}, pod {pod_uid}")));
    Ok(KubernetesPrincipal {
        mode,
        issuer: issuer.into(),
        namespace: namespace.to_owned(),
        service_account: service_account.to_owned(),
        pod_name: pod_name.to_owned(),
        pod_uid: pod_uid.to_owned(),
    })
}

fn parse_subject(sub: &str) -> Option<(&str, &str)> {
    let (namespace, name) = sub.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

fn bound_pod(kubernetes: &Kubernetes) -> Option<(&str, &str)> {
    let pod = kubernetes.pod.required()?;
    let (name, uid) = (pod.name.required()?, pod.uid.required()?);
    let uid_fits =
        (1..=64).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_dns_subdomain(name) && uid_fits).then_some((name, uid))
}

/// RFC 1123 label, as Kubernetes has it.
fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// RFC 1123 subdomain, as Kubernetes has it.
fn is_dns_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// CHECKS K7: names this use of this token, never by its signature (ECDSA signatures have twins).
fn evidence_use(principal: &KubernetesPrincipal, claims: &Claims, jws: &Jws<'_>, expiry: UnixTime) -> EvidenceUse {
    let signing_input;
    let (kind, id): (&[u8], &[u8]) = if let Claim::Is(jti) = &claims.jti {
        (b"jti", jti.as_bytes())
    } else {
        signing_input = sha256(jws.signing_input().as_bytes());
        (b"signing-input", &signing_input)
    };
    let named = [principal.mode.as_str().as_bytes(), principal.issuer.as_bytes(), kind, id].join(&0);
    EvidenceUse { digest: hex(&sha256(&named)), until: expiry.plus(REMEMBERED), reason: Reason::TokenReused }
}

fn claim_missing(check: Check, claim: &str, wanted: &str) -> Denial {
    Denial::evidence(check, Reason::ClaimsInvalid, format!("the token's claim `{claim}` must be {wanted}"))
}
