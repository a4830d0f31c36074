//! One explanation for each code and reason of PROTOCOL.

use protocol::{Code, Mode, Problem, Reason};

use super::{Context, amount, direction, is_expired_token, skew};
use crate::evidence::{Detail, aws_sts::StsFacts, bootstrap_token, kubernetes_oidc};
use crate::output::one_line;

/// Message and hints, and whether the message already holds the control plane's detail.
pub struct Explained {
    pub message: String,
    pub hints: Vec<String>,
    pub quotes_detail: bool,
}

fn say(message: impl Into<String>) -> Explained {
    Explained { message: message.into(), hints: Vec::new(), quotes_detail: false }
}

impl Explained {
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn hint_opt(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Puts the control plane's words, which name both values, into the first sentence.
    fn quote(mut self, problem: &Problem) -> Self {
        if !problem.detail.is_empty() {
            self.message = format!("{}: {}", self.message, one_line(&problem.detail));
            self.quotes_detail = true;
        }
        self
    }
}

/// Explains by reason where there is one, else by code.
pub fn explain(problem: &Problem, context: Context<'_>) -> Explained {
    match (problem.reason, &context.facts.detail) {
        (Some(reason), Detail::AwsSts(facts)) => aws_sts(reason, problem, context, facts),
        (Some(reason), Detail::Kubernetes(facts)) => kubernetes(reason, problem, context, facts),
        (Some(reason), Detail::MtlsRenewal) => renewal(reason, problem, context),
        (Some(Reason::BootstrapTokenRefused), Detail::BootstrapToken(facts)) => bootstrap(facts),
        _ => by_code(problem, context),
    }
}

fn aws_sts(reason: Reason, problem: &Problem, context: Context<'_>, facts: &StsFacts) -> Explained {
    match reason {
        Reason::RegionNotAllowed => say(format!(
            "the AWS region {} is not allowed by the control plane; this is not a credential problem",
            facts.region
        ))
        .hint("set AWS_REGION to a region of its policy, or ask the operator to add this one to `regions`"),
        Reason::HostNotAllowed => {
            let chosen = if facts.custom_endpoint {
                "AWS_ENDPOINT_URL_STS (or AWS_ENDPOINT_URL, or the profile)"
            } else {
                "AWS_USE_FIPS_ENDPOINT or AWS_USE_DUALSTACK_ENDPOINT, or the region,"
            };
            say(format!(
                "the STS host that this runner signed for, {}, is not allowed by the control plane for {}",
                facts.host, facts.region
            ))
            .quote(problem)
            .hint(format!("{chosen} chose this host: unset it, or ask the operator to allow the host"))
        }
        Reason::BindingMismatch => audience(context, problem),
        Reason::DateOutOfRange => clock(problem, context),
        Reason::StsRefused => sts_refused(problem, facts),
        Reason::ArnUnsupported => say("AWS proved an identity of a kind that the control plane does not accept")
            .quote(problem)
            .hint("use a role or an IAM user: root and federated users are not accepted"),
        Reason::StsResponseInvalid => {
            say(format!("the control plane cannot read what the STS endpoint {} answered", facts.host))
                .hint("this is between the control plane and AWS: tell the operator")
        }
        Reason::TokenReused => say("this signed request was already used, and serves only once: a new one is needed")
            .hint("every attempt signs a new one: did someone else get hold of this one?"),
        Reason::RegionMismatch | Reason::ScopeInvalid => {
            say("the signed request does not fit its region").quote(problem)
        }
        _ => say(format!("the control plane does not accept the signed request ({reason})"))
            .quote(problem)
            .hint(VERSIONS),
    }
}

const VERSIONS: &str = "runner and control plane may be of different versions";

fn sts_refused(problem: &Problem, facts: &StsFacts) -> Explained {
    let key = one_line(&facts.access_key_id);
    let from = &facts.source;
    if is_expired_token(problem) {
        return say(format!("the AWS credentials have expired: renew them (access key {key}, from {from})"))
            .hint("on a laptop: aws sso login; elsewhere their source hands out new ones by itself, or is stuck");
    }
    match problem.aws_error_code.as_deref() {
        Some("InvalidClientTokenId") => say(format!(
            "AWS does not know the access key {key}: it was deleted or deactivated, or the region {} is not enabled for the account (opt-in region)",
            facts.region
        ))
        .hint(format!("the credentials came from {from}")),
        Some("SignatureDoesNotMatch") => say(format!(
            "AWS computes another signature: the secret access key does not belong to the access key {key}, or this machine's clock is wrong"
        ))
        .hint(format!("the credentials came from {from}")),
        Some("AccessDenied" | "AccessDeniedException") => say(format!(
            "AWS denies sts:GetCallerIdentity to the access key {key}"
        ))
        .hint("a service control policy, or the policy of a VPC endpoint, forbids it"),
        Some(code) => say(format!("AWS STS refused the request of the access key {key} with {}", one_line(code)))
            .hint(format!("the credentials came from {from}")),
        None => say(format!("AWS STS refused the request of the access key {key}"))
            .hint(format!("the credentials came from {from}; `aws sts get-caller-identity` should fail in the same way")),
    }
}

fn kubernetes(
    reason: Reason,
    problem: &Problem,
    context: Context<'_>,
    facts: &kubernetes_oidc::TokenFacts,
) -> Explained {
    let path = facts.path.display();
    let claims = facts.claims.clone().unwrap_or_default();
    let issuer = claims.iss.as_deref().map_or_else(|| "unknown".to_owned(), one_line);
    match reason {
        Reason::TokenExpired => {
            let end = claims.expires_at().map(|end| format!(" at {end:.0}")).unwrap_or_default();
            say(format!("the projected token at {path} expired{end} and the kubelet has not rotated it"))
                .hint("look at the pod's volume and the kubelet's log; a token that was copied into place is never rotated")
        }
        Reason::TokenNotYetValid => say(format!("the projected token at {path} is not valid yet: the clocks of the cluster and the control plane differ"))
            .quote(problem),
        Reason::TokenReused => say(format!("the projected token at {path} was already used by another key: a new token is needed"))
            .hint("one token serves one key: do not share the volume between runners; the kubelet rotates the token by itself, deleting the pod does it at once"),
        Reason::AudienceMismatch => say(format!(
            "the projected token at {path} is for the audience {}, not for the control plane's",
            claims.aud
        ))
        .quote(problem)
        .hint("set `audience` of the serviceAccountToken volume to the audience of the control plane's policy"),
        Reason::TokenLifetime => say(format!("the projected token at {path} lives longer than the control plane's policy allows"))
            .quote(problem)
            .hint("lower `expirationSeconds` of the serviceAccountToken volume, or ask the operator for a larger `max_token_lifetime`"),
        Reason::ClaimsInvalid if facts.claims.is_some() && !claims.is_bound_to_pod() => say(format!(
            "the token at {path} is not bound to a pod: a projected token is needed"
        ))
        .hint("tokens of `kubectl create token` and of service account secrets name no pod; mount a serviceAccountToken volume"),
        Reason::ClaimsInvalid => say(format!("a claim of the token at {path} is missing or wrong")).quote(problem),
        Reason::IssuerUnknown => say(format!("the control plane does not know the cluster that issued the token ({issuer})"))
            .hint("ask the operator for a rule that names this cluster"),
        Reason::KeyUnknown => say(format!("the cluster {issuer} publishes no key that signed the token at {path}"))
            .hint("is the token of another cluster, or was it issued before the cluster's keys were rotated?"),
        Reason::SignatureInvalid => say(format!("the signature of the token at {path} is not the cluster's ({issuer})")),
        Reason::TokenMalformed => say(format!("the file {path} does not hold a ServiceAccount token")).quote(problem),
        _ => say(format!("the control plane does not accept the token at {path} ({reason})")).quote(problem),
    }
    .hint_opt(facts.claims.is_none().then(|| "what is in the file is not a JWT".to_owned()))
    .hint_opt((reason == Reason::IssuerUnknown && context.facts.mode == Mode::EksOidc).then(|| {
        "on EKS, RUNNER_ATTESTATION_MODE=aws-sts needs no such rule".to_owned()
    }))
}

fn renewal(reason: Reason, problem: &Problem, context: Context<'_>) -> Explained {
    match reason {
        Reason::CertificateInvalid => {
            say("the control plane no longer accepts this runner's certificate: attesting again").quote(problem)
        }
        Reason::ProofInvalid => {
            let far = skew(problem, context.now).filter(|skew| skew.abs().as_secs() >= 240);
            match far {
                Some(_) => clock(problem, context),
                None => audience(context, problem),
            }
        }
        _ => say(format!("the control plane refuses the renewal ({reason})")).quote(problem),
    }
}

fn bootstrap(facts: &bootstrap_token::TokenFacts) -> Explained {
    let which = facts
        .tenant_and_id
        .as_ref()
        .map(|(tenant, id)| format!(" {} of tenant {}", one_line(id), one_line(tenant)))
        .unwrap_or_default();
    say("the control plane refuses the bootstrap token: check it, or have the operator mint a new one")
        .hint(format!("token{which} from {}: it may be mistyped, expired, used up or revoked; the control plane does not say which, its audit log does", facts.origin))
        .hint_opt(facts.oddity.as_ref().map(|oddity| format!("looked at from here, {oddity}")))
        .hint("edgectl token mint <tenant>")
}

fn audience(context: Context<'_>, problem: &Problem) -> Explained {
    say(format!("the audience of this runner, {}, is not the control plane's", context.facts.audience))
        .quote(problem)
        .hint("set RUNNER_AUDIENCE to the `audience` of the control plane's policy; by default it is the host name of RUNNER_CONTROL_PLANE_URL")
}

fn clock(problem: &Problem, context: Context<'_>) -> Explained {
    let made = context.facts.made_at;
    let Some(skew) = skew(problem, made) else {
        return say("the clock of this machine is wrong").quote(problem);
    };
    say(format!(
        "the clock of this machine is {} {} (this machine {made:.0}, control plane {})",
        amount(skew),
        direction(skew),
        one_line(&problem.server_time)
    ))
    .hint("set the clock, or turn time synchronisation on (timedatectl set-ntp true, chronyc makestep)")
}

fn by_code(problem: &Problem, context: Context<'_>) -> Explained {
    match problem.code {
        Code::IdentityNotMapped => say(
            "the identity is proven, but no rule of the control plane maps it to a tenant; ask the operator to map it",
        )
        .quote(problem)
        .hint("it takes a rule for this identity in the policy: edgectl policy apply"),
        Code::RunnerBanned => {
            say("this runner is banned: ask the operator").hint("edgectl runner show and edgectl audit tell why")
        }
        Code::IdentityInUse => say("another key is active for this instance, and the policy allows one").hint(
            "is a second runner at work here, or was the state directory lost? The operator can evict the old one",
        ),
        Code::MustReattest => say("the control plane wants a full attestation again"),
        Code::CertificateSuperseded => say("this certificate was replaced and the replacement used: attesting again"),
        Code::MalformedRequest | Code::CsrInvalid => {
            let oddity = match &context.facts.detail {
                Detail::BootstrapToken(facts) => facts.oddity.clone(),
                _ => None,
            };
            match oddity {
                Some(oddity) => {
                    say("the control plane refuses the bootstrap token: check it, or have the operator mint a new one")
                        .hint(format!("looked at from here, {oddity}"))
                }
                None => say(format!("the control plane does not accept the form of the request ({})", problem.code))
                    .quote(problem)
                    .hint(VERSIONS),
            }
        }
        Code::RateLimited => {
            say("the control plane limits how often this address may ask; this is not a refusal of the evidence")
        }
        Code::UpstreamThrottled => {
            say("AWS is throttling the control plane's STS calls; the credentials are not at fault, it is tried again")
        }
        Code::UpstreamUnavailable => match context.facts.mode {
            Mode::AwsSts => {
                say("the control plane cannot reach AWS STS at the moment; the credentials are not at fault")
            }
            Mode::GkeOidc | Mode::EksOidc => say(
                "the control plane cannot get the cluster's keys (JWKS) at the moment: keys unavailable; the token is not at fault",
            ),
            _ => say("a service that the control plane depends on is not available"),
        },
        Code::NotConfigured => say("the control plane is not configured yet: its operator has to finish setting it up"),
        Code::Internal => say("the control plane failed inside").hint("tell the operator the request id"),
        Code::NotFound | Code::MethodNotAllowed => {
            say(format!("the control plane at {} does not know this route", context.url))
                .hint("check the path of RUNNER_CONTROL_PLANE_URL")
                .hint(VERSIONS)
        }
        _ => say(format!("the control plane refuses ({})", problem.code)).quote(problem),
    }
}
