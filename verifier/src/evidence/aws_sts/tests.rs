//! One test per CHECKS number at least, each failing without its check; then hostile input and properties.

use proptest::prelude::*;
use protocol::{Mode, TraceOutcome, binding_value};

use super::headers::{FORM, JSON};
use super::*;
use crate::ports::HttpResponse;
use crate::ports::fakes::{Answer, FakeHttp, ready, response};

const SPKI: [u8; 32] = [7; 32];
const AUDIENCE: &str = "edge.example.com";
const NOW: &str = "20260921T141320Z";
const SIGNATURE: &str = "87f051da84f49dd0e13337492ee7fc9030f9aff66374d2ce17af4884a747119d";
const TOKEN: &str = "IQoJEXAMPLETOKEN";

/// A request under construction; [`Request::good`] passes.
#[derive(Clone, Debug)]
struct Request {
    region: String,
    headers: Vec<(String, String)>,
    body: String,
    settings: AwsStsSettings,
    audience: String,
    now: UnixTime,
}

impl Request {
    fn good() -> Self {
        let request = Self {
            region: "eu-west-1".into(),
            headers: Vec::new(),
            body: STS_BODY.into(),
            settings: AwsStsSettings {
                regions: vec!["eu-west-1".into(), "us-east-1".into()],
                ..AwsStsSettings::default()
            },
            audience: AUDIENCE.into(),
            now: UnixTime::from_amz_date(NOW).unwrap(),
        };
        request
            .with("Host", "sts.eu-west-1.amazonaws.com")
            .with("Content-Type", FORM)
            .with("X-Amz-Date", NOW)
            .with("X-Amz-Security-Token", TOKEN)
            .with("X-Rootpilot-Binding", &binding_value(AUDIENCE, &b64url(&SPKI)))
            .scope("20260921/eu-west-1/sts")
    }

    /// Replaces a header of this name, or adds one.
    fn with(mut self, name: &str, value: &str) -> Self {
        match self.headers.iter_mut().find(|(sent, _)| sent.eq_ignore_ascii_case(name)) {
            Some((_, old)) => value.clone_into(old),
            None => self.headers.push((name.into(), value.into())),
        }
        self
    }

