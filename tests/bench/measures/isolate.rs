//! P2: one RS256 verification with parsing and claim checks in a loop inside the isolate, against a bare `crypto.subtle.verify` loop in JS.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edge_tests::figures::{all_rounded, median, rounded};
use edge_tests::stack::GKE_ISSUER;
use edge_tests::workerd::{Server, Worker};
use serde_json::{Value, json};

use super::alternate;
use crate::load::{Load, Shot, Until};
use crate::material::Mint;
use crate::report::Row;
use crate::scene::Scene;

const ROUNDS: usize = 15;
const COUNT: u32 = 5_000;
const GOAL: f64 = 1.5;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let bundle = scene.isolate.clone().context("--isolate was not given")?;
    let worker = Worker { bundle, main: "isolate.mjs".to_owned(), objects: Vec::new(), ..scene.ours().clone() };
    let server = scene.start(&worker, "isolate")?;
    let task = json!({
        "policy": scene.policy(["acme"]).to_string(),
        "jwks": scene.issuer.jwks(GKE_ISSUER).to_string(),
        "token": Mint::rs256(&scene.issuer).token("acme", 0),
        "now": std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs(),
        "count": COUNT,
    });
    turn(&server, "/ours", &task)?;
    turn(&server, "/bare", &task)?;
    let (ours, bare) = alternate(ROUNDS, |_| turn(&server, "/ours", &task), |_| turn(&server, "/bare", &task))?;
    let ratio = median(&ours) / median(&bare);
    Ok(vec![Row {
        id: "P2",
        title: "one RS256 verification in the isolate; in the column of the peer a bare crypto.subtle.verify",
        unit: "µs",
        value: json!(rounded(ratio, 3)),
        ours: json!(rounded(median(&ours), 2)),
        peer: json!(rounded(median(&bare), 2)),
        is_ratio: true,
        goal: Some("≤ 1.5, then ≤ 1.3"),
        met: Some(ratio <= GOAL),
        samples: json!({"ours": all_rounded(&ours, 3), "peer": all_rounded(&bare, 3), "unit": "µs"}),
    }])
}

/// Microseconds of one pass through a loop.
fn turn(server: &Server, path: &'static str, task: &Value) -> Result<f64> {
    let load = Load {
        address: server.address(),
        path,
        connections: 1,
        shots: [Shot::json(task.to_string(), None)].into(),
        until: Until::AllSent,
        check: |body| {
            ensure!(body == b"done", "the loop failed");
            Ok(())
        },
        keep: false,
        forgiving: false,
    };
    let took: Duration = load.fire()?.elapsed;
    Ok(took.as_secs_f64() * 1e6 / f64::from(COUNT))
}
