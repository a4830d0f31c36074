//! The measures, a file each.

mod cold_start;
mod cost;
mod enroll;
mod isolate;
mod runner;
mod scale;
mod size;
mod storm;
mod sts;
mod verify;

use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use edge_tests::figures::{all_rounded, median, rounded};
use edge_tests::workerd::Server;
use serde_json::{Value, json};

use crate::load::{Fired, Load, Shot, Until};
use crate::material::is_enrolled;
use crate::report::Row;
use crate::scene::Scene;
use crate::{interrupt, report};

/// What can be measured; each takes less than three minutes, P7 ten: a fleet of 100,000 is enrolled, and asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Measure {
    /// Verifications per second.
    #[value(name = "P1")]
    P1,
    /// A loop inside the isolate.
    #[value(name = "P2")]
    P2,
    /// Enrolments per second.
    #[value(name = "P3")]
    P3,
    /// Added latency of aws-sts.
    #[value(name = "P4")]
    P4,
    /// Size of the bundle.
    #[value(name = "P5")]
    P5,
    /// Cold start.
    #[value(name = "P6")]
    P6,
    /// Latency with many runners.
    #[value(name = "P7")]
    P7,
    /// A storm of enrolments.
    #[value(name = "P8")]
    P8,
    /// The runner.
    #[value(name = "P9", alias = "runner")]
    P9,
    /// Processor time and other costs.
    #[value(name = "P10")]
    P10,
}

impl Measure {
    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::P1 => "POST /v1/verify, requests per second",
            Self::P2 => "a verification inside the isolate",
            Self::P3 => "POST /v1/enroll, requests per second",
            Self::P4 => "aws-sts, added latency",
            Self::P5 => "size of the bundle",
            Self::P6 => "cold start",
            Self::P7 => "latency with 100,000 runners",
            Self::P8 => "storm of 10,000 runners",
            Self::P9 => "runner",
            Self::P10 => "cost of an enrolment and of a renewal",
        }
    }

    /// Measures.
    pub fn run(self, scene: &Scene) -> Result<Vec<Row>> {
        match self {
            Self::P1 => verify::run(scene),
            Self::P2 => isolate::run(scene),
            Self::P3 => enroll::run(scene),
            Self::P4 => sts::run(scene),
            Self::P5 => size::run(scene),
            Self::P6 => cold_start::run(scene),
            Self::P7 => scale::run(scene),
            Self::P8 => storm::run(scene),
            Self::P9 => runner::run(scene),
            Self::P10 => cost::run(scene),
        }
    }
}

/// `POST /v1/enroll`, each request once.
#[derive(Debug, Clone, Copy)]
struct Enrolment {
    /// Requests at a time.
    connections: usize,
    /// Whether answers are kept.
    keep: bool,
}

impl Enrolment {
    /// The first wrong answer is an error.
    fn fire(self, server: &Server, shots: &Arc<[Shot]>) -> Result<Fired> {
        self.load(server, shots, false).fire()
    }

    /// Wrong answers are counted.
    fn try_fire(self, server: &Server, shots: &Arc<[Shot]>) -> Result<Fired> {
        self.load(server, shots, true).fire()
    }

    fn load(self, server: &Server, shots: &Arc<[Shot]>, forgiving: bool) -> Load {
        Load {
            address: server.address(),
            path: "/v1/enroll",
            connections: self.connections,
            shots: Arc::clone(shots),
            until: Until::AllSent,
            check: is_enrolled,
            keep: self.keep,
            forgiving,
        }
    }
}

/// Runs both in turn, the first one being the other one in each round; what each gave.
fn alternate<T>(
    rounds: usize,
    mut ours: impl FnMut(usize) -> Result<T>,
    mut peer: impl FnMut(usize) -> Result<T>,
) -> Result<(Vec<T>, Vec<T>)> {
    let (mut of_ours, mut of_peer) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for round in 0..rounds {
        interrupt::check()?;
        if round % 2 == 0 {
            of_ours.push(ours(round)?);
            of_peer.push(peer(round)?);
        } else {
            of_peer.push(peer(round)?);
            of_ours.push(ours(round)?);
        }
    }
    Ok((of_ours, of_peer))
}

/// What `js/floor.mjs` answers: a signature in base64.
fn is_signed(body: &[u8]) -> Result<()> {
    ensure!(body.len() == 88, "no signature");
    Ok(())
}

/// A figure that has no goal, from its rounds.
fn figure(id: &'static str, title: &'static str, unit: &'static str, rounds: &[f64]) -> Row {
    let value = json!(rounded(median(rounds), 2));
    let samples = json!({"ours": all_rounded(rounds, 3), "unit": unit});
    Row { id, title, unit, ours: value.clone(), value, samples, ..Row::default() }
}

/// A figure of something else than ours, in the column of the peer.
fn beside(id: &'static str, title: &'static str, unit: &'static str, value: f64, samples: Value) -> Row {
    let value = json!(value);
    Row { id, title, unit, peer: value.clone(), value, samples, ..Row::default() }
}

/// `name: 12.3 against 45.6` for each round.
fn note_rounds(unit: &str, ours: &[f64], peer: &[f64]) {
    for (round, (ours, peer)) in ours.iter().zip(peer).enumerate() {
        report::note(&format!("round {}: ours {ours:.2}, peer {peer:.2} {unit}", round + 1));
    }
}
