//! Settings judged: from flags and environment to a [`Config`], or the text that says what is missing.
//!
//! The order is part of the contract (PROTOCOL, Runner): mode, then what the mode needs, and only then the address, so that a
//! missing credential is never reported as something else. An empty value counts as unset. Nothing here touches the network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use protocol::Mode;
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::cli::Options;
use crate::failure::Failure;
use crate::output::{escaped, one_line, without_tokens};
use crate::token_file::{self, TokenFileError};

/// Looks up an environment variable; the process's own in the binary, a table in tests.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where state lives unless told otherwise.
pub const STATE_DIR: &str = "/var/lib/rootpilot-runner";

/// How this runner attests, with what the mode needs.
#[derive(Debug, Clone)]
pub enum Method {
    /// `bootstrap-token`.
    BootstrapToken(TokenOrigin),
    /// `aws-sts`.
    AwsSts {
        /// `AWS_REGION`.
        region: String,
    },
    /// `gke-oidc`, `eks-oidc`.
    Kubernetes {
        /// Whose cluster.
        platform: Platform,
        /// The projected token.
        path: PathBuf,
    },
}

/// Where the bootstrap token comes from.
#[derive(Clone)]
pub enum TokenOrigin {
    /// `RUNNER_BOOTSTRAP_TOKEN`.
    Variable(Zeroizing<String>),
    /// `RUNNER_BOOTSTRAP_TOKEN_FILE`, read afresh for every attempt.
    File(PathBuf),
}

impl std::fmt::Debug for TokenOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(_) => f.write_str("Variable(redacted)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Kubernetes with projected ServiceAccount tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Google Kubernetes Engine.
    Gke,
    /// Amazon Elastic Kubernetes Service.
    Eks,
}

impl Platform {
    /// The mode of its tokens.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Gke => Mode::GkeOidc,
            Self::Eks => Mode::EksOidc,
        }
    }

    /// The fail-fast texts of PROTOCOL, with what else is known on later lines.
    pub fn token_failure(self, path: &Path, error: &TokenFileError) -> Failure {
        let (mode, path_text) = (self.mode(), shown_path(path));
        let failure = match (error, self) {
            (TokenFileError::Empty, _) => {
                Failure::fail_fast(format!("RUNNER_ATTESTATION_MODE={mode}: projected token at {path_text} is empty"))
            }
            (_, Self::Gke) => Failure::fail_fast(format!(
                "RUNNER_ATTESTATION_MODE=gke-oidc: failed to read projected KSA token at {path_text} (is the Workload Identity token volume mounted?)"
            )),
            (_, Self::Eks) => Failure::fail_fast(format!(
                "RUNNER_ATTESTATION_MODE=eks-oidc: failed to read projected ServiceAccount token at {path_text} (is the token volume mounted? On EKS, aws-sts needs none)"
            )),
        };
        failure.hint(token_file_hint(path, error))
    }
}

/// A path as it is, unless it is a token that was put in the place of one.
fn shown_path(path: &Path) -> String {
    without_tokens(&path.display().to_string()).into_owned()
}

/// What to do about a token file, in one sentence that names the cause.
fn token_file_hint(path: &Path, error: &TokenFileError) -> String {
    let path = shown_path(path);
    match error {
        TokenFileError::Missing => {
            format!("{error}: mount a projected volume whose serviceAccountToken path ends there")
        }
        TokenFileError::Permission => format!(
            "{error} for uid {}: set `fsGroup` or `runAsUser` in the pod's securityContext, or the file's owner",
            rustix::process::geteuid().as_raw()
        ),
        TokenFileError::Directory => format!("{error}: name the token file inside {path}"),
        TokenFileError::Empty => "the kubelet has written no token yet, or something else made the file".to_owned(),
        TokenFileError::NotAFile | TokenFileError::Io(_) | TokenFileError::TooLarge | TokenFileError::NotText => {
            error.to_string()
        }
    }
}

impl Method {
    /// The mode.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::BootstrapToken(_) => Mode::BootstrapToken,
            Self::AwsSts { .. } => Mode::AwsSts,
            Self::Kubernetes { platform, .. } => platform.mode(),
        }
    }
}

/// Everything that a command needs, judged.
#[derive(Debug, Clone)]
pub struct Config {
    /// The control plane.
    pub control_plane: ControlPlaneUrl,
    /// How to attest.
    pub method: Method,
    /// What evidence and renewals name.
    pub audience: String,
    /// Where identity is kept.
    pub state_dir: PathBuf,
    /// Command run after each new certificate.
    pub on_renew: Option<String>,
    /// More certificate authorities for the control plane.
    pub ca_file: Option<PathBuf>,
}

