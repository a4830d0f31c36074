//! The verifier in workerd with the emulators beside it: what `dev` keeps running and `demo` goes through.
//!
//! Everything lives in one state directory, kept between runs: the objects' storage, the logs, the ports of the
//! emulators (a policy names them, so they must not move). One xtask at a time uses a state directory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::credentials::Credentials;
use crate::process::{self, Server};
use crate::tools::Tools;
use crate::{http, paths, ready_policy};

/// How the stack is to be started.
pub struct Options {
    /// Port of the verifier; 0 for any.
    pub port: u16,
    /// State directory, made when missing.
    pub state: PathBuf,
    /// Folder of the worker bundle.
    pub bundle: PathBuf,
    /// Whether STS and OIDC issuer are started.
    pub emulators: bool,
}

/// Addresses of the emulators.
#[derive(Clone, Debug, Deserialize)]
pub struct Emulators {
    /// For `AWS_ENDPOINT_URL_STS` and the policy.
    pub sts_url: String,
    /// Serves the keys of every issuer of the policy.
    pub issuer_url: String,
}

/// Everything running. Dropping it ends it.
pub struct Stack {
    /// Address of the verifier.
    pub url: String,
    /// Addresses of the emulators, unless they were left out.
    pub emulators: Option<Emulators>,
    servers: Vec<Server>,
    _lock: File,
}

impl Stack {
    /// Starts the servers and waits until each says it is ready.
    pub fn start(tools: &Tools, credentials: &Credentials, options: &Options) -> Result<Self> {
        let state = &options.state;
        fs::create_dir_all(state).with_context(|| format!("cannot create {}", state.display()))?;
        let lock = claim(state)?;
        let mut servers = Vec::new();
        let emulators = if options.emulators {
            let (server, emulators) = start_emulators(state)?;
            servers.push(server);
            Some(emulators)
        } else {
            None
        };
        let (server, url) = start_verifier(tools, credentials, options)?;
        servers.push(server);
        Ok(Self { url, emulators, servers, _lock: lock })
    }

    /// Waits until the verifier says it can enrol, which needs secrets and a policy.
    pub fn wait_until_healthy(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = http::get(&format!("{}/healthz", self.url), None)?;
            if answer.status == 200 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the verifier is not healthy: {} {}", answer.status, answer.body);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The first server that has ended by itself.
    pub fn ended(&mut self) -> Option<(&'static str, ExitStatus)> {
        self.servers.iter_mut().find_map(Server::ended)
    }
}

fn claim(state: &Path) -> Result<File> {
    let file = File::create(state.join(".lock"))?;
    if file.try_lock().is_err() {
        bail!("{} is in use by another cargo xtask; stop it or give --state-dir", state.display());
    }
    Ok(file)
}

/// Ports that the emulators had last time, so that a policy kept in the state directory still finds them.
#[derive(Default, Deserialize, Serialize)]
struct Ports {
    sts: u16,
    issuer: u16,
}

fn start_emulators(state: &Path) -> Result<(Server, Emulators)> {
    let memory = state.join("ports.json");
    let last: Ports = fs::read(&memory).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let mut command = process::guarded(&paths::binary("emulators"))?;
    command
        .args(["--sts-port", &free_or_any(last.sts).to_string()])
        .args(["--issuer-port", &free_or_any(last.issuer).to_string()])
        .args(["--issuer", ready_policy::GKE_ISSUER]);
    let (server, ready) = Server::start("emulators", &mut command, None, &state.join("emulators.log"))?;
    let emulators: Emulators = serde_json::from_value(ready).context("the emulators' ready line")?;
    let ports = Ports { sts: port_of(&emulators.sts_url)?, issuer: port_of(&emulators.issuer_url)? };
    fs::write(&memory, serde_json::to_vec(&ports)?)?;
    Ok((server, emulators))
}

fn start_verifier(tools: &Tools, credentials: &Credentials, options: &Options) -> Result<(Server, String)> {
    if options.port != 0 && !is_free(options.port) {
        bail!("port {} is taken; give another with --port, or 0 for any", options.port);
    }
    let mut command = tools.command(&tools.node);
    command.arg(paths::serve_script());
    let configuration = json!({
        "bundle": options.bundle,
        "wrangler": paths::root().join("wrangler.toml"),
        "state": options.state.join("verifier"),
        "port": options.port,
        "secrets": credentials.worker_secrets,
        // One address makes every request here: the limits would only hide what is to be seen.
        "vars": { "RATE_LIMITS": "off" },
    });
    let log = options.state.join("verifier.log");
    let (server, ready) = Server::start("verifier", &mut command, Some(&configuration), &log)?;
    let url = ready["url"].as_str().context("the verifier's ready line names no url")?;
    Ok((server, url.to_owned()))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

fn free_or_any(port: u16) -> u16 {
    if is_free(port) { port } else { 0 }
}

fn port_of(url: &str) -> Result<u16> {
    url.rsplit(':')
        .next()
        .and_then(|port| port.trim_end_matches('/').parse().ok())
        .with_context(|| format!("{url} has no port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(free_or_any(port), 0);
        assert_eq!(port_of(&format!("http://127.0.0.1:{port}")).unwrap(), port);
    }

    #[test]
    fn a_state_directory_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let first = claim(dir.path()).unwrap();
        assert!(claim(dir.path()).unwrap_err().to_string().contains("in use"));
        drop(first);
        claim(dir.path()).unwrap();
    }
}