    /// Adds a header whatever there is.
    fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(sent, _)| !sent.eq_ignore_ascii_case(name));
        self
    }

    /// Signs every header there is, under this day, region and service.
    fn scope(self, scope: &str) -> Self {
        let mut names: Vec<String> = self.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.retain(|name| name != "authorization");
        names.sort_unstable();
        self.signed(scope, &names.join(";"))
    }

    fn signed(self, scope: &str, names: &str) -> Self {
        let value = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}/aws4_request, SignedHeaders={names}, Signature={SIGNATURE}"
        );
        self.with("Authorization", &value)
    }

    fn settings(mut self, change: impl FnOnce(&mut AwsStsSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    fn check_traced(&self, trace: &mut Trace) -> Result<CheckedRequest, Denial> {
        let evidence = AwsStsEvidence {
            region: self.region.as_str().into(),
            headers: self.headers.iter().map(|(n, v)| (n.as_str().into(), v.as_str().into())).collect(),
            body: self.body.as_str().into(),
        };
        CheckedRequest::check(&evidence, &self.settings, &self.audience, &SPKI, self.now, trace)
    }

    fn check(&self) -> Result<CheckedRequest, Denial> {
        self.check_traced(&mut Trace::off())
    }

    #[track_caller]
    fn accepted(&self) -> CheckedRequest {
        self.check().unwrap()
    }

    #[track_caller]
    fn refused_any(&self) -> Denial {
        self.check().expect_err("accepted")
    }

    #[track_caller]
    fn refused(&self, check: Check, reason: Reason) -> Denial {
        let denial = self.refused_any();
        assert_eq!((denial.check, denial.reason, denial.code), (Some(check), Some(reason), Code::AttestationInvalid));
        assert!(denial.compared.is_some(), "nothing for the trace: {denial:?}");
        for secret in [SIGNATURE, TOKEN] {
            assert!(!format!("{denial:?}").contains(secret), "{denial:?}");
        }
        denial
    }
}

fn ok(arn: &str, user_id: &str) -> HttpResponse {
    let account = arn.split(':').nth(4).unwrap();
    let body = format!(
        r#"{{"GetCallerIdentityResponse":{{"GetCallerIdentityResult":{{"Account":"{account}","Arn":"{arn}","UserId":"{user_id}"}}}}}}"#
    );
    response(200, "application/json", body)
}

fn role() -> HttpResponse {
    ok("arn:aws:sts::123456789012:assumed-role/runner/i-0abc", "AROAEXAMPLE:i-0abc")
}

fn call(answers: impl IntoIterator<Item = Answer>) -> (Result<VerifiedIdentity, Denial>, Vec<HttpRequest>) {
    let http = FakeHttp::script(answers);
    let result = ready(Request::good().accepted().call(&http, &mut Trace::off()));
    (result, http.sent())
}

#[track_caller]
fn answer_refused(answer: HttpResponse, check: Check, reason: Reason) -> Denial {
    let denial = call([Ok(answer)]).0.unwrap_err();
    assert_eq!((denial.check, denial.reason), (Some(check), Some(reason)), "{denial:?}");
    denial
}

#[test]
fn s1_body_is_a_constant() {
    for body in [
        "",
        "Action=GetCallerIdentity&Version=2011-06-15 ",
        "Version=2011-06-15&Action=GetCallerIdentity",
        "Action=GetCallerIdentity&Version=2011-06-15&Action=GetSessionToken",
        "Action=GetCallerIdentity&Version=2011-06-15\0",
    ] {
        Request { body: body.into(), ..Request::good() }.refused(Check::S1, Reason::BodyNotAllowed);
    }
}

#[test]
fn s1_call_is_built_from_constants() {
    let checked = Request::good().accepted();
    assert_eq!(checked.region(), "eu-west-1");
    assert_eq!(checked.request.url, "https://sts.eu-west-1.amazonaws.com/");
    assert_eq!(checked.request.body, Some(STS_BODY));
    assert_eq!((checked.request.timeout_ms, checked.request.max_body), (10_000, 65_536));
    let names: Vec<&str> = checked.request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["authorization", "content-type", "accept", "x-amz-date", "x-amz-security-token", "x-rootpilot-binding"]
    );
}

#[test]
fn s2_region_is_in_the_policy_and_in_the_table() {
    let long = "a".repeat(300);
    for region in ["us-west-2", "evil.com?", "us-east-1@evil", "EU-WEST-1", "eu-west-1 ", "", "aws-global", &long] {
        let denial = Request { region: region.into(), ..Request::good() }.refused(Check::S2, Reason::RegionNotAllowed);
        assert!(denial.detail.contains("eu-west-1, us-east-1"), "{}", denial.detail);
    }
    for unknown in ["aws-global", "eu-west-99", "evil.com?"] {
        Request { region: unknown.into(), ..Request::good() }
            .settings(|settings| settings.regions.push(unknown.into()))
            .refused(Check::S2, Reason::RegionNotAllowed);
    }
    Request::good().settings(|settings| settings.regions.clear()).refused(Check::S2, Reason::RegionNotAllowed);
}

#[test]
fn s3_host_is_one_of_that_region() {
    for host in [
        "",
        "sts.amazonaws.com",
        "sts.us-east-1.amazonaws.com",
        "sts-fips.eu-west-1.amazonaws.com",
        "STS.eu-west-1.amazonaws.com",
        "sts.eu-west-1.amazonaws.com.",
        "sts.eu-west-1.amazonaws.com:443",
        "user@sts.eu-west-1.amazonaws.com",
        " sts.eu-west-1.amazonaws.com",
        "sts.eu-west-1.amazonaws.com\r\nx: y",
        "sts.eu-west-1.amazonaws.com\0",
    ] {
        let denial = Request::good().with("host", host).refused(Check::S3, Reason::HostNotAllowed);
        assert!(denial.detail.contains(&shown(host)), "{}", denial.detail);
        assert!(denial.detail.contains("allowed: sts.eu-west-1.amazonaws.com"), "{}", denial.detail);
    }
    Request::good().without("host").refused(Check::S3, Reason::HostNotAllowed);
}

