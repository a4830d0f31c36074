//! AWS credentials: the SDK's default chain, and the one message that says why it came to nothing.
//!
//! The chain itself is the SDK's (environment, profile and SSO cache, web identity, container endpoint, instance metadata) and is
//! built afresh for every attempt, so that what people change on disk counts at once. Nothing of it is touched in other modes.

use std::error::Error as _;
use std::sync::OnceLock;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Feature;
use aws_credential_types::provider::{ProvideCredentials as _, error::CredentialsError};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::service_config::ServiceConfigKey;
use jiff::Timestamp;

use crate::failure::{Class, Failure, Remedy};
use crate::output::one_line;

/// Bound on the whole chain.
const LOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Bound on one look at the instance metadata service.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Credentials, and the SDK's settings that choose the STS endpoint.
#[derive(Debug)]
pub struct Loaded {
    /// The credentials.
    pub credentials: Credentials,
    /// `AWS_ENDPOINT_URL_STS`, `AWS_ENDPOINT_URL`, or the profile's.
    pub endpoint_url: Option<String>,
    /// `AWS_USE_FIPS_ENDPOINT`.
    pub use_fips: bool,
    /// `AWS_USE_DUALSTACK_ENDPOINT`.
    pub use_dual_stack: bool,
}

impl Loaded {
    /// Name of the source that the credentials came from, for people.
    pub fn source(&self) -> String {
        let features = self.credentials.get_property::<Vec<Feature>>().map(Vec::as_slice).unwrap_or_default();
        let has = |wanted: &[Feature]| features.iter().any(|feature| wanted.contains(feature));
        let source = if has(&[Feature::CredentialsSso, Feature::CredentialsProfileSso]) {
            "AWS profile with SSO"
        } else if has(&[Feature::CredentialsProcess, Feature::CredentialsProfileProcess]) {
            "AWS profile with credential_process"
        } else if has(&[Feature::CredentialsProfile]) {
            "AWS profile"
        } else if has(&[Feature::CredentialsEnvVarsStsWebIdToken, Feature::CredentialsStsAssumeRoleWebId]) {
            "web identity (IRSA)"
        } else if has(&[Feature::CredentialsHttp]) {
            "container endpoint"
        } else if has(&[Feature::CredentialsImds]) {
            "instance metadata"
        } else if has(&[Feature::CredentialsEnvVars]) {
            "environment variables"
        } else {
            "AWS SDK"
        };
        source.to_owned()
    }
}

/// Runs the default chain for `region`.
pub async fn load(region: &str) -> Result<Loaded, Failure> {
    let sdk = sdk_config(region).await;
    let Some(provider) = sdk.credentials_provider() else {
        return Err(Failure::configuration("the AWS SDK has no credentials provider"));
    };
    let credentials = match tokio::time::timeout(LOAD_TIMEOUT, provider.provide_credentials()).await {
        Ok(Ok(credentials)) => credentials,
        Ok(Err(error)) => return Err(explain(&error).await),
        Err(_) => {
            return Err(Failure::unreachable(format!(
                "AWS credentials: no source answered within {} seconds",
                LOAD_TIMEOUT.as_secs()
            ))
            .hint("RUST_LOG=info,aws_config=debug shows which source hangs"));
        }
    };
    refuse_expired(&credentials)?;
    Ok(Loaded {
        endpoint_url: endpoint_url(&sdk),
        use_fips: sdk.use_fips().unwrap_or_default(),
        use_dual_stack: sdk.use_dual_stack().unwrap_or_default(),
        credentials,
    })
}

async fn sdk_config(region: &str) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(6))
        .operation_timeout(Duration::from_secs(15))
        .build();
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(region.to_owned()))
        .http_client(http_client())
        .timeout_config(timeouts)
        .load()
        .await
}

/// One client for the process: it holds the certificate authorities. Made as the SDK's own, which takes `HTTPS_PROXY` from the environment,
/// but for the library of cryptography.
fn http_client() -> SharedHttpClient {
    static CLIENT: OnceLock<SharedHttpClient> = OnceLock::new();
    let build = || {
        Builder::new().build_with_connector_fn(|settings, components| {
            let mut connector = ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::Ring));
            connector.set_connector_settings(settings.cloned());
            connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
            connector.set_proxy_config(Some(ProxyConfig::from_env()));
            connector.build()
        })
    };
    CLIENT.get_or_init(build).clone()
}

