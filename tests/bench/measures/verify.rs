//! P1: `POST /v1/verify` with `consume: false`, 16 connections, keys cached.
//!
//! Both read replay, ban and state in the tenant's object, as PROTOCOL wants it. The extra row shows a peer that checks the token alone.

use std::time::Duration;

use anyhow::{Result, ensure};
use edge_tests::workerd::Server;
use serde_json::json;

use super::{alternate, beside, note_rounds};
use crate::load::{Fired, Load, Shot, Until};
use crate::material::{Mint, is_allowed};
use crate::report::Row;
use crate::scene::Scene;
use edge_tests::figures::{all_rounded, median, rounded};

const ROUNDS: usize = 15;
const TOKENS: usize = 400;
const CONNECTIONS: usize = 16;
const WARM_UP: Duration = Duration::from_secs(2);
const ROUND: Duration = Duration::from_millis(2500);
const GOAL: f64 = 1.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let policy = scene.policy(["acme"]);
    let shots = Mint::rs256(&scene.issuer).verifications("acme", TOKENS, &scene.service_token);
    let fire = |server: &Server, time| -> Result<Fired> {
        let load = Load {
            address: server.address(),
            path: "/v1/verify",
            connections: CONNECTIONS,
            shots: shots.clone(),
            until: Until::Passed(time),
            check: is_allowed,
            keep: false,
            forgiving: false,
        };
        load.fire()
    };
    let ours = scene.start_ours("verify-ours", &policy)?;
    let peer = scene.start_peer("verify-peer", &policy)?;
    let alone = scene.start(&scene.peer(&policy).with("TOKEN_ALONE", "1"), "verify-alone")?;
    for server in [&ours, &peer, &alone] {
        fire(server, WARM_UP)?;
    }
    let (of_ours, of_peer) = alternate(ROUNDS, |_| fire(&ours, ROUND), |_| fire(&peer, ROUND))?;
    let of_alone = (0..3).map(|_| fire(&alone, ROUND)).collect::<Result<Vec<_>>>()?;
    let rates = |fired: &[Fired]| fired.iter().map(Fired::per_second).collect::<Vec<_>>();
    let latency = |fired: &[Fired]| fired.iter().map(|fired| fired.latency.json()).collect::<Vec<_>>();
    let (ours, peer, alone) = (rates(&of_ours), rates(&of_peer), rates(&of_alone));
    note_rounds("requests/s", &ours, &peer);
    let ratio = median(&ours) / median(&peer);
    let main = Row {
        id: "P1",
        title: "POST /v1/verify, gke-oidc RS256",
        unit: "requests/s",
        value: json!(rounded(ratio, 3)),
        ours: json!(rounded(median(&ours), 0)),
        peer: json!(rounded(median(&peer), 0)),
        is_ratio: true,
        goal: Some("≥ 1.0, then ≥ 1.2"),
        met: Some(ratio >= GOAL),
        samples: json!({
            "ours": all_rounded(&ours, 0), "peer": all_rounded(&peer, 0), "unit": "requests/s",
            "ours_latency_ms": latency(&of_ours), "peer_latency_ms": latency(&of_peer),
        }),
    };
    let extra = Row {
        id: "verify_token_alone",
        title: "the same, against a peer that reads neither replay nor ban",
        unit: "requests/s",
        value: json!(rounded(median(&ours) / median(&alone), 3)),
        ours: main.ours.clone(),
        peer: json!(rounded(median(&alone), 0)),
        is_ratio: true,
        samples: json!({"peer": all_rounded(&alone, 0)}),
        ..Row::default()
    };
    Ok(vec![main, extra, yardstick(scene)?])
}

/// What the machine does with the least worker there is: by it figures of different machines can be compared.
fn yardstick(scene: &Scene) -> Result<Row> {
    let server = scene.start(&scene.bare("hello", include_str!("../js/hello.mjs"), &[])?, "hello")?;
    let fire = |time| -> Result<f64> {
        let load = Load {
            address: server.address(),
            path: "/",
            connections: CONNECTIONS,
            shots: [Shot::json("", None)].into(),
            until: Until::Passed(time),
            check: |body| {
                ensure!(body == b"hello", "not the least worker");
                Ok(())
            },
            keep: false,
            forgiving: false,
        };
        Ok(load.fire()?.per_second())
    };
    fire(WARM_UP)?;
    let rates = (0..3).map(|_| fire(ROUND)).collect::<Result<Vec<_>>>()?;
    let title = "the machine: a JavaScript worker that says hello";
    Ok(beside("hello", title, "requests/s", rounded(median(&rates), 0), json!({"peer": all_rounded(&rates, 0)})))
}
