//! The daemon enrolls by every mode, OpenSSL checks the certificate, SIGHUP makes it renew, SIGTERM ends it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
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

    let token = scene.token_file("gke-oidc", ready_policy::GKE_ISSUER, ready_policy::AUDIENCE)?;
    let gke = Host::new(scene, "gke-oidc").with_gke(&token);
    one(scene, "gke-oidc", &gke, report)?;

    let token = scene.token_file("eks-oidc", ready_policy::EKS_ISSUER, ready_policy::AUDIENCE)?;
    let eks = Host::new(scene, "eks-oidc").with_eks(&token);
    one(scene, "eks-oidc", &eks, report)
}

fn one(scene: &Scene, mode: &'static str, host: &Host, report: &mut Report) -> Result<()> {
    let step = Step::begin(format!("Enroll by {mode}"));
    let (mut runner, enrolled) = host.run()?;
    if !enrolled["error"].is_null() {
        report.broken(format!("{mode}: {}", enrolled["error"]));
        return Ok(());
    }
    let first = record(scene, &enrolled)?;
    note(format_args!("identity {}", text(&first, "identity")?));
    let certificate = host.certificate();
    check(scene, mode, &certificate, report);
    match renew(&mut runner, host) {
        Ok(()) => note("renewed"),
        Err(error) => report.broken(format!("{mode}: {error:#}")),
    }
    check(scene, mode, &certificate, report);
    let renewed = record(scene, &enrolled)?;
    if renewed["serial"] == first["serial"] {
        report.broken(format!("{mode}: the renewal gave no new serial"));
    }
    if !runner.finish().success() {
        report.broken(format!("{mode}: the runner did not end cleanly on SIGTERM"));
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
fn renew(runner: &mut Server, host: &Host) -> Result<()> {
    let certificate = host.certificate();
    let before = fs::read(&certificate)?;
    runner.signal(Signal::HUP);
    let deadline = Instant::now() + RENEWAL;
    while fs::read(&certificate)? == before {
        if let Some((_, status)) = runner.ended() {
            bail!("the runner ended with {status} instead of renewing: {}", host.said());
        }
        ensure!(Instant::now() < deadline, "not renewed within {RENEWAL:?}: {}", host.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn text(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {value}"))
}