/// The configured endpoint of STS, found as the SDK's own client finds it.
fn endpoint_url(sdk: &SdkConfig) -> Option<String> {
    let key =
        ServiceConfigKey::builder().service_id("STS").env("AWS_ENDPOINT_URL").profile("endpoint_url").build().ok()?;
    sdk.service_config().and_then(|config| config.load_config(key)).or_else(|| sdk.endpoint_url().map(str::to_owned))
}

fn refuse_expired(credentials: &Credentials) -> Result<(), Failure> {
    let expiry = credentials.expiry().and_then(|time| Timestamp::try_from(time).ok());
    match expiry {
        Some(end) if end < Timestamp::now() => Err(Failure::new(
            Class::Refused,
            Remedy::NewEvidence,
            format!("the AWS credentials expired at {end:.0}: renew them"),
        )
        .hint("if the clock of this machine is wrong, set it")),
        _ => Ok(()),
    }
}

/// From the SDK's error to the sentence a person needs. The SDK keeps its causes private, so they are told apart by its texts.
async fn explain(error: &CredentialsError) -> Failure {
    let full = format!("{}", DisplayErrorContext(error));
    let causes = causes(error);
    // Instance metadata is the last of the chain: its failure means that no other source had anything.
    if matches!(error, CredentialsError::CredentialsNotLoaded(_)) || full.contains("IMDS") {
        return nothing_found(&causes).await;
    }
    if let Some(failure) = unreadable_token_file() {
        return failure;
    }
    let is_sso = ["Sso", "SSO", "UnauthorizedException"].iter().any(|name| full.contains(name));
    if is_sso && let Some(failure) = explain_sso(&full, &causes) {
        return failure;
    }
    let web_identity = std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some_and(|path| !path.is_empty());
    if (web_identity || full.contains("AssumeRoleWithWebIdentity"))
        && let Some(failure) = explain_web_identity(&full, &causes)
    {
        return failure;
    }
    if full.contains("DispatchFailure") || full.contains("TimeoutError") || full.contains("TimedOut") {
        return Failure::unreachable(format!(
            "AWS credentials: their source cannot be reached from this machine: {causes}"
        ))
        .hint("this is the network between this machine and AWS, not the control plane");
    }
    if full.contains("AccessDenied") {
        return Failure::configuration(format!(
            "AWS credentials: AWS does not allow this role to be assumed: {causes}"
        ))
        .hint("look at the trust policy of the role");
    }
    Failure::configuration(format!("AWS credentials cannot be loaded: {causes}")).hint(
        "RUST_LOG=info,aws_config=debug shows each step; `aws sts get-caller-identity` should work as the same user",
    )
}

/// The SDK names an error of the system, but not the file that a variable sent it to.
fn unreadable_token_file() -> Option<Failure> {
    ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"].into_iter().find_map(|variable| {
        let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
        let error = std::fs::read(&path).err()?;
        let path = one_line(&path.to_string_lossy());
        Some(
            Failure::configuration(format!("AWS credentials: cannot read {path}, which {variable} names: {error}"))
                .hint("is the token volume of IRSA or EKS Pod Identity mounted, and readable by this user (fsGroup)?"),
        )
    })
}

fn explain_sso(full: &str, causes: &str) -> Option<Failure> {
    let profile = std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
    let login = match &profile {
        Some(name) => format!("log in again: aws sso login --profile {}", one_line(name)),
        None => "log in again: aws sso login".to_owned(),
    };
    let message =
        if full.contains("ExpiredToken") || full.contains("UnauthorizedException") || causes.contains("expired") {
            "the AWS SSO session has expired: log in again"
        } else if full.contains("CachedSsoTokenError") || causes.contains("cached SSO token") {
            "there is no AWS SSO session on this machine: log in"
        } else {
            return None;
        };
    Some(Failure::configuration(message).hint(login).hint(format!("the SDK says: {causes}")))
}

