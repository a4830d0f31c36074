//! P3: `POST /v1/enroll`, gke-oidc, all of it, 16 connections to one tenant; empty databases in every round, the same requests for both.

use anyhow::{Result, ensure};
use edge_tests::workerd::Server;
use serde_json::json;

use super::{Enrolment, alternate, note_rounds};
use crate::load::Fired;
use crate::material::{Certificates, Mint, Pods};
use crate::report::Row;
use crate::scene::Scene;
use edge_tests::figures::{all_rounded, median, rounded};

const ROUNDS: usize = 9;
const WARM_UP: usize = 300;
const ENROLMENTS: usize = 1_500;
const LOAD: Enrolment = Enrolment { connections: 16, keep: true };
const GOAL: f64 = 2.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let policy = scene.policy(["acme"]);
    let mint = Mint::rs256(&scene.issuer);
    let tenants = ["acme".to_owned()];
    let warm_up = mint.pods(&tenants, 0..WARM_UP);
    let pods = mint.pods(&tenants, WARM_UP..WARM_UP + ENROLMENTS);
    let round = |server: Server| -> Result<Fired> {
        LOAD.fire(&server, &warm_up.shots)?;
        let fired = LOAD.fire(&server, &pods.shots)?;
        server.stop()?;
        all_good(&pods, &fired)?;
        Ok(fired)
    };
    let (of_ours, of_peer) = alternate(
        ROUNDS,
        |_| round(scene.start_ours("enroll-ours", &policy)?),
        |_| round(scene.start_peer("enroll-peer", &policy)?),
    )?;
    let rates = |fired: &[Fired]| fired.iter().map(Fired::per_second).collect::<Vec<_>>();
    let latency = |fired: &[Fired]| fired.iter().map(|fired| fired.latency.json()).collect::<Vec<_>>();
    let (ours, peer) = (rates(&of_ours), rates(&of_peer));
    note_rounds("enrolments/s", &ours, &peer);
    let ratio = median(&ours) / median(&peer);
    Ok(vec![Row {
        id: "P3",
        title: "POST /v1/enroll, gke-oidc, one tenant",
        unit: "requests/s",
        value: json!(rounded(ratio, 3)),
        ours: json!(rounded(median(&ours), 0)),
        peer: json!(rounded(median(&peer), 0)),
        is_ratio: true,
        goal: Some("≥ 2.0, then ≥ 3.0"),
        met: Some(ratio >= GOAL),
        samples: json!({
            "ours": all_rounded(&ours, 1), "peer": all_rounded(&peer, 1), "unit": "requests/s",
            "ours_latency_ms": latency(&of_ours), "peer_latency_ms": latency(&of_peer),
        }),
    }])
}

/// A certificate for every key, no two alike.
fn all_good(pods: &Pods, fired: &Fired) -> Result<()> {
    let certificates = Certificates::read(pods, &fired.answers)?;
    ensure!(fired.count == pods.keys.len(), "{} answers to {} requests", fired.count, pods.keys.len());
    ensure!(certificates.duplicates == 0, "{} duplicate serials or runner ids", certificates.duplicates);
    Ok(())
}
