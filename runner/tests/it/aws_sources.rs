//! Every source of AWS credentials of the SDK's default chain, against a local emulation of its real protocol.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::support::{Fake, Output, Runner};

/// What the emulated AWS does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Good,
    /// STS and the SSO portal say no.
    Denied,
    /// The web identity token has expired.
    ExpiredToken,
    /// Instance metadata takes the token request and its answer is lost.
    Silent,
    /// The instance has no role.
    NoRole,
    /// Instance metadata names the role and fails to give its credentials, with a status or with a word of its own.
    Failing(u16),
    Unauthorized,
}

/// SSO portal, STS, container endpoint and instance metadata on one loopback port.
struct Aws {
    url: String,
    calls: Arc<Mutex<Vec<String>>>,
}

type Shared = (Mood, Arc<Mutex<Vec<String>>>);

impl Aws {
    async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let app = Router::new().fallback(answer).with_state((mood, Arc::clone(&calls)));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, calls }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

async fn answer(
    State((mood, calls)): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    calls.lock().unwrap().push(format!("{method} {uri}"));
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = String::from_utf8_lossy(&body).into_owned();
    match (method.as_str(), uri.path()) {
        ("GET", "/federation/credentials") if header("x-amz-sso_bearer_token") == "sso-token" && mood == Mood::Good => {
            axum::Json(json!({"roleCredentials": {
                "accessKeyId": "ASIASSO", "secretAccessKey": "s", "sessionToken": "t", "expiration": 4_000_000_000_000u64
            }}))
            .into_response()
        }
        ("GET", "/federation/credentials") => {
            let mut response = (StatusCode::UNAUTHORIZED, r#"{"message":"Session token not found or invalid"}"#).into_response();
            response.headers_mut().insert("x-amzn-errortype", "UnauthorizedException".parse().unwrap());
            response
        }
        ("POST", "/") => sts(mood, &body),
        ("GET", "/container") if header("authorization") == "pod-token" => credentials("ASIAPOD"),
        ("GET", "/container") => StatusCode::UNAUTHORIZED.into_response(),
        ("PUT", "/latest/api/token") if mood == Mood::Silent => std::future::pending().await,
        ("PUT", "/latest/api/token") => {
            ([("x-aws-ec2-metadata-token-ttl-seconds", header("x-aws-ec2-metadata-token-ttl-seconds"))], "imds-token").into_response()
        }
        ("GET", path) if path.starts_with("/latest/") && header("x-aws-ec2-metadata-token") != "imds-token" => {
            StatusCode::UNAUTHORIZED.into_response()
        }
        ("GET", "/latest/meta-data/iam/security-credentials/") if mood != Mood::NoRole => "instance-role".into_response(),
        ("GET", "/latest/meta-data/iam/security-credentials/instance-role") => match mood {
            Mood::Failing(status) => StatusCode::from_u16(status).unwrap().into_response(),
            Mood::Unauthorized => axum::Json(json!({
                "Code": "AssumeRoleUnauthorizedAccess", "Message": "EC2 cannot assume the role", "LastUpdated": "2024-01-01T00:00:00Z",
            }))
            .into_response(),
            _ => credentials("ASIAIMDS"),
        },
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn credentials(key: &str) -> Response {
    axum::Json(json!({
        "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2024-01-01T00:00:00Z", "AccessKeyId": key, "SecretAccessKey": "s",
        "Token": "t", "Expiration": "2099-01-01T00:00:00Z",
    }))
    .into_response()
}

fn sts(mood: Mood, body: &str) -> Response {
    assert!(
        body.contains("Action=AssumeRoleWithWebIdentity") && body.contains("WebIdentityToken=irsa-token"),
        "{body}"
    );
    let error = |code: &str, message: &str| {
        let xml = format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
        );
        (StatusCode::BAD_REQUEST, [("content-type", "text/xml")], xml).into_response()
    };
    match mood {
        Mood::Denied => error("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"),
        Mood::ExpiredToken => error("ExpiredTokenException", "Token expired"),
        _ => (
            [("content-type", "text/xml")],
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAIRSA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials><AssumedRoleUser><Arn>arn:aws:sts::111122223333:assumed-role/r/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser></AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>",
        )
            .into_response(),
    }
}

/// A runner whose every AWS endpoint is the emulation; instance metadata off unless asked for.
fn runner(fake: &Fake, aws: &Aws) -> Runner {
    Runner::bare()
        .env("RUNNER_CONTROL_PLANE_URL", &fake.url)
        .env("RUNNER_ATTESTATION_MODE", "aws-sts")
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_ENDPOINT_URL_SSO", &aws.url)
        .env("AWS_ENDPOINT_URL_STS", &aws.url)
}

async fn enrols_with(runner: &Runner, fake: &Fake, key: &str) {
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let calls = fake.calls();
    let headers = &calls.last().unwrap().body["attestation"]["headers"];
    let authorization = headers["authorization"].as_str().unwrap();
    assert!(authorization.contains(&format!("Credential={key}/")), "{authorization}");
}

fn first_error(output: &Output) -> &str {
    output.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{output:?}"))
}

#[tokio::test]
async fn environment() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let runner = runner(&fake, &aws).env("AWS_ACCESS_KEY_ID", "AKIAENV").env("AWS_SECRET_ACCESS_KEY", "s");
    enrols_with(&runner, &fake, "AKIAENV").await;
    assert!(aws.calls().is_empty());
}

#[tokio::test]
async fn shared_profile() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let runner = runner(&fake, &aws).env("AWS_PROFILE", "work");
    runner.file(".aws/credentials", "[work]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = s\n");
    enrols_with(&runner, &fake, "AKIAPROFILE").await;
}

