//! P10: processor time of an enrolment, and what else an operator pays for: object calls, statements, rows.
//!
//! Time is that of the whole workerd process by the kernel's account, over requests one at a time, less what it takes when idle: HTTP,
//! SQLite and logging are in it, so the isolate's own part is smaller. The extra row is a worker that does the least.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use edge_tests::figures::{all_rounded, median, millis, rounded};
use edge_tests::stack::{AUDIENCE, Client, Key, evidence};
use edge_tests::workerd::Server;
use serde_json::{Value, json};

use super::{Enrolment, alternate, beside, figure, is_signed};
use crate::load::{Fired, Load, Shot, Until};
use crate::material::{Enrolled, Mint, Pods, is_enrolled};
use crate::report::Row;
use crate::scene::Scene;

const ROUNDS: usize = 5;
const REQUESTS: usize = 400;
const WARM_UP: usize = 400;
const ONE_BY_ONE: Enrolment = Enrolment { connections: 1, keep: true };
const MANY: usize = 16;
/// Requests whose rows are counted.
const COUNTED: usize = 50;
const GOAL: f64 = 3.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let policy = scene.policy(["acme"]);
    let ours = scene.start_ours("cost-ours", &policy)?;
    let peer = scene.start_peer("cost-peer", &policy)?;
    let mint = Mint::rs256(&scene.issuer);
    let acme = ["acme".to_owned()];
    let warm_up = mint.pods(&acme, 0..WARM_UP);
    ONE_BY_ONE.fire(&ours, &warm_up.shots)?;
    ONE_BY_ONE.fire(&peer, &warm_up.shots)?;
    let rounds: Vec<Pods> = (0..ROUNDS)
        .map(|round| mint.pods(&acme, WARM_UP + round * REQUESTS..WARM_UP + (round + 1) * REQUESTS))
        .collect();
    let enrol = |server: &Server, round: usize| cpu_of(server, || ONE_BY_ONE.fire(server, &rounds[round].shots));
    let (of_ours, of_peer) = alternate(ROUNDS, |round| enrol(&ours, round), |round| enrol(&peer, round))?;
    let times = |measured: &[(f64, Fired)]| measured.iter().map(|(time, _)| *time).collect::<Vec<_>>();
    let (ours_ms, peer_ms) = (times(&of_ours), times(&of_peer));
    let (renewal_ms, renewal_rates) = renewals(&ours, &rounds, &of_ours)?;
    let mut rows = vec![main_row(&ours_ms, &peer_ms), floor(scene, &rounds)?];
    rows.push(figure("renewal_cpu", "processor time of a renewal, the whole process", "ms", &renewal_ms));
    rows.push(figure("object_renewals", "renewals of one tenant, 16 at a time", "renewals/s", &renewal_rates));
    rows.extend(counted(scene, &policy)?);
    Ok(rows)
}

fn main_row(ours: &[f64], peer: &[f64]) -> Row {
    Row {
        id: "P10",
        title: "processor time of an enrolment, workerd as a whole",
        unit: "ms",
        value: json!(rounded(median(ours), 3)),
        ours: json!(rounded(median(ours), 2)),
        peer: json!(rounded(median(peer), 2)),
        goal: Some("≤ 3 ms"),
        met: Some(median(ours) <= GOAL),
        samples: json!({"ours": all_rounded(ours, 3), "peer": all_rounded(peer, 3), "unit": "ms"}),
        ..Row::default()
    }
}

/// What the process of a worker takes that writes one row, signs once, and checks nothing.
fn floor(scene: &Scene, rounds: &[Pods]) -> Result<Row> {
    let least = scene.bare("floor", include_str!("../js/floor.mjs"), &["Record"])?;
    let server = scene.start(&least, "cost-floor")?;
    let fire = |round: &Pods| Load { check: is_signed, ..ONE_BY_ONE.load(&server, &round.shots, false) }.fire();
    fire(&rounds[0])?;
    let times = rounds.iter().map(|round| Ok(cpu_of(&server, || fire(round))?.0)).collect::<Result<Vec<_>>>()?;
    let title = "the same for a worker that writes one row, signs once, and checks nothing";
    let samples = json!({"floor": all_rounded(&times, 3), "unit": "ms"});
    Ok(beside("cpu_floor", title, "ms", rounded(median(&times), 2), samples))
}

