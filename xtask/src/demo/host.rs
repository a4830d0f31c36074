//! A machine with a runner on it: a state directory and an environment, nothing inherited but the PATH.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Scene;
use crate::paths;
use crate::process::{self, Server};

/// One machine.
pub struct Host {
    /// Its state directory.
    pub state: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// A refusal as the runner tells it.
pub struct Refused {
    /// Exit status.
    pub exit: i32,
    /// Error code of the protocol.
    pub code: String,
    /// Reason, when the code has one.
    pub reason: Option<String>,
    /// What a person reads.
    pub message: String,
}

impl Host {
    /// A machine that knows the verifier's address and nothing else.
    pub fn new(scene: &Scene, name: &str) -> Self {
        let state = scene.folder.join(name);
        let environment = vec![
            ("RUNNER_CONTROL_PLANE_URL", scene.ready.url.clone()),
            ("RUNNER_STATE_DIR", state.display().to_string()),
            ("HOME", state.display().to_string()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        Self { state, environment }
    }

    /// The same with one more variable.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// The same in mode aws-sts with the emulator's credentials.
    pub fn with_aws(self, scene: &Scene, credentials: &Value) -> Self {
        let host = self
            .with("RUNNER_ATTESTATION_MODE", "aws-sts")
            .with("AWS_REGION", "us-east-1")
            .with("AWS_ENDPOINT_URL_STS", scene.sts_url());
        [
            ("AWS_ACCESS_KEY_ID", "access_key_id"),
            ("AWS_SECRET_ACCESS_KEY", "secret_access_key"),
            ("AWS_SESSION_TOKEN", "session_token"),
        ]
        .into_iter()
        .filter_map(|(variable, field)| Some((variable, credentials[field].as_str()?)))
        .fold(host, |host, (variable, value)| host.with(variable, value))
    }

    /// The same in mode gke-oidc.
    pub fn with_gke(self, token: &Path) -> Self {
        self.with("RUNNER_ATTESTATION_MODE", "gke-oidc").with("RUNNER_GKE_TOKEN_PATH", token.display().to_string())
    }

    /// The same in mode eks-oidc.
    pub fn with_eks(self, token: &Path) -> Self {
        self.with("RUNNER_ATTESTATION_MODE", "eks-oidc").with("RUNNER_EKS_TOKEN_PATH", token.display().to_string())
    }

    /// Leaf and intermediates, PEM.
    pub fn certificate(&self) -> PathBuf {
        self.state.join("certificate.pem")
    }

    /// The runner, about to run here.
    fn runner(&self, arguments: &[&str]) -> Command {
        self.provide(Command::new(paths::binary("runner")), arguments)
    }

    fn provide(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .args(["--output", "json"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// `runner run`, once it has printed its first line: the certificate, or why there is none.
    pub fn run(&self) -> Result<(Server, Value)> {
        std::fs::create_dir_all(&self.state)?;
        let mut runner = self.provide(process::guarded(&paths::binary("runner"))?, &["run"]);
        Server::start("runner", &mut runner, None, &self.log())
    }

    fn log(&self) -> PathBuf {
        self.state.with_extension("log")
    }

    /// What the daemon wrote to standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default().trim().to_owned()
    }

    /// `runner enroll`, or what it was refused for.
    pub fn enroll(&self) -> Result<Result<Value, Refused>> {
        let output = self.runner(&["enroll"]).output().context("cannot start runner")?;
        let answer = last_json(&output.stdout).with_context(|| {
            format!("`runner enroll` gave no JSON: {}", String::from_utf8_lossy(&output.stderr).trim())
        })?;
        if output.status.success() {
            return Ok(Ok(answer));
        }
        let error = &answer["error"];
        let Some(code) = error["code"].as_str() else {
            bail!("`runner enroll` failed before the verifier answered: {}", error["message"])
        };
        Ok(Err(Refused {
            exit: output.status.code().unwrap_or(-1),
            code: code.to_owned(),
            reason: error["reason"].as_str().map(str::to_owned),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
        }))
    }

    /// The body that `enroll` would send, secrets and all.
    pub fn evidence(&self) -> Result<Value> {
        let text = process::capture(&mut self.runner(&["attest", "--reveal"]))?;
        serde_json::from_str(&text).context("`runner attest` gave no JSON")
    }
}

/// The last line that is a JSON object.
fn last_json(output: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok().filter(Value::is_object))
}