#[tokio::test]
async fn credential_process() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let runner = runner(&fake, &aws);
    let script = runner.file("helper", "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"ASIAPROCESS\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"t\",\"Expiration\":\"2099-01-01T00:00:00Z\"}'\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    runner.file(".aws/config", &format!("[default]\ncredential_process = {}\n", script.display()));
    enrols_with(&runner, &fake, "ASIAPROCESS").await;
    std::fs::write(&script, "#!/bin/sh\nexit 3\n").unwrap();
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("AWS credentials"), "{output:?}");
}

#[tokio::test]
async fn a_source_that_hangs_is_given_up() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let runner = runner(&fake, &aws);
    runner.file(".aws/config", "[default]\ncredential_process = sleep 600\n");
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 69, "{output:?}");
    assert!(first_error(&output).contains("no source answered within 20 seconds"), "{output:?}");
    assert!(fake.calls().is_empty());
}

/// `~/.aws/sso/cache/<SHA-1 of the session name>.json`, as `aws sso login` writes it.
fn sso(runner: &Runner, expires_at: &str) {
    runner.file(
        ".aws/config",
        "[default]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = runner\n\n[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n",
    );
    runner.file(
        ".aws/sso/cache/SHA.json".replace("SHA", SHA1_OF_CORP).as_str(),
        &json!({"startUrl": "https://corp.example/start", "region": "eu-west-1", "accessToken": "sso-token", "expiresAt": expires_at})
            .to_string(),
    );
}

const SHA1_OF_CORP: &str = "ee0bfd2552fbd840c02cc48b6e823320543c450f";

#[tokio::test]
async fn sso_session() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let live = runner(&fake, &aws);
    sso(&live, "2099-01-01T00:00:00Z");
    enrols_with(&live, &fake, "ASIASSO").await;

    let expired = runner(&fake, &aws);
    sso(&expired, "2020-01-01T00:00:00Z");
    let output = expired.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("SSO session has expired: log in again"), "{output:?}");
    assert!(output.stderr.contains("aws sso login"), "{output:?}");

    let absent = runner(&fake, &aws);
    sso(&absent, "2099-01-01T00:00:00Z");
    std::fs::remove_dir_all(absent.dir.path().join(".aws/sso")).unwrap();
    let output = absent.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("no AWS SSO session on this machine: log in"), "{output:?}");

    let revoked = Aws::start(Mood::Denied).await;
    let revoked = runner(&fake, &revoked);
    sso(&revoked, "2099-01-01T00:00:00Z");
    let output = revoked.run(&["enroll"]).await;
    assert!(first_error(&output).contains("log in again"), "{output:?}");
}

