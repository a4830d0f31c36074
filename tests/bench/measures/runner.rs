//! P9: the runner: size of its binary, resident memory after an hour of renewals, time of a first enrolment.
//!
//! An hour with a certificate a minute, far more than certificates of an hour need, is compressed by a relay between runner and verifier
//! that shortens the times of each answer; the certificates are real ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use edge_tests::emulators::server::Server as Relay;
use edge_tests::figures::{all_rounded, median, millis, rounded};
use edge_tests::process::ChildProcess;
use edge_tests::stack::AUDIENCE;
use edge_tests::usage;
use edge_tests::workerd::Server;
use serde_json::{Value, json};

use crate::interrupt;
use crate::load::{Shot, call};
use crate::report::Row;
use crate::scene::Scene;

const STARTS: usize = 25;
const RENEWALS: usize = 60;
const LONGEST: Duration = Duration::from_secs(110);
/// Life of a certificate as the relay tells it.
const LIFE: Duration = Duration::from_secs(2);
const GOALS: [f64; 3] = [12.0, 16.0, 60.0];

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let built = scene.runner.as_deref().context("--runner was not given")?;
    let runner = stripped(built, &scene.folder("runner"))?;
    let size = megabytes(runner.metadata()?.len());
    let server = scene.start_ours("runner-verifier", &scene.policy(["acme"]))?;
    let times = (0..STARTS).map(|start| enrol_once(scene, &server, &runner, start)).collect::<Result<Vec<_>>>()?;
    let memory = renew_for_an_hour(scene, &server, &runner)?;
    let value = [size, memory.last, median(&times)];
    let value = value.map(|value| rounded(value, 2));
    Ok(vec![Row {
        id: "P9",
        title: "runner: binary, MB; resident after an hour of renewals, MB; bootstrap enrolment to the end of the process, ms",
        value: json!(value),
        ours: json!(value),
        goal: Some("≤ 12 MB; ≤ 16 MB; ≤ 60 ms"),
        met: Some(value.iter().zip(GOALS).all(|(value, goal)| *value <= goal)),
        samples: json!({
            "binary_octets": runner.metadata()?.len(), "unstripped_octets": built.metadata()?.len(),
            "resident_mb": all_rounded(&memory.samples, 2), "highest_mb": rounded(memory.highest, 2),
            "renewals": memory.renewals, "enrol_ms": all_rounded(&times, 2),
        }),
        ..Row::default()
    }])
}

#[expect(clippy::cast_precision_loss, reason = "octets far below 2^52")]
fn megabytes(octets: u64) -> f64 {
    octets as f64 / 1e6
}

fn stripped(built: &Path, to: &Path) -> Result<PathBuf> {
    let status = Command::new("strip").arg("-o").arg(to).arg(built).status();
    ensure!(status.context("`strip` is missing (Debian: binutils)")?.success(), "`strip` failed");
    Ok(to.to_owned())
}

fn command(runner: &Path, url: &str, state: &Path, token: &str) -> Command {
    let mut command = Command::new(runner);
    command.env_clear().stdin(Stdio::null());
    command.env("RUNNER_CONTROL_PLANE_URL", url).env("RUNNER_AUDIENCE", AUDIENCE).env("RUNNER_STATE_DIR", state);
    command.env("RUNNER_ATTESTATION_MODE", "bootstrap-token").env("RUNNER_BOOTSTRAP_TOKEN", token);
    command
}

/// Milliseconds from the start of `runner enroll` to its end, which is a little after the certificate is on the disk.
fn enrol_once(scene: &Scene, server: &Server, runner: &Path, start: usize) -> Result<f64> {
    interrupt::check()?;
    let state = scene.folder(&format!("runner-state-{start}"));
    let token = scene.admin(server).mint("acme").token;
    let mut command = command(runner, &server.url(), &state, &token);
    let started = Instant::now();
    let output = command.arg("enroll").output()?;
    let took = started.elapsed();
    ensure!(output.status.success(), "runner enroll: {}", String::from_utf8_lossy(&output.stderr));
    ensure!(state.join("identity.json").is_file(), "runner enroll left no identity.json");
    Ok(millis(took))
}

struct Memory {
    last: f64,
    highest: f64,
    samples: Vec<f64>,
    renewals: usize,
}

fn renew_for_an_hour(scene: &Scene, server: &Server, runner: &Path) -> Result<Memory> {
    let relay = relay(server)?;
    let token = scene.admin(server).mint("acme").token;
    let mut command = command(runner, &relay.url(), &scene.folder("runner-state"), &token);
    let mut process = ChildProcess::spawn(command.args(["run", "--output", "json"]))?;
    let started = Instant::now();
    let mut memory = Memory { last: 0.0, highest: 0.0, samples: Vec::new(), renewals: 0 };
    while memory.renewals < RENEWALS {
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(500));
        ensure!(started.elapsed() < LONGEST, "only {} renewals:\n{}", memory.renewals, process.stderr());
        let (now, highest) = usage::memory(process.pid()).with_context(|| process.stderr())?;
        (memory.last, memory.highest) = (megabytes(now), megabytes(highest));
        memory.samples.push(memory.last);
        memory.renewals = renewals(scene, server);
    }
    process.terminate()?;
    Ok(memory)
}

/// As the verifier's audit log has them, up to a page.
fn renewals(scene: &Scene, server: &Server) -> usize {
    let events = scene.admin(server).audit("acme");
    events.iter().filter(|event| event.event.as_str() == "renew" && event.code.is_none()).count()
}

/// Passes calls on and makes the certificates of the answers look short-lived.
fn relay(server: &Server) -> Result<Relay> {
    let verifier = server.address();
    let router = Router::new().fallback(move |uri: Uri, body: Bytes| async move {
        match call(verifier, uri.path(), &Shot::json(body, None)).await {
            Ok((status, body)) => {
                let body = if status == StatusCode::OK { shortened(&body) } else { body.to_vec() };
                (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    });
    Ok(Relay::start(0, router)?)
}

fn shortened(body: &[u8]) -> Vec<u8> {
    let Ok(mut answer) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    let Some(now) = answer["server_time"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok()) else {
        return body.to_vec();
    };
    answer["not_after"] = json!((now + LIFE).to_string());
    answer["renew_after"] = json!((now + LIFE / 2).to_string());
    answer.to_string().into_bytes()
}