fn explain_web_identity(full: &str, causes: &str) -> Option<Failure> {
    let role = std::env::var("AWS_ROLE_ARN").unwrap_or_else(|_| "the role".to_owned());
    let role = one_line(&role);
    if full.contains("AccessDenied") {
        return Some(
            Failure::configuration(format!("AWS does not let this pod assume {role}: the trust policy of the role denies AssumeRoleWithWebIdentity"))
                .hint("the trust policy must name the cluster's OIDC provider, `sub` system:serviceaccount:<namespace>:<service account> and `aud` sts.amazonaws.com"),
        );
    }
    if full.contains("ExpiredToken") {
        let failure = Failure::new(
            Class::Refused,
            Remedy::NewEvidence,
            format!("the web identity token for {role} has expired and the kubelet has not rotated it"),
        );
        return Some(failure.hint("AWS_WEB_IDENTITY_TOKEN_FILE names it"));
    }
    if full.contains("InvalidIdentityToken") || full.contains("IDPRejectedClaim") {
        return Some(
            Failure::configuration(format!("AWS does not accept the web identity token for {role}: {causes}"))
                .hint("is the cluster's OIDC provider registered in IAM of the role's account, with audience sts.amazonaws.com?"),
        );
    }
    None
}

/// The chain of causes on one line, without the SDK's debug output.
fn causes(error: &CredentialsError) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() { error.to_string() } else { one_line(&parts.join(": ")) }
}

/// No source had anything: each one named, with what was looked for.
async fn nothing_found(causes: &str) -> Failure {
    let imds = probe_instance_metadata().await;
    if let Imds::AnswerLost(endpoint) = &imds {
        return Failure::configuration(format!(
            "no AWS credentials: the instance metadata service at {endpoint} took the token request, but its answer never arrived: \
             the hop limit of the instance is too low for a container"
        ))
        .hint("raise it: aws ec2 modify-instance-metadata-options --instance-id <id> --http-put-response-hop-limit 2")
        .hint("or give the pod its own role (IRSA, EKS Pod Identity), which needs no instance metadata")
        .hint(format!("before it, nothing was found in {}", tried().join("; ")));
    }
    let before = || format!("before it, nothing was found in {}", tried().join("; "));
    match &imds {
        Imds::Failing(endpoint, status) => return metadata_fails(endpoint, *status).hint(before()),
        Imds::Role(endpoint, role) => {
            return match status_in(causes).filter(|status| is_passing(*status)) {
                Some(status) => metadata_fails(endpoint, status),
                None => Failure::configuration(format!(
                    "AWS credentials: the instance metadata service at {endpoint} names the role {} but gives no credentials for it: {}",
                    one_line(role),
                    causes.split(". Response {").next().unwrap_or_default()
                ))
                .hint("does the trust policy of the role name ec2.amazonaws.com, and does the instance profile hold the role?"),
            }
            .hint(before());
        }
        _ => {}
    }
    let mut sources = tried();
    sources.push(format!("instance metadata: {imds}"));
    tracing::debug!(causes, "the AWS SDK found no credentials");
    Failure::configuration(format!("no AWS credentials anywhere; tried {}", sources.join("; "))).hint(
        "on a laptop: aws sso login, and AWS_PROFILE; on EC2: an instance profile; on EKS: IRSA or EKS Pod Identity",
    )
}

/// It is there and does not do its work: that may pass.
fn metadata_fails(endpoint: &str, status: u16) -> Failure {
    Failure::unreachable(format!(
        "AWS credentials: the instance metadata service at {endpoint} answers with status {status}; the credentials are not at fault"
    ))
}

/// An answer that may be another one a moment later.
const fn is_passing(status: u16) -> bool {
    status == 429 || status >= 500
}

/// The status that the SDK names in `error response from IMDS (code: 500). …`.
fn status_in(causes: &str) -> Option<u16> {
    let (_, after) = causes.split_once("(code: ")?;
    after.split(')').next()?.parse().ok()
}

