//! P7: latency of an enrolment with 100,000 runners in the tenant against one with 100.
//!
//! Every runner is a real enrolment over HTTP, so that all rows are as the verifier writes them; tokens are ES256, which is quicker to sign.

use anyhow::{Result, ensure};
use edge_tests::emulators::oidc::{KeyAlgorithm, Rotation};
use edge_tests::figures::{all_rounded, median, rounded};
use edge_tests::stack::GKE_ISSUER;
use edge_tests::usage;
use serde_json::json;

use super::{Enrolment, alternate};
use crate::material::{Mint, Pods};
use crate::report::{Row, note};
use crate::scene::Scene;

const LARGE: usize = 100_000;
const SMALL: usize = 100;
const CHUNK: usize = 5_000;
const FILL: Enrolment = Enrolment { connections: 32, keep: false };
const ROUNDS: usize = 7;
const ENROLMENTS: usize = 100;
const ONE_BY_ONE: Enrolment = Enrolment { connections: 1, keep: false };
const GOAL: f64 = 1.1;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let small: Vec<String> = (0..ROUNDS).map(|round| format!("small-{round}")).collect();
    let policy = scene.policy(std::iter::once("acme").chain(small.iter().map(String::as_str)));
    let rotation = Rotation { algorithm: KeyAlgorithm::ES256, keep_previous: true, sign_with_new: false };
    let key = scene.issuer.rotate(GKE_ISSUER, rotation);
    let mint = Mint { issuer: &scene.issuer, key: Some(&key) };
    let acme = ["acme".to_owned()];

    let large = scene.start_ours("scale-large", &policy)?;
    let rates = fill(&large, mint, &acme)?;
    let little = scene.start_ours("scale-small", &policy)?;
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
    let runners = LARGE + ENROLMENTS * ROUNDS;
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
        object_rate(&rates),
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

/// What one object takes, by how many runners it has.
fn object_rate(rates: &[f64]) -> Row {
    Row {
        id: "object_enrolments",
        title: "enrolments of one tenant, 32 at a time, 0 to 100,000 runners",
        unit: "enrolments/s",
        value: json!(rounded(median(rates), 0)),
        ours: json!(rounded(median(rates), 0)),
        samples: json!({"each_5000": all_rounded(rates, 0)}),
        ..Row::default()
    }
}

/// Enrols all, making the next keys and tokens meanwhile; enrolments per second of each chunk.
fn fill(server: &edge_tests::workerd::Server, mint: Mint<'_>, tenant: &[String]) -> Result<Vec<f64>> {
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
