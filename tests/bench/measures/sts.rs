//! P4: `POST /v1/enroll`, aws-sts, against a direct call to the same STS emulator; one after the other, a fresh signed request each.
//!
//! The extra row is what a worker adds that asks STS, writes a row and signs, and checks nothing: the platform's share.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use edge_tests::figures::{all_rounded, median, rounded};
use edge_tests::stack::evidence::{self, STS_BODY, StsRequest};
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, AUDIENCE, Key, REGION};
use edge_tests::workerd::Server;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::{Enrolment, alternate, beside, is_signed};
use crate::load::{Load, Shot, Until};
use crate::material::is_enrolled;
use crate::report::Row;
use crate::scene::Scene;

const ROUNDS: usize = 15;
const CALLS: usize = 20;
/// As many as before P10, so that V8 has compiled what it is going to compile.
const WARM_UP: usize = 400;
const GOAL: f64 = 2.0;

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let ours = scene.start_ours("sts", &scene.policy(["acme"]))?;
    let least = scene.bare("floor", include_str!("../js/floor.mjs"), &["Record"])?.with("STS", scene.sts.url());
    let least = scene.start(&least, "sts-floor")?;
    let credentials = scene.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let signed = |key: &Key| StsRequest::new(&credentials, REGION, &scene.sts.url(), AUDIENCE, key);
    let shots = |count: usize| -> Arc<[Shot]> {
        let shot = |_| {
            let key = Key::generate();
            Shot::json(evidence::request(&key, &signed(&key).evidence()).to_string(), None)
        };
        (0..count).map(shot).collect()
    };
    let enrol = |server: &Server, count, check| -> Result<f64> {
        let load = Enrolment { connections: 1, keep: false }.load(server, &shots(count), false);
        Ok(Load { check, ..load }.fire()?.latency.quantile(0.5))
    };
    let emulator = SocketAddr::from(([127, 0, 0, 1], scene.sts.port()));
    let call = || direct(emulator, (0..CALLS).map(|_| sts_call(&signed(&Key::generate()))).collect::<Result<_>>()?);
    enrol(&ours, WARM_UP, is_enrolled)?;
    enrol(&least, WARM_UP, is_signed)?;
    call()?;
    let mut of_least = Vec::with_capacity(ROUNDS);
    let (enrolled, called) = alternate(
        ROUNDS,
        |_| {
            of_least.push(enrol(&least, CALLS, is_signed)?);
            enrol(&ours, CALLS, is_enrolled)
        },
        |_| call(),
    )?;
    let (through, alone) = (median(&enrolled), median(&called));
    let added = through - alone;
    let title = "the same for a worker that asks STS, writes one row, signs once, and checks nothing";
    let samples = json!({"floor": all_rounded(&of_least, 3), "unit": "ms"});
    let floor = beside("sts_floor", title, "ms", rounded(median(&of_least) - alone, 2), samples);
    let main = Row {
        id: "P4",
        title: "POST /v1/enroll, aws-sts: added to a direct call of STS (in the column of the peer)",
        unit: "ms",
        value: json!(rounded(added, 3)),
        ours: json!(rounded(added, 2)),
        peer: json!(rounded(alone, 2)),
        goal: Some("≤ 2 ms"),
        met: Some(added <= GOAL),
        samples: json!({"enroll": all_rounded(&enrolled, 3), "direct": all_rounded(&called, 3), "unit": "ms"}),
        ..Row::default()
    };
    Ok(vec![main, floor])
}

fn direct(emulator: SocketAddr, shots: Arc<[Shot]>) -> Result<f64> {
    let load = Load {
        address: emulator,
        path: "/",
        connections: 1,
        shots,
        until: Until::AllSent,
        check: |body| {
            ensure!(body.starts_with(b"{\"GetCallerIdentityResponse\""), "not the answer of STS");
            Ok(())
        },
        keep: false,
        forgiving: false,
    };
    Ok(load.fire()?.latency.quantile(0.5))
}

/// The signed request as it stands, to STS itself.
fn sts_call(request: &StsRequest) -> Result<Shot> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.signed() {
        headers.insert(HeaderName::try_from(name)?, HeaderValue::from_str(&value)?);
    }
    headers.insert("accept", HeaderValue::from_static("application/json"));
    Ok(Shot { headers, body: STS_BODY.into() })
}