/// What the chain looked for before instance metadata.
fn tried() -> Vec<String> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let state = |name: &str| if set(name) { format!("{name} is set") } else { format!("{name} is not set") };
    let profile =
        std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
    let container = ["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    vec![
        format!("environment: {}, {}", state("AWS_ACCESS_KEY_ID"), state("AWS_SECRET_ACCESS_KEY")),
        format!("profile `{}`: {}", one_line(&profile), profile_state(&profile)),
        format!("web identity (IRSA): {}", state("AWS_WEB_IDENTITY_TOKEN_FILE")),
        format!("container endpoint (ECS, EKS Pod Identity): {}", container.map(state).join(", ")),
    ]
}

fn profile_state(profile: &str) -> String {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    let file = |variable: &str, default: &str| {
        std::env::var_os(variable).filter(|path| !path.is_empty()).map_or_else(|| home.join(default), Into::into)
    };
    let files = [
        (file("AWS_CONFIG_FILE", ".aws/config"), format!("[profile {profile}]")),
        (file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), format!("[{profile}]")),
    ];
    let mut said = Vec::new();
    for (path, section) in files {
        let what = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be read ({error})"),
            Ok(text) if text.lines().any(|line| line.trim() == section || line.trim() == format!("[{profile}]")) => {
                "has the profile, but no credentials in it".to_owned()
            }
            Ok(_) => "does not have the profile".to_owned(),
        };
        said.push(format!("{} {what}", path.display()));
    }
    said.join(", ")
}

/// What the instance metadata service said to a look of our own.
enum Imds {
    Disabled,
    NoAnswer(String),
    AnswerLost(String),
    Refused(String, u16),
    Failing(String, u16),
    NoRole(String),
    Role(String, String),
}

impl std::fmt::Display for Imds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disabled => f.write_str("switched off by AWS_EC2_METADATA_DISABLED"),
            Self::NoAnswer(endpoint) => write!(f, "nothing answers at {endpoint} (not an EC2 instance?)"),
            Self::AnswerLost(endpoint) => write!(f, "the answer of {endpoint} was lost (hop limit)"),
            Self::Refused(endpoint, status) => write!(f, "{endpoint} refuses a token with status {status}"),
            Self::Failing(endpoint, status) => write!(f, "{endpoint} answers with status {status}"),
            Self::Role(endpoint, role) => write!(f, "{endpoint} names the role {}", one_line(role)),
            Self::NoRole(endpoint) => write!(f, "{endpoint} answers, but the instance has no role (instance profile)"),
        }
    }
}

async fn probe_instance_metadata() -> Imds {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Imds::Disabled;
    }
    let v6 = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
    let default = if v6 { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
    let endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| default.to_owned());
    let endpoint = endpoint.trim_end_matches('/').to_owned();
    let client = crate::control_plane::tls::without_authorities().ok().and_then(|tls| {
        let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls);
        builder.connect_timeout(PROBE_TIMEOUT).timeout(PROBE_TIMEOUT * 2).build().ok()
    });
    let Some(client) = client else { return Imds::NoAnswer(endpoint) };
    let request = client
        .put(format!("{endpoint}/latest/api/token"))
        .header("x-aws-ec2-metadata-token-ttl-seconds", "60")
        .header("content-length", "0");
    let token = match request.send().await {
        Ok(answer) if answer.status().is_success() => answer.text().await.unwrap_or_default(),
        Ok(answer) if is_passing(answer.status().as_u16()) => {
            return Imds::Failing(endpoint, answer.status().as_u16());
        }
        Ok(answer) => return Imds::Refused(endpoint, answer.status().as_u16()),
        Err(error) if error.is_timeout() && !error.is_connect() => return Imds::AnswerLost(endpoint),
        Err(_) => return Imds::NoAnswer(endpoint),
    };
    let roles = client
        .get(format!("{endpoint}/latest/meta-data/iam/security-credentials/"))
        .header("x-aws-ec2-metadata-token", token.trim())
        .send()
        .await;
    match roles {
        Ok(answer) if answer.status().is_success() => match answer.text().await.unwrap_or_default().lines().next() {
            Some(role) if !role.trim().is_empty() => Imds::Role(endpoint, role.trim().to_owned()),
            _ => Imds::NoRole(endpoint),
        },
        Ok(answer) if is_passing(answer.status().as_u16()) => Imds::Failing(endpoint, answer.status().as_u16()),
        _ => Imds::NoRole(endpoint),
    }
}
