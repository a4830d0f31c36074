//! Vectors of `tests/vectors/sts-responses` against CHECKS S10 to S14, through the real call with a fake client.

use std::borrow::Cow;

use protocol::Mode;
use protocol::{AwsStsEvidence, Code, binding_value};
use serde::Deserialize;
use verifier::appraisal::AwsStsSettings;
use verifier::encoding::b64url;
use verifier::evidence::aws_sts::CheckedRequest;
use verifier::evidence::{AwsPrincipal, Principal, VerifiedIdentity};
use verifier::ports::HttpError;
use verifier::ports::fakes::{Answer, FakeHttp, ready, response};
use verifier::trace::Trace;
use verifier::{Denial, UnixTime};

#[derive(Deserialize)]
struct Case {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    file: String,
    http_status: u16,
    content_type: String,
    account: Option<String>,
    canonical: Option<String>,
    session: Option<String>,
}

fn vectors() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/sts-responses/").to_owned()
}

/// A request that passes every check before the call.
fn checked(trace: &mut Trace) -> CheckedRequest {
    let spki = [7; 32];
    let headers = [
        ("host", "sts.eu-west-1.amazonaws.com".to_owned()),
        ("x-amz-date", "20260921T141320Z".to_owned()),
        ("x-rootpilot-binding", binding_value("edge.example.com", &b64url(&spki))),
        (
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260921/eu-west-1/sts/aws4_request, \
                 SignedHeaders=host;x-amz-date;x-rootpilot-binding, Signature={}",
                "0a".repeat(32)
            ),
        ),
    ];
    let evidence = AwsStsEvidence {
        region: Cow::Borrowed("eu-west-1"),
        headers: headers.iter().map(|(name, value)| (Cow::Borrowed(*name), Cow::Borrowed(value.as_str()))).collect(),
        body: Cow::Borrowed(protocol::STS_BODY),
    };
    let settings = AwsStsSettings { regions: vec!["eu-west-1".to_owned()], ..AwsStsSettings::default() };
    let now = UnixTime::from_amz_date("20260921T141320Z").unwrap();
    CheckedRequest::check(&evidence, &settings, "edge.example.com", &spki, now, trace).unwrap()
}

fn call(answers: impl IntoIterator<Item = Answer>) -> Result<VerifiedIdentity, Denial> {
    let mut trace = Trace::on();
    let request = checked(&mut trace);
    let result = ready(request.call(&FakeHttp::script(answers), &mut trace));
    if let Err(denial) = &result
        && denial.reason.is_some()
    {
        let told = trace.finish(Mode::AwsSts, Some(denial));
        assert_eq!(verifier::trace::fault(Mode::AwsSts, denial, &told), None);
    }
    result
}

fn aws(identity: &VerifiedIdentity) -> &AwsPrincipal {
    let Principal::Aws(principal) = identity.principal() else { panic!("another principal") };
    principal
}

#[test]
fn every_vector_holds() {
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(vectors() + "index.json").unwrap()).unwrap();
    assert!(cases.len() >= 40, "only {} vectors", cases.len());
    for case in cases {
        let id = &case.id;
        let body = std::fs::read(vectors() + &case.file).unwrap();
        let result = call([Ok(response(case.http_status, &case.content_type, body))]);
        match case.expect.as_str() {
            "accept" => {
                let identity = result.unwrap_or_else(|denial| panic!("{id}: {denial:?}"));
                let principal = aws(&identity);
                assert_eq!(principal.account, case.account.unwrap_or_else(|| "123456789012".into()), "{id}");
                if let Some(canonical) = case.canonical {
                    assert_eq!(identity.principal().identity(), canonical, "{id}");
                }
                if case.session.is_some() {
                    assert_eq!(principal.session, case.session, "{id}");
                }
            }
            "refuse" => {
                let denial = result.expect_err(id);
                assert_eq!(denial.code, Code::AttestationInvalid, "{id}");
                let reason = denial.reason.expect(id).as_str();
                assert!(case.reasons.iter().any(|allowed| allowed == reason), "{id}: {denial:?}");
            }
            "retry" => {
                let denial = result.expect_err(id);
                assert!(denial.code.retryable() && denial.retry_after.is_some(), "{id}: {denial:?}");
                assert!(case.reasons.iter().any(|allowed| allowed == denial.code.as_str()), "{id}: {denial:?}");
            }
            "either" => match pinned(id) {
                Ok(canonical) => {
                    let identity = result.unwrap_or_else(|denial| panic!("{id}: {denial:?}"));
                    assert_eq!(identity.principal().identity(), canonical, "{id}");
                }
                Err(reason) => {
                    assert_eq!(result.expect_err(id).reason.map(protocol::Reason::as_str), Some(reason), "{id}");
                }
            },
            other => panic!("{id}: no rule for {other}"),
        }
    }
}

/// The answer chosen where both are defensible. What is the same XML to a parser is taken; what AWS never sends is not.
fn pinned(id: &str) -> Result<&'static str, &'static str> {
    match id {
        "ok_cdata.xml" | "ok_bom.xml" => Ok("arn:aws:iam::123456789012:role/r"),
        "ok_entity_amp.xml" => Err("arn_unsupported"),
        "adv_arn_in_comment.xml" | "adv_arn_whitespace.xml" => Err("sts_response_invalid"),
        other => panic!("{other}: not pinned"),
    }
}

#[test]
fn a_cut_or_oversized_answer_is_told_apart() {
    for (error, code) in [
        (HttpError::Timeout, Code::UpstreamUnavailable),
        (HttpError::Cut, Code::UpstreamUnavailable),
        (HttpError::TooLarge { status: 500 }, Code::UpstreamUnavailable),
        (HttpError::TooLarge { status: 503 }, Code::UpstreamThrottled),
        (HttpError::TooLarge { status: 403 }, Code::AttestationInvalid),
        (HttpError::TooLarge { status: 200 }, Code::AttestationInvalid),
    ] {
        assert_eq!(call([Err(error)]).unwrap_err().code, code, "{error:?}");
    }
    let too_large = call([Err(HttpError::TooLarge { status: 200 })]).unwrap_err();
    assert!(too_large.detail.contains("larger than 64 KiB"), "{}", too_large.detail);
}