/// Milliseconds on the processors for each request.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn cpu_of(server: &Server, fire: impl FnOnce() -> Result<Fired>) -> Result<(f64, Fired)> {
    const IDLE: Duration = Duration::from_millis(300);
    let resting = server.cpu()?;
    std::thread::sleep(IDLE);
    let (before, started) = (server.cpu()?, Instant::now());
    let fired = fire()?;
    let (used, took) = (server.cpu()?.saturating_sub(before), started.elapsed());
    let idle = millis(before.saturating_sub(resting)) / millis(IDLE) * millis(took);
    Ok(((millis(used) - idle) / fired.count as f64, fired))
}

/// Milliseconds of a renewal one at a time, and renewals per second many at a time, both with a new key, as runners do it.
fn renewals(server: &Server, rounds: &[Pods], enrolled: &[(f64, Fired)]) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut times, mut rates) = (Vec::new(), Vec::new());
    for (round, (pods, (_, fired))) in rounds.iter().zip(enrolled).enumerate() {
        let shots = renewal_shots(pods, &fired.answers)?;
        if round % 2 == 0 {
            times.push(cpu_of(server, || renew(server, &shots, 1))?.0);
        } else {
            rates.push(renew(server, &shots, MANY)?.per_second());
        }
    }
    Ok((times, rates))
}

fn renewal_shots(pods: &Pods, answers: &[(usize, Bytes)]) -> Result<Arc<[Shot]>> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs().cast_signed();
    let shot = |(index, body): &(usize, Bytes)| -> Result<Shot> {
        let answer: Enrolled<'_> = serde_json::from_slice(body)?;
        let next = Key::generate();
        let proof = pods.keys[*index].renewal(&answer.certificate, AUDIENCE, now, &next);
        Ok(Shot::json(evidence::request(&next, &proof).to_string(), None))
    };
    answers.iter().map(shot).collect()
}

fn renew(server: &Server, shots: &Arc<[Shot]>, connections: usize) -> Result<Fired> {
    let load = Load {
        address: server.address(),
        path: "/v1/renew",
        connections,
        shots: Arc::clone(shots),
        until: Until::AllSent,
        check: is_enrolled,
        keep: false,
        forgiving: false,
    };
    load.fire()
}

/// Rows and calls, by our bundle inside a wrapper that counts.
fn counted(scene: &Scene, policy: &Value) -> Result<Vec<Row>> {
    let server =
        scene.start_ours_as(&scene.wrapped("counting", include_str!("../js/counting.mjs"))?, "counting", policy)?;
    let pods = Mint::rs256(&scene.issuer).pods(&["acme".to_owned()], 0..COUNTED + 1);
    let first: Arc<[Shot]> = pods.shots[..1].into();
    ONE_BY_ONE.fire(&server, &first)?;
    let rest = Pods { keys: pods.keys[1..].to_vec(), shots: pods.shots[1..].into() };
    let before = counts(&server)?;
    let fired = ONE_BY_ONE.fire(&server, &rest.shots)?;
    let enrolled = counts(&server)?;
    renew(&server, &renewal_shots(&rest, &fired.answers)?, 1)?;
    let renewed = counts(&server)?;
    Ok(vec![
        each("enrolment_counts", "an enrolment: object calls; statements; rows read; rows written", &before, &enrolled),
        each("renewal_counts", "a renewal: object calls; statements; rows read; rows written", &enrolled, &renewed),
    ])
}

const COUNTS: [&str; 4] = ["object_calls", "statements", "rows_read", "rows_written"];

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn each(id: &'static str, title: &'static str, before: &[u64; 4], after: &[u64; 4]) -> Row {
    let of_one: Vec<f64> =
        before.iter().zip(after).map(|(before, after)| rounded((after - before) as f64 / COUNTED as f64, 2)).collect();
    let samples = json!({"of": COUNTS, "requests": COUNTED, "before": before, "after": after});
    Row { id, title, value: json!(of_one), ours: json!(of_one), samples, ..Row::default() }
}

fn counts(server: &Server) -> Result<[u64; 4]> {
    let answer = Client::new(&server.url()).get("/counts").expect(200).json();
    let mut counts = [0; 4];
    for (count, name) in counts.iter_mut().zip(COUNTS) {
        *count = answer[name].as_u64().with_context(|| format!("no {name}"))?;
    }
    Ok(counts)
}
