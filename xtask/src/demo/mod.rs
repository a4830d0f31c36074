//! `cargo xtask demo`: the main job, seen from outside, with the real programs.
//!
//! A `cargo xtask dev` of its own is started on a fresh state directory. Real runners enroll by every mode, each certificate
//! is checked by `openssl verify`, each is renewed once; then one refusal of each kind. What does not hold is
//! collected and told at the end, so that one fault does not hide another.

mod host;
mod modes;
mod refusals;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use self::report::Report;
use crate::bundle::{self, Profile};
use crate::credentials::Credentials;
use crate::dev::{Ready, STAY};
use crate::operator::Operator;
use crate::process::Server;
use crate::progress::Step;
use crate::tools::{self, Need};
use crate::{Output, binaries, http, paths};

#[derive(Args)]
pub struct DemoArgs {
    /// Leave verifier and emulators running afterwards, and say how to stop them
    #[arg(long)]
    keep: bool,
    /// Use a worker that is not optimised: builds in a fraction of the time
    #[arg(long)]
    unoptimised: bool,
    /// Form of the summary on standard output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Goes through everything. True when all of it held.
pub fn run(args: &DemoArgs) -> Result<bool> {
    tools::openssl()?;
    let tools = tools::prepare(Need::Build)?;
    let bundle = bundle::build(&tools, Profile::new(args.unoptimised))?;
    binaries::build()?;
    let credentials = Credentials::load_or_make()?;
    let mut folder = tempfile::Builder::new().prefix("rootpilot-demo-").tempdir()?;
    let outcome = perform(args, &bundle, &credentials, folder.path());
    if args.keep || !matches!(outcome, Ok(true)) {
        folder.disable_cleanup(true);
        eprintln!("State, logs and certificates are in {}", folder.path().display());
    }
    outcome
}

fn perform(args: &DemoArgs, bundle: &Path, credentials: &Credentials, folder: &Path) -> Result<bool> {
    let (server, ready) = start(folder, bundle)?;
    let scene = Scene { operator: Operator::new(&ready.url, credentials), ready: &ready, folder };
    let mut report = Report::default();
    for part in [modes::show, refusals::show] {
        if let Err(error) = part(&scene, &mut report) {
            report.broken(format!("{error:#}"));
        }
    }
    match args.output {
        Output::Text => print!("{}", report.text()),
        Output::Json => println!("{}", report.json()),
    }
    if args.keep {
        server.leave(STAY)?;
        eprintln!("Left running at {}; stop with: kill {}", ready.url, ready.pid);
    }
    Ok(report.holds())
}

/// Starts `dev`, which ends when we do, even when we are killed.
fn start(folder: &Path, bundle: &Path) -> Result<(Server, Ready)> {
    let step = Step::begin("Verifier in workerd, STS emulator, OIDC issuer");
    let mut command = Command::new(paths::own()?);
    command.args(["dev", "--output", "json", "--port", "0", "--until-stdin-ends", "--state-dir"]);
    command.arg(folder.join("dev")).arg("--built").arg(bundle);
    let (server, ready) = Server::start("dev", &mut command, None, &folder.join("dev.log"))?;
    let ready: Ready = serde_json::from_value(ready).context("the ready line of dev")?;
    step.end(&ready.url);
    Ok((server, ready))
}

/// Where it all happens.
struct Scene<'a> {
    ready: &'a Ready,
    operator: Operator<'a>,
    folder: &'a Path,
}

impl Scene<'_> {
    fn sts_url(&self) -> &str {
        self.ready.sts_url.as_deref().unwrap_or_default()
    }

    /// An order to an emulator; its answer.
    fn order(base: &str, path: &str, order: &Value) -> Result<Value> {
        let url = format!("{base}/_control/{path}");
        let answer = http::post(&url, order)?;
        anyhow::ensure!(answer.status == 200, "{url} answered {} {}", answer.status, answer.body);
        Ok(answer.body)
    }

    /// An order to the STS emulator.
    fn order_sts(&self, path: &str, order: &Value) -> Result<Value> {
        Self::order(self.sts_url(), path, order)
    }

    /// Temporary credentials of a role, as an EC2 instance has them.
    fn role_session(&self, role: &str, session: &str) -> Result<Value> {
        let account = crate::ready_policy::ACME_ACCOUNT;
        let order = json!({"kind": "role_session", "account": account, "role": role, "session": session});
        self.order_sts("credentials", &order)
    }

    /// A projected service account token of a cluster in a file, as the kubelet writes it.
    fn token_file(&self, name: &str, cluster: &str, audience: &str) -> Result<PathBuf> {
        let emulator = self.ready.issuer_url.as_deref().context("no OIDC issuer")?;
        let pod = format!("runner-{name}");
        let answer = Self::order(emulator, "token", &json!({"issuer": cluster, "audience": [audience], "pod": pod}))?;
        let path = self.folder.join(format!("{name}.token"));
        std::fs::write(&path, answer["token"].as_str().context("the issuer gave no token")?)?;
        Ok(path)
    }
}
