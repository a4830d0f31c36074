//! `aws-sts` against an STS that misbehaves in every way: what is sent, what is answered, and that the next good request is served
//! (CHECKS S10 to S14).

use std::time::{Duration, Instant};

use edge_tests::emulators::sts::CredentialOrder;
use edge_tests::emulators::{Credentials, Fault, FaultPlan};
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, Answer, Key, REGION, Stack, evidence};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form, assert_retryable, cases, vector};

static STACK: Shared = Shared::new("aws-sts");

fn credentials(stack: &Stack) -> Credentials {
    stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc")
}

/// A good request of a new key.
fn enroll(stack: &Stack, credentials: &Credentials) -> Answer {
    let key = Key::generate();
    stack.enroll(&key, &stack.sts_request(credentials, &key).evidence())
}

#[test]
fn what_is_sent_is_the_signed_request_and_nothing_else() {
    let stack = STACK.lock();
    let (key, credentials) = (Key::generate(), credentials(&stack));
    let signed = stack.sts_request(&credentials, &key);
    let headers = signed.signed();
    stack.enroll(&key, &signed.evidence()).assert_status(200);
    let [sent]: [_; 1] = stack.sts.requests().try_into().unwrap();
    assert_eq!((sent.method.as_str(), sent.path.as_str(), sent.query.as_str()), ("POST", "/", ""));
    assert_eq!(sent.body, evidence::STS_BODY);
    for (name, value) in &headers {
        assert_eq!(sent.header(name).as_deref(), Some(value.as_str()), "{name}");
    }
    assert_eq!(sent.header("accept").as_deref(), Some("application/json"));
    assert_eq!(sent.header("content-length").as_deref(), Some(evidence::STS_BODY.len().to_string().as_str()));
    // What the platform adds on its own besides.
    let known = ["accept", "accept-encoding", "cf-worker", "connection", "content-length", "user-agent"];
    for (name, _) in &sent.headers {
        assert!(headers.iter().any(|(signed, _)| signed == name) || known.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn content_type_and_accept_are_set_where_they_were_not_sent() {
    let stack = STACK.lock();
    let (key, credentials) = (Key::generate(), credentials(&stack));
    let bare = stack.sts_request(&credentials, &key).without("content-type");
    stack.enroll(&key, &bare.evidence()).assert_status(200);
    let rich = stack.sts_request(&credentials, &key).header("accept", "application/json").aged(3);
    let hash = "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843";
    stack.enroll(&key, &rich.header("x-amz-content-sha256", hash).evidence()).assert_status(200);
    for request in stack.sts.requests() {
        assert!(request.header("content-type").unwrap().starts_with("application/x-www-form-urlencoded"));
        assert_eq!(request.header("accept").as_deref(), Some("application/json"));
    }
}

#[test]
fn refused_before_the_call_means_no_call() {
    let stack = STACK.lock();
    let (key, credentials) = (Key::generate(), credentials(&stack));
    let request = || stack.sts_request(&credentials, &key);
    let mut two_cases = request().evidence();
    two_cases["headers"]["Host"] = two_cases["headers"]["host"].clone();
    let mut other_region = request().evidence();
    other_region["region"] = json!("us-east-1");
    let mut unsigned = request().evidence();
    unsigned["headers"]["x-amz-security-token"] = json!("another");
    unsigned["headers"]["x-amz-content-sha256"] = json!("0".repeat(64));
    let mut split = request().evidence();
    let twice = format!("{0}, {0}", split["headers"]["authorization"].as_str().unwrap());
    split["headers"]["authorization"] = json!(twice);
    for (reason, attestation) in [
        ("duplicate_header", two_cases),
        ("region_mismatch", other_region),
        ("header_not_allowed", unsigned),
        ("authorization_invalid", split),
        ("header_not_allowed", request().header("x-amz-target", "x").evidence()),
        ("header_not_allowed", request().header("content-type", "application/json").evidence()),
        ("binding_mismatch", request().without("x-rootpilot-binding").header("x-rootpilot-binding", "v1;;").evidence()),
        ("header_not_signed", request().without("x-rootpilot-binding").evidence()),
        ("date_out_of_range", request().aged(901).evidence()),
        ("date_out_of_range", request().aged(-310).evidence()),
    ] {
        let answer = stack.enroll(&key, &attestation);
        answer.assert_problem(401, "attestation_invalid", reason);
        assert_problem_form(&answer);
    }
    assert_eq!(stack.sts.request_count(), 0);
    stack.enroll(&key, &request().aged(880).evidence()).assert_status(200);
}

#[test]
fn details_name_both_values_of_a_mismatch() {
    let stack = STACK.lock();
    let (key, credentials) = (Key::generate(), credentials(&stack));
    let other = evidence::StsRequest::new(&credentials, REGION, &stack.sts.url(), "other.example.com", &key);
    let detail = stack.enroll(&key, &other.evidence()).json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("other.example.com") && detail.contains("edge.example.com"), "{detail}");
    let mut elsewhere = stack.sts_request(&credentials, &key).evidence();
    elsewhere["region"] = json!("us-east-1");
    let detail = stack.enroll(&key, &elsewhere).json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("us-east-1") && detail.contains(REGION), "{detail}");
}

#[test]
fn principals_that_are_no_role_or_user_are_not_supported() {
    let stack = STACK.lock();
    for order in [
        CredentialOrder::Root { account: ACME_ACCOUNT.to_owned() },
        CredentialOrder::FederatedUser { account: ACME_ACCOUNT.to_owned(), name: "bob".to_owned() },
    ] {
        let credentials = stack.sts.order(order).unwrap().unwrap();
        enroll(&stack, &credentials).assert_problem(401, "attestation_invalid", "arn_unsupported");
    }
}

#[test]
fn what_sts_refuses_is_refused_with_its_code_and_never_its_message() {
    let stack = STACK.lock();
    let good = credentials(&stack);
    let (expired, deleted) = (credentials(&stack), credentials(&stack));
    assert!(stack.sts.expire(&expired.access_key_id) && stack.sts.delete(&deleted.access_key_id));
    let wrong = Credentials { secret_access_key: "x".repeat(40), ..good.clone() };
    for (credentials, code) in
        [(&expired, "ExpiredToken"), (&deleted, "InvalidClientTokenId"), (&wrong, "SignatureDoesNotMatch")]
    {
        let answer = enroll(&stack, credentials);
        answer.assert_problem(401, "attestation_invalid", "sts_refused");
        assert_eq!(answer.json()["aws_error_code"], code);
    }
    let message = "The security token <script>";
    for (status, code, shown) in [
        (403, "AccessDenied", json!("AccessDenied")),
        (400, "RegionDisabledException", json!("RegionDisabledException")),
        (403, "Not A Code!", Value::Null),
        (404, "x", json!("x")),
    ] {
        stack.sts.set_fault(Fault::Error { status, code: code.to_owned(), message: message.to_owned() });
        let answer = enroll(&stack, &good);
        answer.assert_problem(401, "attestation_invalid", "sts_refused");
        assert_eq!(answer.json()["aws_error_code"], shown);
        assert!(!answer.text().contains("script"), "{}", answer.text());
    }
    assert!(!stack.log_text().contains("script"));
    stack.sts.clear_faults();
    enroll(&stack, &good).assert_status(200);
}

#[test]
fn an_sts_that_fails_is_never_reported_as_a_refusal() {
    let stack = STACK.lock();
    let credentials = credentials(&stack);
    let error = |status, code: &str| Fault::Error { status, code: code.to_owned(), message: String::new() };
    // Fault, code, and how many calls were made: one more where no connection held.
    for (fault, code, calls) in [
        (Fault::status(500), "upstream_unavailable", 1),
        (Fault::status(502), "upstream_unavailable", 1),
        (Fault::status(503), "upstream_throttled", 1),
        (Fault::status(429), "upstream_throttled", 1),
        (Fault::Throttle, "upstream_throttled", 1),
        (error(400, "RequestLimitExceeded"), "upstream_throttled", 1),
        (error(500, "InternalFailure"), "upstream_unavailable", 1),
        (Fault::CloseMidBody, "upstream_unavailable", 1),
        (Fault::Close, "upstream_unavailable", 2),
        (Fault::Reset, "upstream_unavailable", 2),
    ] {
        stack.sts.forget_requests();
        stack.sts.set_fault(fault.clone());
        let answer = enroll(&stack, &credentials);
        assert_retryable(&answer, code);
        assert_eq!(stack.sts.request_count(), calls, "{fault:?}");
        stack.sts.clear_faults();
        enroll(&stack, &credentials).assert_status(200);
    }
    stack.sts.set_fault(FaultPlan::from(Fault::Reset).times(1));
    enroll(&stack, &credentials).assert_status(200);
}

#[test]
fn an_answer_that_cannot_be_read_proves_nothing() {
    let stack = STACK.lock();
    let credentials = credentials(&stack);
    let elsewhere = format!("{}/elsewhere", stack.issuer.url());
    for fault in [
        Fault::Redirect { location: elsewhere.clone(), status: 302 },
        Fault::Redirect { location: elsewhere, status: 307 },
        Fault::Garbage,
        Fault::Html,
        Fault::Huge { bytes: 2 * 1024 * 1024 },
        Fault::Huge { bytes: 64 * 1024 },
        Fault::WrongAccount { account: "999999999999".to_owned() },
        Fault::Status { status: 200, body: None, content_type: None },
        Fault::Status { status: 204, body: None, content_type: None },
    ] {
        stack.sts.forget_requests();
        stack.sts.set_fault(fault.clone());
        let answer = enroll(&stack, &credentials);
        assert_eq!(
            answer.outcome(),
            (401, "attestation_invalid".to_owned(), "sts_response_invalid".to_owned()),
            "{fault:?}"
        );
        assert_eq!(stack.sts.request_count(), 1, "{fault:?}");
        stack.sts.clear_faults();
        enroll(&stack, &credentials).assert_status(200);
    }
    assert_eq!(stack.issuer.fetch_count(), 0, "a redirect is not followed");
    stack.sts.set_fault(Fault::Delay { ms: 500 });
    enroll(&stack, &credentials).assert_status(200);
}

#[test]
fn an_sts_that_hangs_costs_ten_seconds_and_nobody_else_any() {
    let stack = STACK.lock();
    let credentials = credentials(&stack);
    let plans = [Fault::Hang, Fault::StallMidBody, Fault::Drip { ms: 200 }];
    stack.sts.set_faults(plans.map(|fault| FaultPlan::from(fault).times(1)));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..3).map(|_| scope.spawn(|| enroll(&stack, &credentials))).collect();
        // The faults are taken once three requests are in; others are served meanwhile.
        while stack.sts.request_count() < 3 {
            assert!(started.elapsed() < Duration::from_secs(9), "the three requests did not come");
            std::thread::sleep(Duration::from_millis(10));
        }
        enroll(&stack, &credentials).assert_status(200);
        assert!(started.elapsed() < Duration::from_secs(9), "a good request waited for the slow ones");
        for call in slow {
            assert_retryable(&call.join().unwrap(), "upstream_unavailable");
        }
    });
    assert!((9..20).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(stack.sts.request_count(), 4, "a call that timed out is not repeated");
}