#[test]
fn s3_fips_host_when_the_policy_says_so() {
    let fips =
        Request::good().with("host", "sts-fips.eu-west-1.amazonaws.com").settings(|settings| settings.fips = true);
    assert_eq!(fips.accepted().request.url, "https://sts-fips.eu-west-1.amazonaws.com/");
    assert!(Request::good().settings(|settings| settings.fips = true).check().is_ok());
}

#[test]
fn s3_endpoint_of_the_policy_takes_the_place_of_the_regions() {
    let local = |endpoint: &str| {
        let endpoint = endpoint.to_owned();
        Request::good().settings(move |settings| {
            settings.fips = true;
            settings.endpoints.push(("eu-west-1".into(), endpoint));
        })
    };
    let emulator = local("http://127.0.0.1:4566");
    assert_eq!(emulator.clone().with("host", "127.0.0.1:4566").accepted().request.url, "http://127.0.0.1:4566/");
    for host in ["127.0.0.1", "127.0.0.1:4567", "localhost:4566", "sts.eu-west-1.amazonaws.com"] {
        emulator.clone().with("host", host).refused(Check::S3, Reason::HostNotAllowed);
    }
    local("http://sts.evil.com").with("host", "sts.evil.com").refused(Check::S3, Reason::HostNotAllowed);
    // Another region's endpoint changes nothing here.
    let other = Request::good()
        .settings(|settings| settings.endpoints.push(("us-east-1".into(), "http://127.0.0.1:4566".into())));
    assert_eq!(other.accepted().request.url, "https://sts.eu-west-1.amazonaws.com/");
}

#[test]
fn s4_only_headers_of_the_list() {
    for name in [
        "cookie",
        "x-amz-expires",
        "accept-encoding",
        "range",
        "content-length",
        "user-agent",
        "x\0",
        "hoſt",
        "",
        "host ",
    ] {
        let denial = Request::good().and(name, "1").refused(Check::S4, Reason::HeaderNotAllowed);
        assert!(denial.detail.contains(&format!("`{}`", shown(name))), "{}", denial.detail);
    }
}

#[test]
fn s4_twins_by_case() {
    for (name, _) in Request::good().headers {
        let denial = Request::good().and(&name.to_uppercase(), "x").refused_any();
        assert_eq!(denial.reason, Some(Reason::DuplicateHeader), "{name}");
    }
}

#[test]
fn s4_values_are_visible_ascii() {
    for value in ["a\rb", "a\nb", "a\0b", "a\tb", "a\u{7f}b", "é", "１"] {
        Request::good().with("x-amz-security-token", value).refused(Check::S4, Reason::HeaderNotAllowed);
    }
}

#[test]
fn s4_values_that_are_fixed() {
    let hash = hex(&sha256(STS_BODY.as_bytes()));
    for (name, good, bad) in [
        (
            "content-type",
            &[
                FORM,
                "application/x-www-form-urlencoded; charset=utf-8",
                "application/x-www-form-urlencoded;charset=UTF-8",
            ][..],
            &["", JSON, "application/x-www-form-urlencoded; charset=utf-16", "application/x-www-form-urlencoded;"][..],
        ),
        ("accept", &[JSON], &["", "*/*", "text/xml", "application/json, text/xml", "Application/JSON"]),
        ("x-amz-content-sha256", &[&hash], &["", "UNSIGNED-PAYLOAD", &hash[1..], &hash.to_uppercase()]),
    ] {
        for value in good {
            let checked = Request::good().with(name, value).scope("20260921/eu-west-1/sts").accepted();
            assert!(checked.request.headers.contains(&(name.into(), (*value).into())), "{name}: {value}");
        }
        for value in bad {
            Request::good()
                .with(name, value)
                .scope("20260921/eu-west-1/sts")
                .refused(Check::S4, Reason::HeaderNotAllowed);
        }
    }
}

