//! The emulator over HTTP, called by requests that the SDK's signer signed.

mod faults;
mod roles;
mod signature;

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use serde_json::{Value, json};

use super::*;

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-west-1";
const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";
const FORM: &str = "application/x-www-form-urlencoded";
const BINDING: &str = "v1;edge.example.com;24UW21qNV9CFzmk10Gw_AXaeQ4k5wJ6RfLhp6nqV3R8";

fn start() -> StsEmulator {
    StsEmulator::start(StsConfig::default()).unwrap()
}

fn client() -> reqwest::Client {
    crate::emulators::http_client().timeout(Duration::from_secs(10)).build().unwrap()
}

/// A request about to be signed or sent.
#[derive(Debug, Clone)]
struct Draft {
    method: &'static str,
    url: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Draft {
    fn caller_identity(sts: &StsEmulator) -> Self {
        Self {
            method: "POST",
            url: format!("{}/", sts.url()),
            headers: vec![
                ("content-type".to_owned(), FORM.to_owned()),
                ("x-rootpilot-binding".to_owned(), BINDING.to_owned()),
            ],
            body: BODY.to_owned(),
        }
    }

    /// Signs as the SDK does.
    fn signed(self, credentials: &Credentials) -> Self {
        self.signed_at(credentials, REGION, "sts", SystemTime::now(), SignatureLocation::Headers)
    }

    fn signed_at(
        mut self,
        credentials: &Credentials,
        region: &str,
        service: &str,
        time: SystemTime,
        location: SignatureLocation,
    ) -> Self {
        let identity = aws_credential_types::Credentials::new(
            &credentials.access_key_id,
            &credentials.secret_access_key,
            credentials.session_token.clone(),
            None,
            "test",
        )
        .into();
        let mut settings = SigningSettings::default();
        settings.signature_location = location;
        settings.expires_in = (location == SignatureLocation::QueryParams).then_some(Duration::from_mins(15));
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(time)
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let headers = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let signable =
            SignableRequest::new(self.method, &self.url, headers, SignableBody::Bytes(self.body.as_bytes())).unwrap();
        let (instructions, _) = sign(signable, &parameters).unwrap().into_parts();
        let (headers, query) = instructions.into_parts();
        for header in headers {
            self.headers.push((header.name().to_owned(), header.value().to_owned()));
        }
        let mut url = reqwest::Url::parse(&self.url).unwrap();
        for (name, value) in query {
            url.query_pairs_mut().append_pair(name, &value);
        }
        self.url = url.to_string();
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn try_build(&self) -> Option<reqwest::RequestBuilder> {
        let mut request = client().request(self.method.parse().unwrap(), &self.url).body(self.body.clone());
        for (name, value) in &self.headers {
            let value = axum::http::HeaderValue::from_str(value).ok()?;
            request = request.header(name, value);
        }
        Some(request)
    }

    async fn send(&self) -> (u16, String) {
        let response = self.try_build().unwrap().send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends it asking for JSON; the status and the error code or "".
    async fn code(self) -> (u16, String) {
        let (status, text) = self.header("accept", "application/json").send().await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        let code = answer["Error"]["Code"].as_str().unwrap_or_default();
        (status, code.to_owned())
    }
}

#[tokio::test]
async fn a_role_session_is_told_its_identity_in_json() {
    let sts = start();
    let credentials = sts.add_role_session(ACCOUNT, "rootpilot-runner", "i-0abc");
    let draft = Draft::caller_identity(&sts).signed(&credentials);
    let (status, text) = draft.header("accept", "application/json").send().await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let result = &answer["GetCallerIdentityResponse"]["GetCallerIdentityResult"];
    assert_eq!(result["Arn"], "arn:aws:sts::111122223333:assumed-role/rootpilot-runner/i-0abc");
    assert_eq!(result["Account"], ACCOUNT);
    let user_id = result["UserId"].as_str().unwrap();
    assert!(user_id.starts_with("AROA") && user_id.ends_with(":i-0abc"), "{user_id}");
    assert_eq!(user_id, credentials.user_id);
}

#[tokio::test]
async fn a_user_is_told_its_identity_in_xml_of_the_real_shape() {
    let sts = start();
    let credentials = sts.add_user(ACCOUNT, "division/sub/A&B");
    let (status, text) = Draft::caller_identity(&sts).signed(&credentials).send().await;
    assert_eq!(status, 200, "{text}");
    let id = text.split("<RequestId>").nth(1).unwrap().split('<').next().unwrap();
    let user_id = &credentials.user_id;
    assert_eq!(
        text,
        format!(
            "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  \
             <GetCallerIdentityResult>\n    \
             <Arn>arn:aws:iam::111122223333:user/division/sub/A&amp;B</Arn>\n    \
             <UserId>{user_id}</UserId>\n    <Account>111122223333</Account>\n  \
             </GetCallerIdentityResult>\n  \
             <ResponseMetadata>\n    <RequestId>{id}</RequestId>\n  </ResponseMetadata>\n\
             </GetCallerIdentityResponse>\n"
        )
    );
}

#[tokio::test]
async fn get_and_presigned_requests_are_answered_too() {
    let sts = start();
    let credentials = sts.add_role_session(ACCOUNT, "runner", "s1");
    let get = || Draft {
        method: "GET",
        url: format!("{}/?{BODY}", sts.url()),
        headers: vec![("x-rootpilot-binding".to_owned(), BINDING.to_owned())],
        body: String::new(),
    };
    assert_eq!(get().signed(&credentials).code().await, (200, String::new()));
    let presign = |draft: Draft| {
        let location = SignatureLocation::QueryParams;
        draft.signed_at(&credentials, REGION, "sts", SystemTime::now(), location)
    };
    assert_eq!(presign(get()).code().await, (200, String::new()));
    let mut tampered = presign(get());
    tampered.headers[0].1.push('x');
    assert_eq!(tampered.code().await, (403, "SignatureDoesNotMatch".to_owned()));
}

#[tokio::test]
async fn headers_a_proxy_adds_are_no_concern_of_the_signature() {
    let sts = start();
    let credentials = sts.add_user(ACCOUNT, "ci");
    let draft = Draft::caller_identity(&sts)
        .signed(&credentials)
        .header("cf-worker", "example.com")
        .header("accept-encoding", "br, gzip")
        .header("user-agent", "edge");
    assert_eq!(draft.code().await, (200, String::new()));
}

#[tokio::test]
async fn requests_are_counted_and_kept() {
    let sts = start();
    let credentials = sts.add_user(ACCOUNT, "ci");
    assert_eq!(sts.request_count(), 0);
    Draft::caller_identity(&sts).signed(&credentials).send().await;
    Draft::caller_identity(&sts).send().await;
    assert_eq!(sts.request_count(), 2);
    let [first, second] = &sts.requests()[..] else {
        panic!("two requests");
    };
    assert_eq!((first.number, first.status, first.error_code.clone()), (1, 200, None));
    assert_eq!(first.header("x-rootpilot-binding").as_deref(), Some(BINDING));
    assert_eq!((first.method.as_str(), first.path.as_str(), first.body.as_str()), ("POST", "/", BODY));
    assert_eq!(second.error_code.as_deref(), Some("MissingAuthenticationToken"));
    sts.forget_requests();
    assert_eq!((sts.request_count(), sts.requests().len()), (0, 0));
}

#[tokio::test]
async fn a_restart_on_the_same_port_keeps_unique_ids() {
    let first = start();
    let port = first.port();
    let before = first.add_role_session(ACCOUNT, "runner", "s1").user_id;
    drop(first);
    let second = StsEmulator::start(StsConfig { port, ..StsConfig::default() }).unwrap();
    assert_eq!(second.add_role_session(ACCOUNT, "runner", "s1").user_id, before);
    assert_ne!(second.add_role_session(ACCOUNT, "other", "s1").user_id, before);
}

#[tokio::test]
async fn keys_and_faults_are_ordered_over_http() {
    let sts = start();
    let order = async |method: reqwest::Method, path: &str, body: Value| {
        let request = client().request(method, format!("{}/_control/{path}", sts.url()));
        let response = request.body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str::<Value>(&text).unwrap_or_default())
    };
    let post = reqwest::Method::POST;
    let session = json!({"kind":"role_session","account":ACCOUNT,"role":"runner","session":"s1"});
    let (status, made) = order(post.clone(), "credentials", session).await;
    assert_eq!(status, 200);
    let credentials: Credentials = serde_json::from_value(made).unwrap();
    let call = || Draft::caller_identity(&sts).signed(&credentials).code();
    assert_eq!(call().await.0, 200);

    let fault = json!({"kind":"status","status":500,"body":"{}","count":1});
    assert_eq!(order(post.clone(), "fault", fault).await.0, 200);
    assert_eq!(call().await.0, 500);
    assert_eq!(call().await.0, 200);

    let expire = json!({"kind":"expire","access_key_id":credentials.access_key_id});
    assert_eq!(order(post.clone(), "credentials", expire).await.0, 200);
    assert_eq!(call().await, (403, "ExpiredToken".to_owned()));
    let delete = json!({"kind":"delete","access_key_id":credentials.access_key_id});
    assert_eq!(order(post.clone(), "credentials", delete.clone()).await.0, 200);
    assert_eq!(call().await, (403, "InvalidClientTokenId".to_owned()));
    assert_eq!(order(post.clone(), "credentials", delete).await.0, 400);

    let (_, traffic) = order(reqwest::Method::GET, "requests?limit=2", json!({})).await;
    assert_eq!(traffic["total"], 5);
    assert_eq!(traffic["requests"].as_array().unwrap().len(), 2);
    assert_eq!(order(reqwest::Method::DELETE, "requests", json!({})).await.0, 204);
    assert_eq!(sts.request_count(), 0);
    assert_eq!(order(post.clone(), "fault", json!({"kind":"no such"})).await.0, 400);
    assert_eq!(order(post, "clock", json!({"offset_seconds":1_200})).await.0, 200);
    let user = sts.add_user(ACCOUNT, "ci");
    let late = Draft::caller_identity(&sts).signed(&user).code().await;
    assert_eq!(late, (403, "SignatureDoesNotMatch".to_owned()));
}

#[tokio::test]
async fn a_key_can_be_chosen() {
    let sts = start();
    let key = json!({
        "access_key_id": "ASIAIOSFODNN7EXAMPLE",
        "secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        "session_token": "IQoJ",
    });
    let order = json!({"kind":"role_session","account":ACCOUNT,"role":"r","session":"s1","key":key});
    let credentials = sts.order(serde_json::from_value(order).unwrap()).unwrap().unwrap();
    assert_eq!(credentials.access_key_id, "ASIAIOSFODNN7EXAMPLE");
    let call = Draft::caller_identity(&sts).signed(&credentials).code().await;
    assert_eq!(call, (200, String::new()));
}