impl Config {
    /// Judges flags and environment.
    pub fn resolve(options: &Options, environment: Environment<'_>) -> Result<Self, Failure> {
        let method = method(options, environment)?;
        let control_plane = ControlPlaneUrl::from_options(options)?;
        let audience = audience(options, &control_plane)?;
        log_format(options)?;
        Ok(Self {
            control_plane,
            method,
            audience,
            state_dir: state_dir(options),
            on_renew: set(options.on_renew.as_ref()).cloned(),
            ca_file: set_path(options.ca_file.as_ref()),
        })
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// `RUNNER_LOG_FORMAT`.
pub fn log_format(options: &Options) -> Result<LogFormat, Failure> {
    match set(options.log_format.as_ref()).map_or("text", String::as_str) {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(Failure::configuration(format!("RUNNER_LOG_FORMAT=\"{}\" must be text or json", escaped(other)))
            .hint_opt(blanks(other))),
    }
}

/// The state directory alone, for commands that need nothing else.
pub fn state_dir(options: &Options) -> PathBuf {
    set_path(options.state_dir.as_ref()).unwrap_or_else(|| PathBuf::from(STATE_DIR))
}

/// What an editor or a shell added, and nobody sees.
fn blanks(value: &str) -> Option<&'static str> {
    (value.trim() != value)
        .then_some("there is white space around it: a blank, or the line end of the file it came from")
}

fn set(value: Option<&String>) -> Option<&String> {
    value.filter(|text| !text.is_empty())
}

fn set_path(value: Option<&OsString>) -> Option<PathBuf> {
    value.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The mode and what it needs.
pub fn method(options: &Options, environment: Environment<'_>) -> Result<Method, Failure> {
    match set(options.attestation_mode.as_ref()).map_or("bootstrap-token", String::as_str) {
        "bootstrap-token" => bootstrap_token(options, environment),
        "aws-sts" => aws_sts(options, environment),
        "gke-oidc" => kubernetes(Platform::Gke, options),
        "eks-oidc" => kubernetes(Platform::Eks, options),
        other => Err(unknown_mode(other)),
    }
}

fn unknown_mode(mode: &str) -> Failure {
    let failure = Failure::fail_fast(format!(
        "RUNNER_ATTESTATION_MODE={} is not one of bootstrap-token, aws-sts, gke-oidc, eks-oidc",
        escaped(mode)
    ));
    if mode == "mtls-renewal" {
        return failure
            .hint("mtls-renewal is not a configurable mode: it is how a runner renews the certificate that another mode got it");
    }
    let known = ["bootstrap-token", "aws-sts", "gke-oidc", "eks-oidc"];
    let close =
        known.into_iter().find(|name| name.replace('-', "") == mode.to_ascii_lowercase().replace(['-', '_', ' '], ""));
    failure.hint_opt(close.map(|name| format!("did you mean {name}?")))
}

fn bootstrap_token(options: &Options, environment: Environment<'_>) -> Result<Method, Failure> {
    if let Some(value) = environment("RUNNER_BOOTSTRAP_TOKEN").filter(|value| !value.is_empty()) {
        let bytes = Zeroizing::new(value.into_encoded_bytes());
        return match token_file::clean(&bytes) {
            Ok(token) => Ok(Method::BootstrapToken(TokenOrigin::Variable(token))),
            Err(TokenFileError::Empty) => Err(no_bootstrap_token()),
            Err(_) => Err(Failure::configuration(
                "RUNNER_BOOTSTRAP_TOKEN is not one line of text: it does not hold a bootstrap token",
            )
            .hint("a token has the form rpbt_<tenant>_<id>_<secret>")),
        };
    }
    let Some(path) = set_path(options.bootstrap_token_file.as_ref()) else { return Err(no_bootstrap_token()) };
    let origin = TokenOrigin::File(path);
    origin.read()?;
    Ok(Method::BootstrapToken(origin))
}

fn no_bootstrap_token() -> Failure {
    Failure::fail_fast("RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN").hint(
        "ask the operator for a token of your tenant (edgectl token mint), or choose another RUNNER_ATTESTATION_MODE",
    )
}

impl TokenOrigin {
    /// The token now.
    pub fn read(&self) -> Result<Zeroizing<String>, Failure> {
        match self {
            Self::Variable(token) => Ok(token.clone()),
            Self::File(path) => token_file::read(path).map_err(|error| {
                let message = format!("RUNNER_BOOTSTRAP_TOKEN_FILE: cannot use {}: {error}", shown_path(path));
                match error {
                    _ if path.as_os_str().as_encoded_bytes().starts_with(b"rpbt_") => Failure::configuration(message)
                        .hint("it must name a file: a token itself goes into RUNNER_BOOTSTRAP_TOKEN"),
                    TokenFileError::Permission => Failure::configuration(message)
                        .hint(format!("this process runs as uid {}", rustix::process::geteuid().as_raw())),
                    _ => Failure::configuration(message)
                        .hint("the file must hold the token that the operator minted, and nothing else"),
                }
            }),
        }
    }
}

fn aws_sts(options: &Options, environment: Environment<'_>) -> Result<Method, Failure> {
    let Some(region) = set(options.aws_region.as_ref()) else {
        let other = environment("AWS_DEFAULT_REGION").filter(|value| !value.is_empty());
        return Err(Failure::fail_fast("RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION").hint(match other {
            Some(value) => format!(
                "AWS_DEFAULT_REGION={} is set but is not used: the region is never guessed; set AWS_REGION itself",
                one_line(&value.to_string_lossy())
            ),
            None => {
                "the region is never guessed: the control plane accepts only the regions of its own list".to_owned()
            }
        }));
    };
    let host_label = region.len() <= 63 && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !host_label || region.starts_with('-') || region.ends_with('-') {
        return Err(Failure::configuration(format!(
            "AWS_REGION=\"{}\" is not the name of an AWS region",
            escaped(region)
        ))
        .hint("a region looks like eu-west-1")
        .hint_opt(blanks(region)));
    }
    Ok(Method::AwsSts { region: region.clone() })
}

fn kubernetes(platform: Platform, options: &Options) -> Result<Method, Failure> {
    let (path, default) = match platform {
        Platform::Gke => (&options.gke_token_path, protocol::GKE_TOKEN_PATH),
        Platform::Eks => (&options.eks_token_path, protocol::EKS_TOKEN_PATH),
    };
    let path = set_path(path.as_ref()).unwrap_or_else(|| PathBuf::from(default));
    token_file::read(&path).map_err(|error| platform.token_failure(&path, &error))?;
    Ok(Method::Kubernetes { platform, path })
}

/// `RUNNER_AUDIENCE`, or the host name of the address.
pub fn audience(options: &Options, control_plane: &ControlPlaneUrl) -> Result<String, Failure> {
    let Some(audience) = set(options.audience.as_ref()) else { return Ok(control_plane.host()) };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:/-".contains(&b);
    if audience.len() > 255 || !audience.bytes().all(allowed) {
        return Err(Failure::configuration(format!(
            "RUNNER_AUDIENCE=\"{}\" cannot be used: it must be 1 to 255 of the characters A-Z a-z 0-9 . _ : / -",
            escaped(audience)
        ))
        .hint("it is the `audience` of the control plane's policy")
        .hint_opt(blanks(audience)));
    }
    Ok(audience.clone())
}

/// The control plane's address: https, or http to loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneUrl(Url);

impl ControlPlaneUrl {
    /// From the flags, or the sentence that says it is missing or wrong.
    pub fn from_options(options: &Options) -> Result<Self, Failure> {
        let Some(text) = set(options.control_plane_url.as_ref()) else {
            return Err(Failure::configuration("RUNNER_CONTROL_PLANE_URL is not set")
                .hint("it is the https address of the control plane, such as https://edge.example.com"));
        };
        Self::parse(text)
    }

    /// Judges an address.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::configuration(format!("RUNNER_CONTROL_PLANE_URL={} {what}", one_line(text)));
        let url = Url::parse(text.trim()).map_err(|_| {
            if text.contains('@') {
                return Failure::configuration(
                    "RUNNER_CONTROL_PLANE_URL is not a URL, and must not contain a user name or password",
                );
            }
            wrong("is not a URL").hint("it must start with https:// and name a host, such as https://edge.example.com")
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Failure::configuration("RUNNER_CONTROL_PLANE_URL must not contain a user name or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must not have a query or fragment"));
        }
        let this = Self(url);
        match this.0.scheme() {
            "https" if this.0.host().is_some() => Ok(this),
            "http" if this.is_loopback() => Ok(this),
            "http" => Err(wrong("cannot be used: https is required; http is accepted for loopback addresses only")),
            _ => Err(wrong("cannot be used: https is required").hint("such as https://edge.example.com")),
        }
    }

    /// Whether it names this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// Whether TLS protects it.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Host name, lower case, without port or brackets: the default audience.
    pub fn host(&self) -> String {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase()
    }

    /// Port, also where it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(443)
    }

    /// A route below it.
    pub fn route(&self, path: &str) -> String {
        format!("{}{path}", self.as_str())
    }

    /// As text, without a final slash.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl std::fmt::Display for ControlPlaneUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