#[derive(Deserialize)]
struct ResponseCase {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    canonical: Option<String>,
    session: Option<String>,
    file: String,
    http_status: u16,
    content_type: String,
}

#[test]
fn every_sts_answer_of_the_vectors_is_read_as_they_say() {
    let stack = STACK.lock();
    let credentials = credentials(&stack);
    for case in cases::<ResponseCase>("sts-responses") {
        let body = String::from_utf8(vector("sts-responses", &case.file)).unwrap();
        stack.sts.set_fault(Fault::Status {
            status: case.http_status,
            body: Some(body),
            content_type: Some(case.content_type.clone()),
        });
        let key = Key::generate();
        let attestation = stack.sts_request(&credentials, &key).evidence();
        let request = json!({"attestation": attestation, "spki_sha256": key.spki_sha256(), "consume": false});
        let answer = stack.service().post("/v1/verify", &request);
        if case.expect == "retry" {
            assert_retryable(&answer, &answer.code());
            assert!(case.reasons.contains(&answer.code()), "{}: {}", case.id, answer.text());
            continue;
        }
        let verdict = answer.expect(200).json();
        let reason = verdict["reason"].as_str().unwrap_or_default().to_owned();
        match case.expect.as_str() {
            // Proven, and of nobody in this policy.
            "accept" => {
                assert_eq!(verdict["code"], "identity_not_mapped", "{}: {verdict}", case.id);
                if let Some(canonical) = case.canonical {
                    assert_eq!(verdict["identity"], canonical, "{}", case.id);
                }
                if let Some(session) = case.session {
                    assert!(verdict["instance"].as_str().unwrap().ends_with(&format!(":{session}")), "{verdict}");
                }
            }
            "refuse" => assert!(case.reasons.contains(&reason), "{}: {verdict}", case.id),
            "either" => assert!(verdict["code"] == "identity_not_mapped" || !reason.is_empty(), "{verdict}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_runner_tells_sts_down_from_sts_saying_no() {
    let stack = STACK.lock();
    let good = credentials(&stack);
    let wrong = Credentials { secret_access_key: "x".repeat(40), ..good.clone() };
    let refused = stack.host("refused").with_aws(&wrong, REGION, &stack.sts.url()).run(&["enroll"]).expect(77);
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains("SignatureDoesNotMatch"), "{}", refused.stderr);
    stack.sts.set_fault(Fault::status(500));
    let down = stack.host("down").with_aws(&good, REGION, &stack.sts.url()).run(&["enroll"]).expect(69);
    let said = format!("{}{}", down.stdout, down.stderr);
    assert!(said.contains("STS"), "{said}");
    stack.sts.clear_faults();
    let _ = stack.host("down").with_aws(&good, REGION, &stack.sts.url()).run(&["enroll"]).expect(0);
}
