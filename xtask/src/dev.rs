//! `cargo xtask dev`: the stack left running, with the commands to try.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::bundle::{self, Profile};
use crate::credentials::Credentials;
use crate::operator::{Operator, ReadyPolicy};
use crate::progress::{Step, note};
use crate::ready_policy::{self, ACME_ACCOUNT, ACME_USER};
use crate::stack::{Emulators, Options, Stack};
use crate::tools::{self, Need};
use crate::{Output, binaries, http, paths};

/// Access key of the user `developer` in the STS emulator; stands for nothing anywhere else.
const DEVELOPER_KEY: (&str, &str) = ("AKIADEVELOPER0000000", "development-only-secret-access-key-00000");

/// Said on standard input by a parent that ends and leaves us running.
pub const STAY: &str = "stay";

#[derive(Args)]
pub struct DevArgs {
    /// Port of the verifier on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 8787)]
    port: u16,
    /// Where objects, logs and the ready policy are kept between runs
    #[arg(long, value_name = "DIR", default_value = ".dev/state")]
    state_dir: PathBuf,
    /// Start no STS and no OIDC issuer; the ready policy then has bootstrap tokens only
    #[arg(long)]
    no_emulators: bool,
    /// Use a worker that is not optimised: builds in a fraction of the time
    #[arg(long)]
    unoptimised: bool,
    /// Form of the ready message on standard output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// End when standard input does, unless it said `stay` first
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    /// The bundle that the caller built, as it did the binaries
    #[arg(long, hide = true, value_name = "DIR")]
    built: Option<PathBuf>,
}

/// The one line of `--output json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Ready {
    /// Address of the verifier.
    pub url: String,
    /// Bearer token of the admin routes.
    pub admin_token: String,
    /// Bearer token of `/v1/verify`.
    pub service_token: String,
    /// Address of the STS emulator.
    pub sts_url: Option<String>,
    /// Address of the OIDC issuer.
    pub issuer_url: Option<String>,
    /// Root certificates, PEM.
    pub trust_bundle: String,
    /// Process to send SIGTERM to.
    pub pid: u32,
}

/// Starts the stack, says so, waits for a signal.
pub fn run(args: &DevArgs) -> Result<bool> {
    let tools = tools::prepare(Need::Build)?;
    let bundle = if let Some(dir) = &args.built {
        dir.clone()
    } else {
        binaries::build()?;
        bundle::build(&tools, Profile::new(args.unoptimised))?
    };
    let credentials = Credentials::load_or_make()?;
    // From here on, so that a signal while servers start is not lost and still ends them; until here it ends us.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD]).context("cannot handle signals")?;
    let options = Options { port: args.port, state: absolute(&args.state_dir), bundle, emulators: !args.no_emulators };
    let step = Step::begin("Verifier in workerd");
    let mut stack = Stack::start(&tools, &credentials, &options)?;
    let ready = prepare(&stack, &credentials, &options)?;
    step.end("ready");
    match args.output {
        Output::Json => println!("{}", serde_json::to_string(&ready)?),
        Output::Text => print!("{}", guide(&ready, &options.state)),
    }
    if args.until_stdin_ends {
        thread::spawn(raise_when_stdin_ends);
    }
    for signal in signals.forever() {
        if signal != SIGCHLD {
            break;
        }
        if let Some((name, status)) = stack.ended() {
            bail!("{name} ended by itself with {status}; see {}", options.state.join(format!("{name}.log")).display());
        }
    }
    drop(stack);
    eprintln!("stopped");
    Ok(true)
}

fn absolute(dir: &Path) -> PathBuf {
    // Relative to where the user stands for a given one; `cargo xtask` keeps the working directory.
    if dir == Path::new(".dev/state") {
        paths::root().join(dir)
    } else {
        std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
    }
}

fn raise_when_stdin_ends() {
    let mut said = String::new();
    let _ = std::io::stdin().lock().read_to_string(&mut said);
    if said.trim() != STAY {
        let _ = signal_hook::low_level::raise(SIGTERM);
    }
}

