//! `docs/errors.md` is written by this test: it fails when page and code differ, and `UPDATE_DOCS=1` writes the page anew.

use std::fmt::Write as _;
use std::path::Path;

use protocol::{Code, Reason};

const HEAD: &str = "\
<!-- Written by protocol/tests/errors_doc.rs from protocol/src/catalogue.rs. Change the texts there, then: UPDATE_DOCS=1 cargo test -p protocol -->

# Errors

Every call that fails is answered with `application/problem+json` (RFC 9457):

| field | what |
|---|---|
| `type` | `urn:rootpilot:problem:<code>`, and `:<reason>` behind it where there is one |
| `title`, `status` | the same for every problem of a code |
| `code` | what kind of failure: the first list below |
| `reason` | which check refused the evidence: the second list; null elsewhere |
| `detail` | what was wrong with this very call, for a person; both values where two were compared; never a secret |
| `request_id` | also in the header `x-request-id`, in the audit log and in the verifier's own log |
| `retryable` | true when the same call may succeed later; `Retry-After` says when |
| `server_time` | the verifier's clock |
| `aws_error_code` | code of AWS STS, when it is STS that said no |
| `errors` | every problem of a refused policy |

429 and 503 mean that the sender has to wait and nothing else; every other 4xx means that something has to change first. A verifier that
cannot decide never answers with a refusal.

";

struct Group {
    title: &'static str,
    intro: &'static str,
    codes: &'static [Code],
}

const GROUPS: &[Group] = &[
    Group {
        title: "Evidence and certificates",
        intro: "What a runner meets on `/v1/enroll` and `/v1/renew`, and as `code` in the answer of `/v1/verify`.",
        codes: &[
            Code::MalformedRequest,
            Code::CsrInvalid,
            Code::AttestationInvalid,
            Code::IdentityNotMapped,
            Code::RunnerBanned,
            Code::MustReattest,
            Code::CertificateSuperseded,
            Code::IdentityInUse,
        ],
    },
    Group {
        title: "Not now",
        intro: "Nothing was decided. All but the last carry `Retry-After`.",
        codes: &[
            Code::RateLimited,
            Code::UpstreamUnavailable,
            Code::UpstreamThrottled,
            Code::NotConfigured,
            Code::Internal,
        ],
    },
    Group {
        title: "Operators and other callers",
        intro: "Admin and service routes, and calls that no route takes.",
        codes: &[
            Code::Unauthorized,
            Code::Forbidden,
            Code::NotFound,
            Code::MethodNotAllowed,
            Code::EtagMismatch,
            Code::EtagRequired,
            Code::PolicyInvalid,
            Code::PayloadTooLarge,
            Code::UnsupportedMediaType,
        ],
    },
];

const REASONS: &[(&str, &[Reason])] = &[
    (
        "aws-sts",
        &[
            Reason::BodyNotAllowed,
            Reason::RegionNotAllowed,
            Reason::HostNotAllowed,
            Reason::HeaderNotAllowed,
            Reason::DuplicateHeader,
            Reason::AuthorizationInvalid,
            Reason::ScopeInvalid,
            Reason::RegionMismatch,
            Reason::HeaderNotSigned,
            Reason::BindingMismatch,
            Reason::DateOutOfRange,
            Reason::StsRefused,
            Reason::StsResponseInvalid,
            Reason::ArnUnsupported,
        ],
    ),
    (
        "gke-oidc and eks-oidc",
        &[
            Reason::TokenMalformed,
            Reason::AlgNotAllowed,
            Reason::IssuerUnknown,
            Reason::KeyUnknown,
            Reason::SignatureInvalid,
            Reason::AudienceMismatch,
            Reason::TokenExpired,
            Reason::TokenNotYetValid,
            Reason::TokenLifetime,
            Reason::ClaimsInvalid,
        ],
    ),
    ("aws-sts, gke-oidc and eks-oidc: used evidence", &[Reason::TokenReused]),
    ("bootstrap-token", &[Reason::BootstrapTokenRefused]),
    ("mtls-renewal", &[Reason::CertificateInvalid, Reason::ProofInvalid]),
];

fn entry(page: &mut String, heading: &str, meaning: &str, remedy: &str) {
    writeln!(page, "{heading}\n\n{meaning}\n\n*What to do:* {remedy}\n").unwrap();
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Codes\n\n| code | status | again later |\n|---|---|---|\n");
    for code in GROUPS.iter().flat_map(|group| group.codes) {
        let again = if code.retryable() { "yes" } else { "no" };
        writeln!(page, "| [`{code}`](#{code}) | {} | {again} |", code.status()).unwrap();
    }
    page.push('\n');
    for group in GROUPS {
        writeln!(page, "## {}\n\n{}\n", group.title, group.intro).unwrap();
        for code in group.codes {
            entry(&mut page, &format!("### {code}"), code.meaning(), code.remedy());
        }
    }
    page.push_str("## Reasons of attestation_invalid\n\nIn the order in which the checks are made; the first that fails is the answer. ");
    page.push_str("The number names the check in code, tests and decision traces.\n\n");
    for (title, reasons) in REASONS {
        writeln!(page, "### {title}\n").unwrap();
        for reason in *reasons {
            let meaning = format!("{} (check {})", reason.meaning(), reason.checks());
            entry(&mut page, &format!("#### {reason}"), &meaning, reason.remedy());
        }
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

#[test]
fn every_code_and_reason_is_on_the_page_once() {
    let mut codes: Vec<Code> = GROUPS.iter().flat_map(|group| group.codes).copied().collect();
    codes.sort();
    assert_eq!(codes, Code::ALL);
    let mut reasons: Vec<Reason> = REASONS.iter().flat_map(|(_, reasons)| *reasons).copied().collect();
    reasons.sort();
    assert_eq!(reasons, Reason::ALL);
}

#[test]
fn the_page_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "run UPDATE_DOCS=1 cargo test -p protocol and commit docs/errors.md");
}

#[test]
fn every_text_is_a_sentence_or_more() {
    let codes = Code::ALL.iter().flat_map(|code| [code.meaning(), code.remedy()]);
    let reasons = Reason::ALL.iter().flat_map(|reason| [reason.meaning(), reason.remedy()]);
    for text in codes.chain(reasons) {
        assert!(text.ends_with(['.', '?']) && text.len() > 12 && !text.contains("  "), "{text}");
    }
}