#[test]
fn s5_one_authorization() {
    Request::good().without("authorization").refused(Check::S5, Reason::AuthorizationInvalid);
    for value in ["", "Bearer x", "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256 Credential=a/b/c/d, SignedHeaders=host"] {
        Request::good().with("authorization", value).refused(Check::S5, Reason::AuthorizationInvalid);
    }
}

#[test]
fn s6_scope_is_sts_of_that_region_and_day() {
    Request::good().scope("20260921/eu-west-1/iam").refused(Check::S6, Reason::ScopeInvalid);
    Request::good().scope("20260920/eu-west-1/sts").refused(Check::S6, Reason::ScopeInvalid);
    let denial = Request::good().scope("20260921/us-east-1/sts").refused(Check::S6, Reason::RegionMismatch);
    assert!(denial.detail.contains("eu-west-1") && denial.detail.contains("us-east-1"), "{}", denial.detail);
}

#[test]
fn s7_what_must_be_signed_is() {
    const SCOPE: &str = "20260921/eu-west-1/sts";
    let all = ["host", "x-amz-date", "x-amz-security-token", "x-rootpilot-binding"];
    for left_out in all {
        let names = all.iter().filter(|name| **name != left_out).copied().collect::<Vec<_>>().join(";");
        let denial = Request::good().signed(SCOPE, &names).refused(Check::S7, Reason::HeaderNotSigned);
        assert!(denial.detail.contains(left_out), "{}", denial.detail);
    }
    // Sent or not, these two need no signature: the verifier sets them.
    assert!(Request::good().with("accept", JSON).signed(SCOPE, &all.join(";")).check().is_ok());
    // Any other header that is sent does.
    let hash = hex(&sha256(STS_BODY.as_bytes()));
    Request::good()
        .with("x-amz-content-sha256", &hash)
        .signed(SCOPE, &all.join(";"))
        .refused(Check::S7, Reason::HeaderNotSigned);
}

#[test]
fn s7_what_is_signed_was_sent() {
    for missing in ["x-amz-date", "x-rootpilot-binding", "x-amz-security-token", "content-type"] {
        let denial = Request::good().without(missing).refused(Check::S7, Reason::HeaderNotSigned);
        assert!(denial.detail.contains(missing), "{}", denial.detail);
    }
    for names in [
        "host;user-agent;x-amz-date;x-amz-security-token;x-rootpilot-binding",
        "host;x-amz-date;x-amz-security-token;x-amz-user-agent;x-rootpilot-binding",
    ] {
        Request::good().signed("20260921/eu-west-1/sts", names).refused(Check::S7, Reason::HeaderNotSigned);
    }
}

#[test]
fn s8_binding_names_this_audience_and_this_key() {
    let here = binding_value(AUDIENCE, &b64url(&SPKI));
    for value in [
        String::new(),
        binding_value("other.example.com", &b64url(&SPKI)),
        binding_value(AUDIENCE, &b64url(&[8; 32])),
        here.to_uppercase(),
        format!("{here} "),
        format!("{here}, {here}"),
        here.replace("v1;", "v2;"),
    ] {
        let denial = Request::good().with("x-rootpilot-binding", &value).refused(Check::S8, Reason::BindingMismatch);
        assert!(denial.detail.contains(&format!("`{value}`")) && denial.detail.contains(&here), "{}", denial.detail);
    }
}

/// CHECKS A4.
#[test]
fn s8_an_empty_audience_refuses_everything() {
    let value = binding_value("", &b64url(&SPKI));
    Request { audience: String::new(), ..Request::good().with("x-rootpilot-binding", &value) }
        .refused(Check::S8, Reason::BindingMismatch);
}

