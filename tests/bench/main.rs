//! The measures of `cargo xtask bench`: ours beside the peer, on bare workerd, alternating, as ratios of medians.
//!
//! ```text
//! main ──► measures/* ──► scene (CA, emulators, policy) ──► workerd (ours, peer)
//!   │           └──► material (tokens, keys, CSRs, made before the clock starts) ──► load (N keep-alive connections)
//!   └──► report: table, report.json, report.md
//! ```
//!
//! `xtask` builds what is measured and starts this program; it is no test and runs in none. Every answer is checked: a wrong one ends
//! the run. Whatever ends it, Ctrl-C included, ends every process started here by its id and removes the folder of the run.

mod interrupt;
mod load;
mod material;
mod measures;
mod report;
mod scene;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::measures::Measure;
use crate::scene::Scene;

/// What xtask built, and what is to be measured.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of our bundle
    #[arg(long)]
    bundle: PathBuf,
    /// Folder of the peer's bundle
    #[arg(long)]
    peer: PathBuf,
    /// Folder that `edgectl ca init` wrote
    #[arg(long)]
    ca: PathBuf,
    /// The workerd program
    #[arg(long)]
    workerd: PathBuf,
    /// The Node.js program
    #[arg(long)]
    node: PathBuf,
    /// The runner, release profile: for P9
    #[arg(long)]
    runner: Option<PathBuf>,
    /// Folder of the bundle that loops inside the isolate: for P2
    #[arg(long)]
    isolate: Option<PathBuf>,
    /// Folder of the reports
    #[arg(long)]
    out: PathBuf,
    /// What to measure
    #[arg(required = true, value_enum, ignore_case = true)]
    measures: Vec<Measure>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Arguments) -> Result<()> {
    interrupt::heed()?;
    std::fs::create_dir_all(&arguments.out).with_context(|| format!("cannot make {}", arguments.out.display()))?;
    arguments.measures.sort_unstable();
    arguments.measures.dedup();
    let scene = Scene::set(&arguments)?;
    let mut rows = Vec::new();
    for measure in &arguments.measures {
        let step = report::Step::begin(*measure);
        let measured = measure.run(&scene)?;
        step.end(&measured);
        rows.extend(measured);
    }
    drop(scene);
    report::publish(&rows, &arguments.out)
}
