//! P6: from the start of the workerd process to the first answer of `/healthz`: script compiled, wasm instantiated, and ready to enrol.
//!
//! Ours reads its policy from the Policy object, the peer from a variable.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Result, ensure};
use edge_tests::workerd::Server;
use serde_json::json;

use super::alternate;
use crate::report::Row;
use crate::scene::Scene;
use edge_tests::figures::{all_rounded, median, millis, rounded};

const STARTS: usize = 25;
const GOAL: f64 = 1.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let policy = scene.policy(["acme"]);
    // The first start leaves configuration and storage behind; so it is with an isolate that starts on the edge.
    scene.start_ours("cold-ours", &policy)?.stop()?;
    scene.start_peer("cold-peer", &policy)?.stop()?;
    let (ours, peer) = alternate(STARTS, |_| first_answer(scene, "cold-ours"), |_| first_answer(scene, "cold-peer"))?;
    let times = |starts: &[Start]| starts.iter().map(|start| start.answered).collect::<Vec<_>>();
    let listening = |starts: &[Start]| starts.iter().map(|start| start.listening).collect::<Vec<_>>();
    let (of_ours, of_peer) = (times(&ours), times(&peer));
    let ratio = median(&of_ours) / median(&of_peer);
    Ok(vec![Row {
        id: "P6",
        title: "cold start to the first answer of /healthz",
        unit: "ms",
        value: json!(rounded(ratio, 3)),
        ours: json!(rounded(median(&of_ours), 1)),
        peer: json!(rounded(median(&of_peer), 1)),
        is_ratio: true,
        goal: Some("≤ 1.0"),
        met: Some(ratio <= GOAL),
        samples: json!({
            "ours": all_rounded(&of_ours, 2), "peer": all_rounded(&of_peer, 2), "unit": "ms",
            "ours_listening": all_rounded(&listening(&ours), 2), "peer_listening": all_rounded(&listening(&peer), 2),
        }),
    }])
}

/// Milliseconds since the process was started.
struct Start {
    listening: f64,
    answered: f64,
}

fn first_answer(scene: &Scene, name: &str) -> Result<Start> {
    let folder = scene.folder(name);
    let started = Instant::now();
    let server = Server::start_again(&scene.workerd, &folder.join("config.capnp"), &folder)?;
    let mut stream = TcpStream::connect(server.address())?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let answered = millis(started.elapsed());
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(Start { listening: millis(server.listening_after), answered })
}
