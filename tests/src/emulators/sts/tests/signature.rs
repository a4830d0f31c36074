//! Signatures: AWS's published values, the vectors, the SDK's signer, and everything that must not
//! pass.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::super::authentication::{authenticate, format_timestamp};
use super::super::sigv4::{SignedRequest, expected_signature, read_claim};
use super::*;

const EXAMPLE_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const EXAMPLE_SCOPE: &str = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
const EXAMPLE_TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    list.iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

/// One case of AWS's Signature Version 4 test suite.
struct Published {
    name: &'static str,
    request_line: (&'static str, &'static str, &'static str),
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    signature: &'static str,
}

const PUBLISHED: &[Published] = &[
    Published {
        name: "get-vanilla",
        request_line: ("GET", "/", ""),
        headers: &[],
        body: "",
        signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    },
    Published {
        name: "get-relative-relative-normalized",
        request_line: ("GET", "/example1/example2/../..", ""),
        headers: &[],
        body: "",
        signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    },
    Published {
        name: "get-utf8",
        request_line: ("GET", "/ሴ", ""),
        headers: &[],
        body: "",
        signature: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    },
    Published {
        name: "get-vanilla-query-order-encoded",
        request_line: ("GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1"),
        headers: &[],
        body: "",
        signature: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    },
    Published {
        name: "get-header-value-trim",
        request_line: ("GET", "/", ""),
        headers: &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
        body: "",
        signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    },
    Published {
        name: "get-header-key-duplicate",
        request_line: ("GET", "/", ""),
        headers: &[("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")],
        body: "",
        signature: "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    },
    Published {
        name: "get-vanilla-with-session-token",
        request_line: ("GET", "/", ""),
        headers: &[("x-amz-security-token", EXAMPLE_TOKEN)],
        body: "",
        signature: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    },
    Published {
        name: "post-vanilla",
        request_line: ("POST", "/", ""),
        headers: &[],
        body: "",
        signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    },
    Published {
        name: "post-x-www-form-urlencoded",
        request_line: ("POST", "/", ""),
        headers: &[
            ("content-length", "13"),
            ("content-type", FORM),
            ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
        ],
        body: "Param1=value1",
        signature: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    },
];

#[test]
fn awss_published_signatures_come_out() {
    for case in PUBLISHED {
        let mut all = vec![("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        all.extend_from_slice(case.headers);
        let mut names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={EXAMPLE_SCOPE}, SignedHeaders={}, Signature={}",
            names.join(";"),
            case.signature
        );
        all.push(("authorization", &authorization));
        let headers = headers(&all);
        let (method, path, query) = case.request_line;
        let request = SignedRequest { method, path, query, headers: &headers, body: case.body.as_bytes() };
        let claim = read_claim(&request).unwrap().unwrap();
        let signature = expected_signature(&request, &claim, EXAMPLE_SECRET);
        assert_eq!(signature, case.signature, "{}", case.name);
    }
}

/// The vectors' requests, which this project did not sign, hold under their well-known secret
/// unless they are about a request that was changed afterwards.
#[test]
fn the_vectors_signatures_come_out() {
    let index = include_str!("../../../../vectors/sts-requests/index.json");
    let cases: Vec<Value> = serde_json::from_str(index).unwrap();
    let mut accepted = 0;
    for case in cases.iter().filter(|case| case["expect"] == "accept") {
        let list: Vec<(String, &str)> = case["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.to_lowercase(), value.as_str().unwrap()))
            .collect();
        let list: Vec<(&str, &str)> = list.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let headers = headers(&list);
        let request = SignedRequest {
            method: "POST",
            path: "/",
            query: "",
            headers: &headers,
            body: case["body"].as_str().unwrap().as_bytes(),
        };
        let claim = read_claim(&request).unwrap().unwrap();
        let signature = expected_signature(&request, &claim, EXAMPLE_SECRET);
        assert_eq!(signature, claim.signature, "{}", case["id"]);
        accepted += 1;
    }
    assert!(accepted >= 5, "{accepted}");
}

/// Judges a draft without a network.
fn judge(sts: &StsEmulator, draft: &Draft) -> Result<(), StsError> {
    let url = reqwest::Url::parse(&draft.url).unwrap();
    let mut list: Vec<(&str, &str)> =
        draft.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = sts.server.address().to_string();
    list.push(("host", &host));
    let headers = headers(&list);
    let request = SignedRequest {
        method: draft.method,
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: &headers,
        body: draft.body.as_bytes(),
    };
    let state = &sts.state;
    let directory = state.directory.lock();
    authenticate(&state.judge, &directory, &request, state.core.clock.now()).map(|_| ())
}

/// Every text that differs from `text` in the lowest bit of one byte.
fn bent(text: &str) -> impl Iterator<Item = String> {
    (0..text.len()).map(|index| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[index] ^= 1;
        String::from_utf8(bytes).unwrap()
    })
}

#[test]
fn any_byte_changed_after_signing_is_noticed() {
    let sts = start();
    let credentials = sts.add_role_session(ACCOUNT, "runner", "s1");
    let good = Draft::caller_identity(&sts).signed(&credentials);
    assert_eq!(judge(&sts, &good), Ok(()));
    let mut tried = 0;
    for body in bent(&good.body) {
        let bad = Draft { body, ..good.clone() };
        assert_eq!(judge(&sts, &bad).unwrap_err().code, "SignatureDoesNotMatch");
        tried += 1;
    }
    for index in 0..good.headers.len() {
        for value in bent(&good.headers[index].1) {
            let mut bad = good.clone();
            bad.headers[index].1 = value;
            let error = judge(&sts, &bad).unwrap_err();
            assert_ne!(error.status, 200, "{:?}", bad.headers[index]);
            tried += 1;
        }
        let mut without = good.clone();
        let (name, _) = without.headers.remove(index);
        assert!(judge(&sts, &without).is_err(), "{name} removed");
    }
    assert!(tried > 1_000, "{tried}");
    for (method, url) in
        [("GET", good.url.clone()), ("POST", format!("{}?a=b", good.url)), ("POST", format!("{}x", good.url))]
    {
        let bad = Draft { method, url, ..good.clone() };
        assert_eq!(judge(&sts, &bad).unwrap_err().code, "SignatureDoesNotMatch");
    }
    let added = good.clone().header("x-amz-meta", "1");
    assert_eq!(judge(&sts, &added).unwrap_err().code, "SignatureDoesNotMatch");
    assert_eq!(judge(&sts, &good), Ok(()));
}

#[test]
fn times_are_taken_for_fifteen_minutes_either_way() {
    let sts = start();
    let credentials = sts.add_user(ACCOUNT, "ci");
    let signed = |seconds: i64| {
        let now = SystemTime::now();
        let offset = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 { now - offset } else { now + offset };
        let draft = Draft::caller_identity(&sts);
        draft.signed_at(&credentials, REGION, "sts", time, SignatureLocation::Headers)
    };
    for taken in [-800, 0, 800] {
        assert_eq!(judge(&sts, &signed(taken)), Ok(()), "{taken}");
    }
    let late = judge(&sts, &signed(-1_000)).unwrap_err();
    assert_eq!((late.status, late.code.as_str()), (403, "SignatureDoesNotMatch"));
    assert!(late.message.starts_with("Signature expired: "), "{late}");
    assert!(late.message.ends_with(" - 15 min.)"), "{late}");
    let early = judge(&sts, &signed(1_000)).unwrap_err();
    assert!(early.message.starts_with("Signature not yet current: "), "{early}");
}

#[test]
fn each_refusal_has_awss_status_and_code() {
    let sts = start();
    let user = sts.add_user(ACCOUNT, "ci");
    let session = sts.add_role_session(ACCOUNT, "runner", "s1");
    let at = |credentials: &Credentials, region: &str, service: &str| {
        let location = SignatureLocation::Headers;
        Draft::caller_identity(&sts).signed_at(credentials, region, service, SystemTime::now(), location)
    };
    let with_authorization = |change: &dyn Fn(&str) -> String| {
        let mut draft = at(&user, REGION, "sts");
        for (name, value) in &mut draft.headers {
            if name == "authorization" {
                *value = change(value);
            }
        }
        draft
    };
    let unknown = Credentials { access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(), ..user.clone() };
    let other_secret = Credentials { secret_access_key: EXAMPLE_SECRET.to_owned(), ..user.clone() };
    let without_token = Credentials { session_token: None, ..session.clone() };
    let other_token = Credentials { session_token: Some("IQoJb3JpZ2luX2Vj".to_owned()), ..session.clone() };
    let token_too_many = Credentials { session_token: session.session_token.clone(), ..user.clone() };
    let cases = [
        ("no signature", Draft::caller_identity(&sts), 403, "MissingAuthenticationToken"),
        ("region not served", at(&user, "xx-north-1", "sts"), 403, "SignatureDoesNotMatch"),
        ("other service", at(&user, REGION, "iam"), 403, "SignatureDoesNotMatch"),
        ("other partition", at(&user, "cn-north-1", "sts"), 403, "InvalidClientTokenId"),
        ("unknown key", at(&unknown, REGION, "sts"), 403, "InvalidClientTokenId"),
        ("wrong secret", at(&other_secret, REGION, "sts"), 403, "SignatureDoesNotMatch"),
        ("session without token", at(&without_token, REGION, "sts"), 403, "InvalidClientTokenId"),
        ("session with another token", at(&other_token, REGION, "sts"), 403, "InvalidClientTokenId"),
        ("long-term key with a token", at(&token_too_many, REGION, "sts"), 403, "InvalidClientTokenId"),
        ("two values", with_authorization(&|a| format!("{a}, {a}")), 400, "IncompleteSignature"),
        ("SigV2", with_authorization(&|a| a.replace("AWS4-HMAC-SHA256", "AWS")), 400, "IncompleteSignature"),
        ("SigV4A", with_authorization(&|a| a.replace("HMAC", "ECDSA-P256")), 400, "IncompleteSignature"),
        ("four scope parts", with_authorization(&|a| a.replace("/aws4_request", "")), 400, "IncompleteSignature"),
        (
            "no Signature",
            with_authorization(&|a| a.split(", Signature").next().unwrap().to_owned()),
            400,
            "IncompleteSignature",
        ),
        (
            "terminator",
            with_authorization(&|a| a.replace("aws4_request", "aws5_request")),
            403,
            "SignatureDoesNotMatch",
        ),
        ("host unsigned", with_authorization(&|a| a.replace("host;", "")), 403, "SignatureDoesNotMatch"),
        ("date unsigned", with_authorization(&|a| a.replace("x-amz-date;", "")), 403, "SignatureDoesNotMatch"),
    ];
    for (name, draft, status, code) in cases {
        let error = judge(&sts, &draft).unwrap_err();
        assert_eq!((error.status, error.code.as_str()), (status, code), "{name}: {error}");
    }
    sts.expire(&session.access_key_id);
    let error = judge(&sts, &at(&session, REGION, "sts")).unwrap_err();
    assert_eq!((error.status, error.code.as_str()), (403, "ExpiredToken"));
    assert_eq!(error.message, "The security token included in the request is expired");
    sts.delete(&user.access_key_id);
    let error = judge(&sts, &at(&user, REGION, "sts")).unwrap_err();
    assert_eq!(error.code, "InvalidClientTokenId");
}

/// The request the SDK signed, sent to a real host name: only the region of that host will do.
#[test]
fn a_real_host_name_serves_its_own_region_only() {
    let sts = start();
    let user = sts.add_user(ACCOUNT, "ci");
    let judge_host = |host: &str, region: &str| {
        let mut draft = Draft::caller_identity(&sts);
        draft.url = format!("http://{host}/");
        let draft = draft.signed_at(&user, region, "sts", SystemTime::now(), SignatureLocation::Headers);
        let mut list: Vec<(&str, &str)> = draft.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        list.push(("host", host));
        let headers = headers(&list);
        let request = SignedRequest { method: "POST", path: "/", query: "", headers: &headers, body: BODY.as_bytes() };
        let directory = sts.state.directory.lock();
        authenticate(&sts.state.judge, &directory, &request, sts.state.core.clock.now()).is_ok()
    };
    assert!(judge_host("sts.eu-west-1.amazonaws.com", "eu-west-1"));
    assert!(judge_host("sts-fips.us-east-1.amazonaws.com", "us-east-1"));
    assert!(judge_host("sts.amazonaws.com", "us-east-1"));
    assert!(!judge_host("sts.us-east-1.amazonaws.com", "eu-west-1"));
    assert!(!judge_host("sts.amazonaws.com", "eu-west-1"));
}

#[test]
fn timestamps_are_written_as_aws_does() {
    assert_eq!(format_timestamp(1_440_938_160), "20150830T123600Z");
}

proptest! {
    /// Canonicalisation agrees with the SDK's on whatever a client may send.
    #[test]
    fn the_sdk_signs_as_we_compute(
        method in "(GET|POST|PUT)",
        path in "(/([A-Za-z0-9._~@:-]|%2F|%20|%C3%A9){0,5}){1,3}",
        query in proptest::collection::vec(("[A-Za-z0-9~._-]{1,6}", "[A-Za-z0-9~._/ :=-]{0,8}"), 0..4),
        header in "[!-~]( {0,3}[!-~]){0,8}",
        body in "[ -~]{0,40}",
    ) {
        let mut url = reqwest::Url::parse("http://sts.example.com").unwrap();
        url.set_path(&path);
        for (name, value) in &query {
            let escaped = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string();
            let joined = url.query().map_or(String::new(), |q| format!("{q}&"));
            url.set_query(Some(&format!("{joined}{name}={escaped}")));
        }
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: EXAMPLE_SECRET.to_owned(),
            session_token: None,
            expires_at: None,
            arn: String::new(),
            user_id: String::new(),
            account: String::new(),
        };
        let draft = Draft {
            method: match method.as_str() { "GET" => "GET", "POST" => "POST", _ => "PUT" },
            url: url.to_string(),
            headers: vec![("x-test".to_owned(), header)],
            body,
        }
        .signed_at(&credentials, REGION, "sts", SystemTime::now(), SignatureLocation::Headers);
        let mut list: Vec<(&str, &str)> = draft.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        list.push(("host", "sts.example.com"));
        let headers = headers(&list);
        let request = SignedRequest {
            method: draft.method,
            path: url.path(),
            query: url.query().unwrap_or_default(),
            headers: &headers,
            body: draft.body.as_bytes(),
        };
        let claim = read_claim(&request).unwrap().unwrap();
        prop_assert_eq!(expected_signature(&request, &claim, EXAMPLE_SECRET), claim.signature);
    }
}