#[test]
fn s9_date_is_recent() {
    let request = Request::good();
    let signed = request.now;
    for (offset, accepted) in [(-301, false), (-300, true), (0, true), (900, true), (901, false)] {
        let at = Request { now: UnixTime::from_secs(signed.secs() + offset), ..request.clone() };
        assert_eq!(at.check().is_ok(), accepted, "{offset}");
        if !accepted {
            let denial = at.refused(Check::S9, Reason::DateOutOfRange);
            assert!(denial.detail.contains(&at.now.to_rfc3339()), "{}", denial.detail);
            let off = if offset < 0 { "301 s ahead of" } else { "901 s behind" };
            assert!(denial.detail.contains(off), "{}", denial.detail);
        }
    }
    for date in ["", "20260921", "20260921T1413Z", "2026-09-21T14:13:20Z", "20260921T141320", "20260921T246060Z"] {
        Request::good().with("x-amz-date", date).refused(Check::S9, Reason::DateOutOfRange);
    }
}

#[test]
fn s10_one_retry_on_connection_failure_only() {
    let (result, sent) = call([Err(HttpError::Connect), Ok(role())]);
    assert!(result.is_ok());
    assert!(matches!(sent.as_slice(), [first, second] if first == second));
    let (result, sent) = call([Err(HttpError::Connect), Err(HttpError::Connect)]);
    assert_eq!((result.unwrap_err().code, sent.len()), (Code::UpstreamUnavailable, 2));
    for error in [HttpError::Timeout, HttpError::Cut] {
        let (result, sent) = call([Err(error)]);
        let denial = result.unwrap_err();
        assert_eq!((denial.code, denial.reason, sent.len()), (Code::UpstreamUnavailable, None, 1));
        assert!(denial.retry_after.is_some());
    }
}

#[test]
fn s11_account_and_partition_are_those_of_the_endpoint() {
    let (check, reason) = (Check::S11, Reason::StsResponseInvalid);
    answer_refused(ok("arn:aws-cn:sts::123456789012:assumed-role/r/s", "AROA:s"), check, reason);
    let mut other_account = role();
    other_account.body =
        String::from_utf8(other_account.body).unwrap().replacen("123456789012", "999999999999", 1).into_bytes();
    answer_refused(other_account, check, reason);
    let mut no_account = role();
    no_account.body =
        String::from_utf8(no_account.body).unwrap().replacen("123456789012", "12345678901", 1).into_bytes();
    answer_refused(no_account, check, reason);
    answer_refused(ok("arn:aws:sts::１２３４５６７８９０１２:assumed-role/r/s", "AROA:s"), check, reason);
    answer_refused(response(200, "text/html", "<html/>"), check, reason);
    let untyped = HttpResponse { content_type: None, ..role() };
    answer_refused(untyped, check, reason);
}

#[test]
fn s12_only_roles_and_users() {
    for arn in ["arn:aws:iam::123456789012:root", "arn:aws:sts::123456789012:federated-user/bob"] {
        let denial = answer_refused(ok(arn, "AROA:s"), Check::S12, Reason::ArnUnsupported);
        assert!(denial.detail.contains(arn));
    }
}

#[test]
fn s13_identity_has_all_its_parts() {
    let identity = call([Ok(role())]).0.unwrap();
    assert_eq!(
        identity.principal(),
        &Principal::Aws(AwsPrincipal {
            partition: "aws".into(),
            account: "123456789012".into(),
            kind: PrincipalKind::Role,
            name: "runner".into(),
            session: Some("i-0abc".into()),
            unique_id: "AROAEXAMPLE".into(),
            user_id: "AROAEXAMPLE:i-0abc".into(),
        })
    );
    let user = call([Ok(ok("arn:aws:iam::123456789012:user/a/b/Alice", "AIDAEXAMPLE"))]).0.unwrap();
    let Principal::Aws(user) = user.principal() else { panic!("another principal") };
    assert_eq!((user.kind, user.name.as_str(), user.session.as_deref()), (PrincipalKind::User, "a/b/Alice", None));
    assert_eq!((user.unique_id.as_str(), user.user_id.as_str()), ("AIDAEXAMPLE", "AIDAEXAMPLE"));
}

