//! The real `runner` and `edgectl`, run against a stack.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{AUDIENCE, Stack, places};
use crate::emulators::Credentials;
use crate::process::ChildProcess;

/// How a program ended and what it wrote.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Exit status; -1 for a signal.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Of a program that is run to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().expect("a binary of the workspace starts");
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// This, if the exit status is `status`.
    #[must_use]
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A machine with a runner: a state directory and an environment that inherits only `PATH`.
#[derive(Debug, Clone)]
pub struct Host {
    /// State directory of the runner.
    pub state: PathBuf,
    environment: Vec<(String, String)>,
}

impl Host {
    pub(super) fn new(stack: &Stack, name: &str) -> Self {
        let state = stack.folder().join("hosts").join(name);
        std::fs::create_dir_all(&state).expect("a folder can be made");
        let home = state.display().to_string();
        let host = Self { state, environment: Vec::new() };
        host.with("RUNNER_CONTROL_PLANE_URL", stack.url())
            .with("RUNNER_AUDIENCE", AUDIENCE)
            .with("RUNNER_STATE_DIR", &home)
            .with("HOME", &home)
            .with("AWS_EC2_METADATA_DISABLED", "true")
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same in mode `bootstrap-token`.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with("RUNNER_ATTESTATION_MODE", "bootstrap-token").with("RUNNER_BOOTSTRAP_TOKEN", token)
    }

    /// The same in mode `aws-sts`.
    #[must_use]
    pub fn with_aws(self, credentials: &Credentials, region: &str, endpoint: &str) -> Self {
        let host = self
            .with("RUNNER_ATTESTATION_MODE", "aws-sts")
            .with("AWS_REGION", region)
            .with("AWS_ENDPOINT_URL_STS", endpoint)
            .with("AWS_ACCESS_KEY_ID", &credentials.access_key_id)
            .with("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key);
        match &credentials.session_token {
            Some(token) => host.with("AWS_SESSION_TOKEN", token),
            None => host,
        }
    }

    /// The same in mode `gke-oidc` or `eks-oidc`, with the token in a file.
    #[must_use]
    pub fn with_projected(self, mode: &str, token: &str) -> Self {
        let file = self.state.with_extension("token");
        std::fs::write(&file, token).expect("a token file can be written");
        let variable = if mode == "gke-oidc" { "RUNNER_GKE_TOKEN_PATH" } else { "RUNNER_EKS_TOKEN_PATH" };
        self.with("RUNNER_ATTESTATION_MODE", mode).with(variable, &file.display().to_string())
    }

    /// The runner, about to run here.
    pub fn runner(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("runner"));
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `runner … --output json` to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.runner(arguments).args(["--output", "json"]))
    }

    /// Starts `runner run --output json`.
    pub fn start(&self) -> ChildProcess {
        ChildProcess::spawn(self.runner(&["run"]).args(["--output", "json"])).expect("the runner starts")
    }
}

/// Runs `edgectl …` to its end.
pub(super) fn edgectl(stack: &Stack, arguments: &[&str]) -> Ended {
    Ended::of(&mut edgectl_command(stack, arguments))
}

/// Starts `edgectl …`.
pub(super) fn start_edgectl(stack: &Stack, arguments: &[&str]) -> ChildProcess {
    ChildProcess::spawn(&mut edgectl_command(stack, arguments)).expect("edgectl starts")
}

/// `edgectl … --output json` with both tokens of `stack`.
fn edgectl_command(stack: &Stack, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("edgectl"));
    command
        .args(arguments)
        .args(["--output", "json"])
        .env_clear()
        .env("EDGECTL_URL", stack.url())
        .env("EDGECTL_TOKEN", stack.admin_token())
        .env("EDGECTL_SERVICE_TOKEN", stack.service_token());
    command
}

/// `edgectl ca init` into `folder`.
pub(super) fn ca_init(folder: &Path) {
    let mut command = Command::new(binary("edgectl"));
    let _ = Ended::of(command.args(["ca", "init", "--organization", "Example Inc", "--out"]).arg(folder)).expect(0);
}

fn binary(name: &str) -> PathBuf {
    places::binary(name).unwrap_or_else(|missing| panic!("{missing}"))
}