/// Policy in force, an identity in the emulator, the trust bundle fetched.
fn prepare(stack: &Stack, credentials: &Credentials, options: &Options) -> Result<Ready> {
    let policy = ready_policy::render(stack.emulators.as_ref());
    let operator = Operator::new(&stack.url, credentials);
    if operator.apply_ready_policy(&policy, &options.state)? == ReadyPolicy::Replaced {
        note("the state directory holds a policy of yours, which stays in force");
    }
    stack.wait_until_healthy()?;
    if let Some(emulators) = &stack.emulators {
        add_developer(emulators)?;
    }
    let trust_bundle = http::get_text(&format!("{}/v1/trust-bundle", stack.url))?;
    fs::write(options.state.join("trust-bundle.pem"), &trust_bundle)?;
    Ok(Ready {
        url: stack.url.clone(),
        admin_token: credentials.admin_token.clone(),
        service_token: credentials.service_token.clone(),
        sts_url: stack.emulators.as_ref().map(|emulators| emulators.sts_url.clone()),
        issuer_url: stack.emulators.as_ref().map(|emulators| emulators.issuer_url.clone()),
        trust_bundle,
        pid: std::process::id(),
    })
}

fn add_developer(emulators: &Emulators) -> Result<()> {
    let (id, secret) = DEVELOPER_KEY;
    let order = json!({
        "kind": "user", "account": ACME_ACCOUNT, "name": ACME_USER, "key": {"access_key_id": id, "secret_access_key": secret},
    });
    let answer = http::post(&format!("{}/_control/credentials", emulators.sts_url), &order)?;
    anyhow::ensure!(answer.status == 200, "the STS emulator refused a user: {} {}", answer.status, answer.body);
    Ok(())
}

/// Commands that work as they stand.
fn guide(ready: &Ready, state: &Path) -> String {
    let Ready { url, admin_token, service_token, .. } = ready;
    let emulated = match (&ready.sts_url, &ready.issuer_url) {
        (Some(sts), Some(issuer)) => emulated_modes(sts, issuer),
        _ => String::new(),
    };
    let bin = paths::target().join("debug");
    let bundle = state.join("trust-bundle.pem");
    let (bin, bundle, state) = (bin.display(), bundle.display(), state.display());
    format!(
        "
The verifier is up at {url}. Ctrl-C stops it; {state} is kept.

In another terminal:

  export PATH={bin}:$PATH
  export EDGECTL_URL={url} EDGECTL_TOKEN={admin_token}
  export EDGECTL_SERVICE_TOKEN={service_token}
  export RUNNER_CONTROL_PLANE_URL={url}

Enroll by bootstrap token:

  RUNNER_BOOTSTRAP_TOKEN=$(edgectl token mint acme) RUNNER_STATE_DIR=/tmp/runner-token runner enroll
{emulated}
Look around:

  edgectl runner list acme
  edgectl audit acme
  edgectl policy show
  openssl verify -CAfile {bundle} -untrusted /tmp/runner-token/certificate.pem /tmp/runner-token/certificate.pem

"
    )
}

fn emulated_modes(sts: &str, issuer: &str) -> String {
    let (id, secret) = DEVELOPER_KEY;
    let (audience, eks) = (ready_policy::AUDIENCE, ready_policy::EKS_ISSUER);
    format!(
        "
By AWS identity (the user {ACME_USER} of the STS emulator):

  AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} \\
    AWS_ENDPOINT_URL_STS={sts} AWS_REGION=us-east-1 \\
    RUNNER_ATTESTATION_MODE=aws-sts RUNNER_STATE_DIR=/tmp/runner-aws runner enroll

By a Kubernetes token (the OIDC issuer stands for a GKE cluster):

  curl -s -d '{{\"audience\":[\"{audience}\"]}}' {issuer}/_control/token | cut -d'\"' -f4 > /tmp/gke-token
  RUNNER_ATTESTATION_MODE=gke-oidc RUNNER_GKE_TOKEN_PATH=/tmp/gke-token \\
    RUNNER_STATE_DIR=/tmp/runner-gke runner enroll

The same with a token of an EKS cluster:

  curl -s -d '{{\"audience\":[\"{audience}\"],\"issuer\":\"{eks}\"}}' {issuer}/_control/token | cut -d'\"' -f4 > /tmp/eks-token
  RUNNER_ATTESTATION_MODE=eks-oidc RUNNER_EKS_TOKEN_PATH=/tmp/eks-token \\
    RUNNER_STATE_DIR=/tmp/runner-eks runner enroll
"
    )
}
