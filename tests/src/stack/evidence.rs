//! Evidence of every mode as a good runner makes it, to be sent as it is or to be spoiled by a test.
//!
//! The STS request is signed by `aws-sigv4`, which is not the emulator's code that judges it.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials as AwsCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use serde_json::{Map, Value, json};

use super::key::Key;
use crate::emulators::Credentials;

/// The one body that the verifier knows.
pub const STS_BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";
/// Content type of that body, as the runner sends it.
pub const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// The value of `x-rootpilot-binding`.
pub fn binding(audience: &str, key: &Key) -> String {
    format!("v1;{audience};{}", key.spki_sha256())
}

/// What is signed. [`Self::new`] is a good request; a test changes a field before [`Self::evidence`].
#[derive(Debug, Clone)]
pub struct StsRequest {
    /// Who signs.
    pub credentials: Credentials,
    /// The region signed for and sent.
    pub region: String,
    /// The service signed for.
    pub service: String,
    /// Where the request would go: its host is signed.
    pub endpoint: String,
    /// HTTP method signed.
    pub method: String,
    /// Headers signed besides `host`, `x-amz-date` and the session token.
    pub headers: Vec<(String, String)>,
    /// The body signed and sent.
    pub body: String,
    /// When it is signed.
    pub time: SystemTime,
}

impl StsRequest {
    /// A request by `credentials` in `region` at `endpoint`, bound to `audience` and `key`.
    pub fn new(credentials: &Credentials, region: &str, endpoint: &str, audience: &str, key: &Key) -> Self {
        Self {
            credentials: credentials.clone(),
            region: region.to_owned(),
            service: "sts".to_owned(),
            endpoint: endpoint.to_owned(),
            method: "POST".to_owned(),
            headers: vec![
                ("content-type".to_owned(), FORM.to_owned()),
                ("x-rootpilot-binding".to_owned(), binding(audience, key)),
            ],
            body: STS_BODY.to_owned(),
            time: SystemTime::now(),
        }
    }

    /// The same, with a header changed or added before signing.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, without a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// The same, signed `seconds` ago; negative is the future.
    #[must_use]
    pub fn aged(mut self, seconds: i64) -> Self {
        let by = Duration::from_secs(seconds.unsigned_abs());
        self.time = if seconds >= 0 { SystemTime::now() - by } else { SystemTime::now() + by };
        self
    }

    /// All headers after signing, lower case, sorted by name.
    pub fn signed(&self) -> Vec<(String, String)> {
        let Credentials { access_key_id, secret_access_key, session_token, .. } = self.credentials.clone();
        let identity = AwsCredentials::new(access_key_id, secret_access_key, session_token, None, "test").into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(self.time)
            .settings(SigningSettings::default())
            .build()
            .expect("all parameters are given")
            .into();
        let named = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let body = SignableBody::Bytes(self.body.as_bytes());
        let request = SignableRequest::new(&self.method, self.endpoint.as_str(), named, body).expect("a valid request");
        let (instructions, _) = sign(request, &parameters).expect("a request can be signed").into_parts();
        let (_, host) = self.endpoint.split_once("://").expect("an endpoint is a URL");
        let host = host.split('/').next().unwrap_or_default();
        let mut all = self.headers.clone();
        all.push(("host".to_owned(), host.to_owned()));
        all.extend(instructions.headers().map(|(name, value)| (name.to_lowercase(), value.to_owned())));
        all.sort();
        all
    }

    /// `aws-sts` evidence.
    pub fn evidence(&self) -> Value {
        let headers: Map<String, Value> = self.signed().into_iter().map(|(name, value)| (name, json!(value))).collect();
        json!({"mode": "aws-sts", "region": self.region, "headers": headers, "body": self.body})
    }
}

/// `gke-oidc`, `eks-oidc` or `bootstrap-token` evidence.
pub fn token(mode: &str, token: &str) -> Value {
    json!({"mode": mode, "token": token})
}

/// The body of `POST /v1/enroll` and `POST /v1/renew`.
pub fn request(key: &Key, attestation: &Value) -> Value {
    json!({"csr": key.csr(), "attestation": attestation})
}
