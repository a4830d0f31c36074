//! The emulator against AWS's published values, the vectors, and the SDK's signer.

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use serde_json::Value;

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
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(10))
        .build()
        .unwrap()
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
        self.signed_at(
            credentials,
            REGION,
            "sts",
            SystemTime::now(),
            SignatureLocation::Headers,
        )
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
        let signable = SignableRequest::new(
            self.method,
            &self.url,
            headers,
            SignableBody::Bytes(self.body.as_bytes()),
        )
        .unwrap();
        let (instructions, _) = sign(signable, &parameters).unwrap().into_parts();
        let (headers, query) = instructions.into_parts();
        for header in headers {
            self.headers
                .push((header.name().to_owned(), header.value().to_owned()));
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
        let mut request = client()
            .request(self.method.parse().unwrap(), &self.url)
            .body(self.body.clone());
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

    #[cfg(any())]
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
    assert_eq!(
        result["Arn"],
        "arn:aws:sts::111122223333:assumed-role/rootpilot-runner/i-0abc"
    );
    assert_eq!(result["Account"], ACCOUNT);
    let user_id = result["UserId"].as_str().unwrap();
    assert!(
        user_id.starts_with("AROA") && user_id.ends_with(":i-0abc"),
        "{user_id}"
    );
    assert_eq!(user_id, credentials.user_id);
}

#[tokio::test]
async fn a_user_is_told_its_identity_in_xml_of_the_real_shape() {
    let sts = start();
    let credentials = sts.add_user(ACCOUNT, "division/sub/A&B");
    let (status, text) = Draft::caller_identity(&sts)
        .signed(&credentials)
        .send()
        .await;
    assert_eq!(status, 200, "{text}");
    let id = text
        .split("<RequestId>")
        .nth(1)
        .unwrap()
        .split('<')
        .next()
        .unwrap();
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
