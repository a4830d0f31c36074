//! Every code and reason of the protocol has its words, class and remedy: one table of all of them, pinned.

use std::fmt::Write as _;

use protocol::Mode;

use super::*;
use crate::evidence::{Detail, aws_sts::StsFacts, bootstrap_token, kubernetes_oidc};

const NOW: &str = "2024-11-06T08:49:07Z";

fn facts(mode: Mode) -> Facts {
    let detail = match mode {
        Mode::BootstrapToken => Detail::BootstrapToken(bootstrap_token::TokenFacts {
            origin: "RUNNER_BOOTSTRAP_TOKEN".to_owned(),
            tenant_and_id: Some(("acme".to_owned(), "k3j5".to_owned())),
            oddity: None,
        }),
        Mode::AwsSts => Detail::AwsSts(StsFacts {
            region: "eu-west-1".to_owned(),
            host: "sts.eu-west-1.amazonaws.com".to_owned(),
            custom_endpoint: false,
            access_key_id: "ASIAEXAMPLE".to_owned(),
            source: "instance metadata".to_owned(),
            expires_at: None,
        }),
        Mode::GkeOidc | Mode::EksOidc => Detail::Kubernetes(kubernetes_oidc::TokenFacts {
            path: "/token".into(),
            claims: serde_json::from_str(
                r#"{"iss":"https://issuer","aud":"aud","exp":1730882947,"kubernetes.io":{"pod":{}}}"#,
            )
            .ok(),
        }),
        Mode::MtlsRenewal => Detail::MtlsRenewal,
    };
    Facts { mode, audience: "edge.example.com".to_owned(), made_at: NOW.parse().unwrap(), fingerprint: None, detail }
}

fn document(code: Code, reason: Option<Reason>) -> Problem {
    Problem {
        type_uri: "about:blank".to_owned(),
        title: code.title().to_owned(),
        status: code.status(),
        code,
        reason,
        detail: "DETAIL".to_owned(),
        request_id: "REQUEST".to_owned(),
        retryable: code.retryable(),
        server_time: "2024-11-06T08:49:08Z".to_owned(),
        aws_error_code: None,
        errors: None,
    }
}

fn explained(problem: &Problem, mode: Mode) -> Failure {
    let url = ControlPlaneUrl::parse("https://edge.example.com").unwrap();
    let facts = facts(mode);
    self::problem(problem, None, Context { url: &url, facts: &facts, now: NOW.parse().unwrap() })
}

/// Which modes can be refused for a reason.
fn modes(reason: Reason) -> &'static [Mode] {
    use Reason as R;
    match reason {
        R::BodyNotAllowed
        | R::RegionNotAllowed
        | R::HostNotAllowed
        | R::HeaderNotAllowed
        | R::DuplicateHeader
        | R::AuthorizationInvalid
        | R::ScopeInvalid
        | R::RegionMismatch
        | R::HeaderNotSigned
        | R::BindingMismatch
        | R::DateOutOfRange
        | R::StsRefused
        | R::StsResponseInvalid
        | R::ArnUnsupported => &[Mode::AwsSts],
        R::TokenReused => &[Mode::AwsSts, Mode::GkeOidc],
        R::IssuerUnknown => &[Mode::GkeOidc, Mode::EksOidc],
        R::BootstrapTokenRefused => &[Mode::BootstrapToken],
        R::CertificateInvalid | R::ProofInvalid => &[Mode::MtlsRenewal],
        _ => &[Mode::GkeOidc],
    }
}

#[test]
fn every_code_and_reason() {
    let mut table = String::new();
    let mut add = |name: String, failure: &Failure| {
        let Failure { class, remedy, message, hints, .. } = failure;
        writeln!(table, "{name} → {class:?}, {remedy:?}\n  {message}").unwrap();
        for hint in hints {
            writeln!(table, "  - {hint}").unwrap();
        }
    };
    for reason in Reason::ALL {
        for mode in modes(*reason) {
            let failure = explained(&document(Code::AttestationInvalid, Some(*reason)), *mode);
            add(format!("{reason} ({mode})"), &failure);
        }
    }
    for code in Code::ALL {
        for mode in [Mode::AwsSts, Mode::GkeOidc] {
            let failure = explained(&document(*code, None), mode);
            if mode == Mode::AwsSts || *code == Code::UpstreamUnavailable {
                add(format!("{code} ({mode})"), &failure);
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_two_lists_that_override() {
    let remedy = |code, reason, mode| explained(&document(code, reason), mode).remedy;
    let invalid = |reason, mode| remedy(Code::AttestationInvalid, Some(reason), mode);
    assert_eq!(remedy(Code::MustReattest, None, Mode::MtlsRenewal), Remedy::Attest);
    assert_eq!(remedy(Code::CertificateSuperseded, None, Mode::MtlsRenewal), Remedy::Attest);
    assert_eq!(invalid(Reason::CertificateInvalid, Mode::MtlsRenewal), Remedy::Attest);
    for reason in [Reason::TokenReused, Reason::TokenExpired, Reason::TokenNotYetValid] {
        assert_eq!(invalid(reason, Mode::EksOidc), Remedy::NewEvidence);
    }
    let mut refused = document(Code::AttestationInvalid, Some(Reason::StsRefused));
    assert_eq!(explained(&refused, Mode::AwsSts).remedy, Remedy::Person);
    refused.aws_error_code = Some("ExpiredToken".to_owned());
    assert_eq!(explained(&refused, Mode::AwsSts).remedy, Remedy::NewEvidence);
}

#[test]
fn a_clock_that_differs_is_told_with_any_refusal() {
    let mut problem = document(Code::AttestationInvalid, Some(Reason::StsRefused));
    problem.server_time = "2024-11-06T08:29:07Z".to_owned();
    let hints = explained(&problem, Mode::AwsSts).hints;
    assert!(hints.contains(&"the clock of this machine is 20 min fast".to_owned()), "{hints:?}");
}

#[test]
fn what_the_other_side_writes_cannot_forge_lines() {
    let mut problem = document(Code::IdentityNotMapped, None);
    problem.detail = "arn\nerror: forged\u{1b}[2J".to_owned();
    problem.request_id = "a\nb".to_owned();
    let failure = explained(&problem, Mode::AwsSts);
    let all = format!("{}{}", failure.message, failure.hints.concat());
    assert!(!all.contains(['\n', '\u{1b}']), "{all:?}");
}

#[test]
fn amounts_of_time() {
    let text = |seconds| amount(jiff::SignedDuration::from_secs(seconds));
    assert_eq!(text(45), "45 s");
    assert_eq!(text(-119), "1 min 59 s");
    assert_eq!(text(1199), "20 min");
    assert_eq!(text(7830), "2 h 11 min");
    assert_eq!(text(200_000), "2 d 7 h");
}
