//! Enrolment by every mode, the certificate checked by OpenSSL, one renewal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Scene;
use super::host::Host;
use super::report::{Enrolled, Report};
use crate::process::{Server, capture};
use crate::progress::{Step, note};
use crate::{http, ready_policy};

/// How long the runner may take for a renewal that it was told to make at once.
const RENEWAL: Duration = Duration::from_secs(30);

/// Goes through the modes.
pub fn show(scene: &Scene, report: &mut Report) -> Result<()> {
    let token = scene.operator.mint("acme")?;
    let bootstrap = Host::new(scene, "bootstrap-token").with("RUNNER_BOOTSTRAP_TOKEN", token);
    one(scene, "bootstrap-token", &bootstrap, report)?;

    let session = scene.role_session(ready_policy::ACME_ROLE, "i-0123456789abcdef0")?;
    let aws = Host::new(scene, "aws-sts").with_aws(scene, &session);
    one(scene, "aws-sts", &aws, report)?;

    let token = scene.token_file("gke-oidc", ready_policy::AUDIENCE)?;
    let gke = Host::new(scene, "gke-oidc").with_gke(&token);
    one(scene, "gke-oidc", &gke, report)
}

fn one(scene: &Scene, mode: &'static str, host: &Host, report: &mut Report) -> Result<()> {
    let step = Step::begin(format!("Enroll by {mode}"));
    let answer = match host.enroll()? {
        Ok(answer) => answer,
        Err(refused) => {
            report.broken(format!("{mode}: refused with {} {:?}: {}", refused.code, refused.reason, refused.message));
            return Ok(());
        }
    };
    let record = record(scene, &answer)?;
    note(format_args!("identity {}", text(&record, "identity")?));
    let certificate = host.certificate();
    check(scene, mode, &certificate, report);
    if let Err(error) = renew(host, &certificate) {
        report.broken(format!("{mode}: no renewal: {error:#}"));
    } else {
        note("renewed with a new key");
        check(scene, mode, &certificate, report);
    }
    let renewed = self::record(scene, &answer)?;
    if renewed["serial"] == record["serial"] {
        report.broken(format!("{mode}: the renewal gave no new serial"));
    }
    report.enrolled(Enrolled {
        mode,
        identity: text(&renewed, "identity")?,
        tenant: text(&renewed, "tenant")?,
        runner_id: text(&renewed, "runner_id")?,
        not_after: text(&renewed, "not_after")?,
    });
    step.end("certificate issued, checked, renewed");
    Ok(())
}

/// What the verifier keeps about the runner: the identity that it saw proven, not what the runner says of itself.
fn record(scene: &Scene, answer: &Value) -> Result<Value> {
    let (tenant, id) = (text(answer, "tenant")?, text(answer, "runner_id")?);
    let url = format!("{}/v1/admin/tenants/{tenant}/runners/{id}", scene.ready.url);
    let answer = http::get(&url, Some(&scene.ready.admin_token))?;
    ensure!(answer.status == 200, "{url} answered {} {}", answer.status, answer.body);
    Ok(answer.body)
}

/// `openssl verify` against the trust bundle, strictly, with the intermediates that came with the leaf.
fn check(scene: &Scene, mode: &str, certificate: &Path, report: &mut Report) {
    let bundle = scene.folder.join("dev/trust-bundle.pem");
    let mut openssl = Command::new("openssl");
    openssl.args(["verify", "-x509_strict", "-purpose", "sslclient", "-CAfile"]);
    openssl.arg(bundle).arg("-untrusted").arg(certificate).arg(certificate);
    match capture(&mut openssl) {
        Ok(_) => note("openssl verify: OK"),
        Err(error) => report.broken(format!("{mode}: {error:#}")),
    }
}

/// The daemon is told by SIGHUP to renew at once; the new certificate replaces the file.
fn renew(host: &Host, certificate: &PathBuf) -> Result<()> {
    let before = fs::read(certificate)?;
    let log = host.state.join("run.log");
    let (mut runner, _) = Server::start("runner", &mut host.runner(&["run"]), None, &log)?;
    runner.signal(rustix::process::Signal::HUP);
    let deadline = Instant::now() + RENEWAL;
    while fs::read(certificate)? == before {
        if let Some((_, status)) = runner.ended() {
            anyhow::bail!("the runner ended with {status}: {}", fs::read_to_string(&log)?.trim());
        }
        ensure!(Instant::now() < deadline, "nothing new after {RENEWAL:?}: {}", fs::read_to_string(&log)?.trim());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn text(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {value}"))
}