#[test]
fn s13_user_id_fits_its_arn() {
    let (session, id) = (format!("AROAEXAMPLE:{}", "s".repeat(129)), "A".repeat(129));
    for (arn, user_id) in [
        ("arn:aws:sts::123456789012:assumed-role/r/s", ""),
        ("arn:aws:sts::123456789012:assumed-role/r/s", "AROAEXAMPLE"),
        ("arn:aws:sts::123456789012:assumed-role/r/s", ":s"),
        ("arn:aws:sts::123456789012:assumed-role/r/s", "AROAEXAMPLE:"),
        ("arn:aws:sts::123456789012:assumed-role/r/s", "ARO A:s"),
        ("arn:aws:sts::123456789012:assumed-role/r/s", "AROAEXAMPLE:s s"),
        ("arn:aws:sts::123456789012:assumed-role/r/s", &session),
        ("arn:aws:iam::123456789012:user/Alice", &id),
        ("arn:aws:iam::123456789012:user/Alice", "AIDAEXAMPLE:s"),
        ("arn:aws:iam::123456789012:user/Alice", ""),
    ] {
        answer_refused(ok(arn, user_id), Check::S13, Reason::StsResponseInvalid);
    }
}

#[test]
fn s14_status_decides_then_the_error_code() {
    let error = |code: &str| format!(r#"{{"Error":{{"Code":"{code}","Message":"secret text"}},"RequestId":"1"}}"#);
    for (status, body, code, reason, aws) in [
        (400, error("Throttling"), Code::UpstreamThrottled, None, None),
        (400, error("ThrottlingException"), Code::UpstreamThrottled, None, None),
        (429, String::new(), Code::UpstreamThrottled, None, None),
        (503, error("ServiceUnavailable"), Code::UpstreamThrottled, None, None),
        (500, error("InternalFailure"), Code::UpstreamUnavailable, None, None),
        (502, "<html>".into(), Code::UpstreamUnavailable, None, None),
        (403, error("ExpiredToken"), Code::AttestationInvalid, Some(Reason::StsRefused), Some("ExpiredToken")),
        (403, error("Bad<Code>"), Code::AttestationInvalid, Some(Reason::StsRefused), None),
        (404, "<html>".into(), Code::AttestationInvalid, Some(Reason::StsRefused), None),
        (301, String::new(), Code::AttestationInvalid, Some(Reason::StsResponseInvalid), None),
        (204, String::new(), Code::AttestationInvalid, Some(Reason::StsResponseInvalid), None),
        (200, String::new(), Code::AttestationInvalid, Some(Reason::StsResponseInvalid), None),
        (0, String::new(), Code::AttestationInvalid, Some(Reason::StsResponseInvalid), None),
    ] {
        let (result, sent) = call([Ok(response(status, "application/json", body))]);
        let denial = result.unwrap_err();
        assert_eq!((denial.code, denial.reason, denial.aws_error_code.as_deref()), (code, reason, aws), "{status}");
        assert_eq!(denial.retry_after.is_some(), code.retryable());
        assert_eq!(sent.len(), 1, "{status}: only a failed connection is tried again");
        assert!(!format!("{denial:?}").contains("secret text"));
    }
}

#[test]
fn evidence_is_remembered_by_its_signature() {
    let identity = call([Ok(role())]).0.unwrap();
    let expected = EvidenceUse {
        digest: hex(&sha256(format!("aws-sts\0{SIGNATURE}").as_bytes())),
        until: UnixTime::from_amz_date("20260921T143320Z").unwrap(),
        reason: Reason::TokenReused,
    };
    assert_eq!(identity.evidence(), &expected);
}

#[test]
fn limits_come_first() {
    let long = "x".repeat(limits::HEADER + 1);
    let mut many = Request::good();
    for n in 0..=limits::HEADERS {
        many = many.and(&format!("x-{n}"), "");
    }
    for request in [
        Request { body: String::new(), ..Request::good().with("accept", &long) },
        Request::good().and(&long, ""),
        Request::good().with("x-amz-security-token", &"x".repeat(limits::SECURITY_TOKEN + 1)),
        Request::good()
            .with("x-amz-security-token", &"x".repeat(limits::SECURITY_TOKEN))
            .and("a", &long[1..])
            .and("b", &long[1..]),
        many,
    ] {
        let denial = request.refused_any();
        assert_eq!((denial.code, denial.reason), (Code::MalformedRequest, None));
        assert!(denial.detail.len() < 200);
    }
    assert!(Request::good().with("x-amz-security-token", &"x".repeat(limits::SECURITY_TOKEN)).check().is_ok());
}

/// What is exactly as large as it may be is judged by what it says (PROTOCOL, Limits).
#[test]
fn limits_are_the_last_sizes_that_count() {
    let longest = "x".repeat(limits::HEADER);
    let mut many = Request::good();
    for n in many.headers.len()..limits::HEADERS {
        many = many.and(&format!("x-{n}"), "");
    }
    let mut largest = Request::good();
    let sizes = largest.headers.iter().map(|(name, value)| name.len() + value.len());
    let mut left = limits::HEADERS_TOTAL - sizes.sum::<usize>();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let value = &longest[..limits::HEADER.min(left - name.len())];
        left -= name.len() + value.len();
        largest = largest.and(name, value);
    }
    assert_eq!(left, 0);
    for request in [many, largest, Request::good().and(&longest, ""), Request::good().and("a", &longest)] {
        request.refused(Check::S4, Reason::HeaderNotAllowed);
    }
}

