//! P7: latency of an enrolment with 100,000 runners in the tenant against one with 100.
//!
//! Every runner is a real enrolment over HTTP, so that all rows are as the verifier writes them; tokens are ES256, which is quicker to sign.
//!
//! On the edge a tenant's object has a thread of its own, and the workers that ask it are elsewhere. What one object carries is therefore measured without
//! them: what they asked while the fleet enrolled is asked again of a new object by as many callers as before (`js/replaying.mjs`).

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, ensure};
use edge_tests::emulators::oidc::{KeyAlgorithm, Rotation};
use edge_tests::figures::{all_rounded, median, rounded};
use edge_tests::stack::GKE_ISSUER;
use edge_tests::usage;
use edge_tests::workerd::Server;
use serde_json::{Value, json};

use super::{Enrolment, alternate, figure};
use crate::load::{self, Shot};
use crate::material::{Mint, Pods};
use crate::report::{Row, note};
use crate::scene::Scene;

const LARGE: usize = 100_000;
const SMALL: usize = 100;
const CHUNK: usize = 5_000;
const FILL: Enrolment = Enrolment { connections: 32, keep: false };
const ROUNDS: usize = 41;
const ENROLMENTS: usize = 100;
const ONE_BY_ONE: Enrolment = Enrolment { connections: 1, keep: false };
const GOAL: f64 = 1.1;
/// The fleet is to be back within five minutes, seconds.
const COLD_START: f64 = 300.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let small: Vec<String> = (0..ROUNDS).map(|round| format!("small-{round}")).collect();
    let policy = scene.policy(std::iter::once("acme").chain(small.iter().map(String::as_str)));
    let rotation = Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: true, sign_with_new: false };
    let key = scene.issuer.rotate(GKE_ISSUER, rotation);
    let mint = Mint { issuer: &scene.issuer, key: Some(&key) };
    let acme = ["acme".to_owned()];

    let replaying = scene.wrapped("replaying", include_str!("../js/replaying.mjs"))?;
    let large = scene.start_ours_as(&replaying, "scale-large", &policy)?;
    let rates = fill(&large, mint, &acme)?;
    let alone = replay(&large)?;
    let little = scene.start_ours_as(&replaying, "scale-small", &policy)?;
    let mut next = LARGE;
    let mut pods = |tenants: &[String], count: usize| -> Pods {
        next += count;
        mint.pods(tenants, next - count..next)
    };
    FILL.fire(&little, &pods(&small, SMALL * ROUNDS).shots)?;

    let batches: Vec<(Pods, Pods)> =
        small.iter().map(|tenant| (pods(&acme, ENROLMENTS), pods(std::slice::from_ref(tenant), ENROLMENTS))).collect();
    let latency = |fired: crate::load::Fired| fired.latency.quantile(0.5);
    let (of_large, of_small) = alternate(
        ROUNDS,
        |round| Ok(latency(ONE_BY_ONE.fire(&large, &batches[round].0.shots)?)),
        |round| Ok(latency(ONE_BY_ONE.fire(&little, &batches[round].1.shots)?)),
    )?;
    let ratio = median(&of_large) / median(&of_small);
    let folder = large.folder().join("state");
    large.stop()?;
    let stored = usage::octets(&folder, |path| path.to_string_lossy().contains(".sqlite"))?;
    // The object that was asked again has the fleet once more.
    let runners = LARGE * 2 + ENROLMENTS * ROUNDS;
    Ok(vec![
        Row {
            id: "P7",
            title: "enrolment with 100,000 runners stored (ours) and with 100 (in the column of the peer), one at a time",
            unit: "ms",
            value: json!(rounded(ratio, 3)),
            ours: json!(rounded(median(&of_large), 3)),
            peer: json!(rounded(median(&of_small), 3)),
            is_ratio: true,
            goal: Some("≤ 1.1"),
            met: Some(ratio <= GOAL),
            samples: json!({"large": all_rounded(&of_large, 3), "small": all_rounded(&of_small, 3), "unit": "ms"}),
        },
        figure(
            "fleet_enrolments",
            "enrolments of one tenant, 32 at a time, 0 to 100,000 runners; workers, object and load on the same cores",
            "enrolments/s",
            &rates,
        ),
        cold_start(&alone),
        Row {
            id: "storage_per_runner",
            title: "storage of a runner after its enrolment, evidence and audit event included",
            unit: "octets",
            value: json!(stored / runners as u64),
            ours: json!(stored / runners as u64),
            samples: json!({"octets": stored, "runners": runners}),
            ..Row::default()
        },
    ])
}

/// What one object carries without the workers, and how long the fleet therefore takes it.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn cold_start(seconds: &[f64]) -> Row {
    let rates: Vec<f64> = seconds.iter().map(|seconds| CHUNK as f64 / seconds).collect();
    let whole: f64 = seconds.iter().sum();
    Row {
        id: "cold_fleet",
        title: "a fleet of 100,000 that starts cold: what its object alone takes for it",
        unit: "s",
        value: json!(rounded(whole, 0)),
        ours: json!(rounded(whole, 0)),
        goal: Some("≤ 300 s, or shards"),
        met: Some(whole <= COLD_START),
        samples: json!({"enrolments_per_second_of_each_5000": all_rounded(&rates, 0)}),
        ..Row::default()
    }
}

/// Asks a new object what the fleet's was asked; seconds of each chunk.
fn replay(server: &Server) -> Result<Vec<f64>> {
    let task = json!({"object": "replayed", "count": CHUNK, "at_once": FILL.connections}).to_string();
    let mut chunks = Vec::new();
    for chunk in 1..=LARGE / CHUNK {
        let started = Instant::now();
        let answer = post(server.address(), "/replay", &task)?;
        chunks.push(started.elapsed().as_secs_f64());
        let left = LARGE - chunk * CHUNK;
        ensure!(answer == json!({"allowed": CHUNK, "left": left}), "the replay: {answer}");
    }
    note(&format!("the object alone: {:.0} s for {LARGE} enrolments", chunks.iter().sum::<f64>()));
    Ok(chunks)
}

/// Enrols all, making the next keys and tokens meanwhile; enrolments per second of each chunk.
fn fill(server: &Server, mint: Mint<'_>, tenant: &[String]) -> Result<Vec<f64>> {
    let mut rates = Vec::new();
    let mut pods = mint.pods(tenant, 0..CHUNK);
    for start in (0..LARGE).step_by(CHUNK) {
        let next = start + CHUNK..(start + 2 * CHUNK).min(LARGE);
        let (fired, made) = std::thread::scope(|scope| {
            let maker = scope.spawn(|| mint.pods_on_one_thread(tenant, next));
            let fired = FILL.fire(server, &pods.shots);
            (fired, maker.join().expect("making keys does not fail"))
        });
        let fired = fired?;
        ensure!(fired.count == CHUNK, "{} answers", fired.count);
        rates.push(fired.per_second());
        if (start + CHUNK).is_multiple_of(20_000) {
            note(&format!("{} runners stored, {:.0} enrolments/s", start + CHUNK, fired.per_second()));
        }
        pods = made;
    }
    Ok(rates)
}

fn post(address: SocketAddr, path: &str, body: &str) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (status, body) = runtime.block_on(load::call(address, path, &Shot::json(body.to_owned(), None)))?;
    ensure!(status.is_success(), "{path} answered {status}: {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}