fn irsa(runner: Runner) -> Runner {
    let token = runner.file("irsa", "irsa-token");
    runner
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap())
        .env("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/pod-role")
}

#[tokio::test]
async fn web_identity() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    enrols_with(&irsa(runner(&fake, &aws)), &fake, "ASIAIRSA").await;
    assert_eq!(aws.calls(), ["POST /"]);

    let aws = Aws::start(Mood::Denied).await;
    let output = irsa(runner(&fake, &aws)).run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    let error = first_error(&output);
    assert!(error.contains("trust policy of the role") && error.contains("role/pod-role"), "{output:?}");

    let aws = Aws::start(Mood::ExpiredToken).await;
    let output = irsa(runner(&fake, &aws)).run(&["enroll"]).await;
    assert_eq!(output.status, 77, "{output:?}");
    assert!(
        first_error(&output).contains("web identity token") && first_error(&output).contains("expired"),
        "{output:?}"
    );

    let output = irsa(runner(&fake, &aws)).env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9").run(&["enroll"]).await;
    assert_eq!(output.status, 69, "{output:?}");
    assert!(first_error(&output).contains("cannot be reached from this machine"), "{output:?}");

    let output = irsa(runner(&fake, &aws)).env("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such/token").run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("/no/such/token"), "{output:?}");
}

#[tokio::test]
async fn container_endpoint() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let runner = runner(&fake, &aws);
    let token = runner.file("pod", "pod-token");
    let runner = runner
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", aws.url))
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap());
    enrols_with(&runner, &fake, "ASIAPOD").await;
    std::fs::write(&token, "stale").unwrap();
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("AWS credentials"), "{output:?}");
}

#[tokio::test]
async fn instance_metadata() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let on = |aws: &Aws| {
        runner(&fake, aws).env("AWS_EC2_METADATA_DISABLED", "").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &aws.url)
    };
    enrols_with(&on(&aws), &fake, "ASIAIMDS").await;

    let silent = Aws::start(Mood::Silent).await;
    let output = on(&silent).run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("hop limit"), "{output:?}");
    assert!(output.stderr.contains("--http-put-response-hop-limit 2"), "{output:?}");

    let no_role = Aws::start(Mood::NoRole).await;
    let output = on(&no_role).run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(first_error(&output).contains("the instance has no role"), "{output:?}");

    let failing = Aws::start(Mood::Failing(503)).await;
    let output = on(&failing).run(&["attest"]).await;
    assert_eq!(output.status, 69, "{output:?}");
    assert!(first_error(&output).contains("answers with status 503; the credentials are not at fault"), "{output:?}");

    let unauthorized = Aws::start(Mood::Unauthorized).await;
    let output = on(&unauthorized).run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    let error = first_error(&output);
    assert!(error.contains("instance-role") && error.contains("AssumeRoleUnauthorizedAccess"), "{output:?}");
}

/// The SDK's own client does so, and a laptop behind a proxy has no other way to AWS.
#[tokio::test]
async fn a_proxy_is_the_way_to_aws() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let behind = irsa(runner(&fake, &aws))
        .env("AWS_ENDPOINT_URL_STS", "http://sts.example.invalid")
        .env("HTTP_PROXY", &aws.url)
        .env("NO_PROXY", "127.0.0.1");
    enrols_with(&behind, &fake, "ASIAIRSA").await;
    assert_eq!(aws.calls(), ["POST http://sts.example.invalid/"]);
}

#[tokio::test]
async fn nothing_anywhere_lists_each_source() {
    let (fake, aws) = (Fake::start([]).await, Aws::start(Mood::Good).await);
    let output = runner(&fake, &aws).env("AWS_PROFILE", "nope").run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    let error = first_error(&output);
    for word in [
        "no AWS credentials anywhere",
        "environment",
        "profile `nope`",
        "web identity",
        "container endpoint",
        "instance metadata",
        "AWS_EC2_METADATA_DISABLED",
    ] {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(fake.calls().is_empty());
    let elsewhere = runner(&fake, &aws)
        .env("AWS_EC2_METADATA_DISABLED", "")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9");
    let output = elsewhere.run(&["enroll"]).await;
    assert!(first_error(&output).contains("nothing answers at http://127.0.0.1:9"), "{output:?}");
}