#[test]
fn a_mebibyte_anywhere_is_refused() {
    let huge = "A".repeat(1 << 20);
    for request in [
        Request { body: huge.clone(), ..Request::good() },
        Request { region: huge.clone(), ..Request::good() },
        Request { region: "\u{1F600}".repeat(1 << 18), ..Request::good() },
    ] {
        assert!(format!("{:?}", request.refused_any()).len() < 6_000);
    }
    for (name, _) in Request::good().headers {
        assert_eq!(Request::good().with(&name, &huge).refused_any().code, Code::MalformedRequest);
    }
}

#[test]
fn trace_names_every_check_and_no_secret() {
    let mut trace = Trace::on();
    let checked = Request::good().check_traced(&mut trace).unwrap();
    ready(checked.call(&FakeHttp::script([Ok(role())]), &mut trace)).unwrap();
    let entries = trace.finish(Mode::AwsSts, None);
    let passed: Vec<&str> =
        entries.iter().filter(|entry| entry.outcome == TraceOutcome::Pass).map(|entry| entry.check.as_str()).collect();
    assert_eq!(passed, ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13"]);
    let text = format!("{entries:?}");
    assert!(!text.contains(SIGNATURE) && !text.contains(TOKEN) && !text.contains("AKIDEXAMPLE"));
}

proptest! {
    /// Whatever is put in the place of one part, a call goes to a host of the table with the constant body, or there is none.
    #[test]
    fn any_part_is_decided(which in 0_usize..9, value in "\\PC{0,40}|[ -~]{0,60}|[0-9TZ]{0,20}") {
        let mut request = Request::good();
        match which {
            0 => request.region = value,
            1 => request.body = value,
            2 => request = request.and(&value, "x"),
            n => if let Some((_, old)) = request.headers.get_mut(n - 3) { *old = value },
        }
        if let Ok(checked) = request.check() {
            prop_assert_eq!(checked.request.url, "https://sts.eu-west-1.amazonaws.com/");
            prop_assert_eq!(checked.request.body, Some(STS_BODY));
        }
    }

    /// An identity is never anything but what the answer's ARN says.
    #[test]
    fn any_answer_is_decided(status in 0_u16..700, json: bool, body in "\\PC{0,80}") {
        let content_type = if json { "application/json" } else { "text/xml" };
        prop_assert!(call([Ok(response(status, content_type, body))]).0.is_err());
    }
}
