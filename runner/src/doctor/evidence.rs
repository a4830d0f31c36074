//! What the mode needs, and how the control plane would judge it as far as that can be known without enrolling.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use protocol::{EnrollRequest, Reason};

use super::Check;
use crate::config::{Config, Method, TokenOrigin};
use crate::control_plane::{CallError, ControlPlane, Route};
use crate::evidence::{self, Binding, Detail, Evidence, Facts, aws_sts::StsFacts, kubernetes_oidc};
use crate::explain::{self, Context};
use crate::identity_store;
use crate::key::{Key, KeyError};
use crate::output::one_line;

/// The rehearsal's age: outside what the verifier takes, so that nothing but the date is wrong with it.
const REHEARSAL_AGE: SignedDuration = SignedDuration::from_hours(1);

/// A method in a few words.
pub fn describe(method: &Method) -> String {
    match method {
        Method::BootstrapToken(TokenOrigin::Variable(_)) => "bootstrap-token, from RUNNER_BOOTSTRAP_TOKEN".to_owned(),
        Method::BootstrapToken(TokenOrigin::File(path)) => format!("bootstrap-token, from {}", path.display()),
        Method::AwsSts { region } => format!("aws-sts in {region}"),
        Method::Kubernetes { platform, path } => format!("{}, from {}", platform.mode(), path.display()),
    }
}

/// Gathers evidence and looks at it; for `aws-sts` also with the control plane's eyes.
pub async fn examine(config: &Config, control_plane: Option<&ControlPlane>, checks: &mut Vec<Check>) {
    match gather(config, Timestamp::now()).await {
        Err(check) => checks.push(*check),
        Ok((_, evidence)) => {
            let facts = &evidence.facts;
            match &facts.detail {
                Detail::BootstrapToken(token) => checks.push(match &token.oddity {
                    None => Check::ok("evidence", format!("the token from {} has the documented form", token.origin)),
                    Some(oddity) => Check::warn("evidence", format!("the token from {}: {oddity}", token.origin))
                        .hint("compare it with what the operator minted"),
                }),
                Detail::Kubernetes(token) => kubernetes(token, facts, checks),
                Detail::AwsSts(sts) => {
                    checks.push(aws(sts));
                    match control_plane {
                        Some(control_plane) => rehearse(config, control_plane, checks).await,
                        None => checks.push(Check::skipped("region", "only the control plane knows its regions")),
                    }
                }
                Detail::MtlsRenewal => {}
            }
        }
    }
}

/// Evidence as `enroll` would make it, for the present key or one that is thrown away.
async fn gather(config: &Config, now: Timestamp) -> Result<(String, Evidence), Box<Check>> {
    let fail = |failure| Box::new(Check::fail("evidence", failure));
    let no_key = |error: KeyError| fail(crate::failure::Failure::configuration(error.to_string()));
    let state = identity_store::read_for(&config.state_dir, config.control_plane.as_str(), config.method.mode());
    let state = state.unwrap_or_default();
    let key = state.key.or(state.pending).map_or_else(Key::generate, Ok).map_err(no_key)?;
    let csr = key.csr().map_err(no_key)?;
    let binding = Binding { audience: &config.audience, key: &key, csr: &csr, now };
    let evidence = evidence::source(config).collect(binding).await.map_err(fail)?;
    Ok((csr.pem, evidence))
}

fn aws(facts: &StsFacts) -> Check {
    let until = facts.expires_at.map(|end| format!(", until {end:.0}")).unwrap_or_default();
    let message = format!(
        "access key {}, from {}{until}, signed for {}",
        one_line(&facts.access_key_id),
        facts.source,
        facts.host
    );
    match facts.expires_at {
        Some(end) if end.duration_since(Timestamp::now()) < SignedDuration::from_mins(5) => {
            Check::warn("evidence", message).hint("the credentials end soon: are they renewed by themselves?")
        }
        _ => Check::ok("evidence", message),
    }
}

fn kubernetes(token: &kubernetes_oidc::TokenFacts, facts: &Facts, checks: &mut Vec<Check>) {
    let Some(claims) = &token.claims else {
        return checks.push(
            Check::warn("evidence", format!("{} does not hold a JWT", token.path.display()))
                .hint("is it the file of a serviceAccountToken projection?"),
        );
    };
    let end = claims.expires_at().map_or_else(|| "without an end".to_owned(), |end| format!("until {end:.0}"));
    let issuer = claims.iss.as_deref().map_or_else(|| "no issuer".to_owned(), one_line);
    let subject = claims.sub.as_deref().map_or_else(|| "no subject".to_owned(), one_line);
    checks.push(if claims.is_bound_to_pod() {
        Check::ok("evidence", format!("{subject} of {issuer}, {end}"))
    } else {
        Check::warn("evidence", format!("the token is not bound to a pod ({subject} of {issuer}, {end})"))
            .hint("a projected token is needed: tokens of `kubectl create token` name no pod and are refused")
    });
    checks.push(if claims.aud.all().contains(&facts.audience.as_str()) {
        Check::ok("audience", format!("the token is for {}", facts.audience))
    } else {
        Check::warn("audience", format!("the token is for {}, this runner names {}", claims.aud, facts.audience))
            .hint("set `audience` of the serviceAccountToken volume, or RUNNER_AUDIENCE, to the audience of the control plane's policy")
    });
}

/// Sends evidence that is refused for its date at the latest.
async fn rehearse(config: &Config, control_plane: &ControlPlane, checks: &mut Vec<Check>) {
    let Ok((csr, Evidence { attestation, facts })) = gather(config, Timestamp::now() - REHEARSAL_AGE).await else {
        return;
    };
    let request = EnrollRequest { csr: Cow::Owned(csr), attestation };
    let Err(error) = control_plane.request(Route::Enroll, &request).await else {
        return checks.push(Check::warn("rehearsal", "the control plane took evidence that is an hour old"));
    };
    let reason = match &error {
        CallError::Problem { problem, .. } => problem.reason,
        _ => None,
    };
    let context = Context { url: control_plane.url(), facts: &facts, now: Timestamp::now() };
    let explained = || explain::call(&error, context);
    let (Detail::AwsSts(sts), audience) = (&facts.detail, &facts.audience) else { return };
    let region = format!("{} is allowed", sts.region);
    let host = format!("{} is allowed", sts.host);
    match reason {
        Some(Reason::RegionNotAllowed) => checks.push(Check::fail("region", explained())),
        Some(Reason::HostNotAllowed) => {
            checks.push(Check::ok("region", region));
            checks.push(Check::fail("sts host", explained()));
        }
        Some(Reason::BindingMismatch) => {
            checks.push(Check::ok("region", region));
            checks.push(Check::ok("sts host", host));
            checks.push(Check::fail("audience", explained()));
        }
        Some(Reason::DateOutOfRange) => {
            checks.push(Check::ok("region", region));
            checks.push(Check::ok("sts host", host));
            checks.push(Check::ok("audience", format!("{audience} is the control plane's")));
        }
        _ => checks.push(Check::fail("rehearsal", explained())),
    }
}
