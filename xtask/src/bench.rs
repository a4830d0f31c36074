//! `cargo xtask bench`: builds what is measured, then becomes the program that measures (`tests/bench`).
//!
//! Never part of `cargo xtask test`: figures need a quiet machine, and tests do not depend on time.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::bundle::{self, Profile};
use crate::credentials::Credentials;
use crate::progress::Step;
use crate::tools::{self, Need, Tools};
use crate::{binaries, paths, process};

#[derive(Args)]
pub struct BenchArgs {
    /// What to measure; everything unless named
    #[arg(value_enum, ignore_case = true, value_name = "MEASURE")]
    measures: Vec<Measure>,
}

/// A measure of the performance goals, as the measuring program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// POST /v1/verify, requests per second against the peer
    #[value(name = "P1")]
    Verify,
    /// One verification inside the isolate against a bare loop
    #[value(name = "P2")]
    Isolate,
    /// POST /v1/enroll, requests per second against the peer
    #[value(name = "P3")]
    Enroll,
    /// POST /v1/enroll by aws-sts against a direct call of STS
    #[value(name = "P4")]
    Sts,
    /// Size of the worker bundle
    #[value(name = "P5")]
    Size,
    /// Cold start against the peer
    #[value(name = "P6")]
    ColdStart,
    /// Latency with 100,000 runners in a tenant, storage of a runner
    #[value(name = "P7")]
    Scale,
    /// 10,000 runners over 100 tenants at once
    #[value(name = "P8")]
    Storm,
    /// The runner: size, memory, first enrolment
    #[value(name = "P9", alias = "runner")]
    Runner,
    /// Processor time, calls and rows of an enrolment and of a renewal
    #[value(name = "P10")]
    Cost,
}

impl Measure {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Builds and measures. Does not return when it worked: the measuring program takes this process over, so that a signal reaches it.
pub fn run(args: &BenchArgs) -> Result<bool> {
    let measures = if args.measures.is_empty() { Measure::value_variants() } else { &args.measures };
    let tools = tools::prepare(Need::Build)?;
    let needs = |measure| measures.contains(&measure);
    let mut command = Command::new(measuring_program()?);
    if needs(Measure::Runner) {
        command.arg("--runner").arg(runner()?);
    }
    if needs(Measure::Isolate) {
        command.arg("--isolate").arg(isolate(&tools)?);
    }
    command
        .arg("--bundle")
        .arg(bundle::build(&tools, Profile::Release)?)
        .arg("--peer")
        .arg(peer(&tools)?)
        .arg("--ca")
        .arg(development_ca()?)
        .arg("--workerd")
        .arg(tools::workerd()?)
        .arg("--node")
        .arg(&tools.node)
        .arg("--out")
        .arg(paths::target().join("bench"))
        .args(measures.iter().map(|measure| measure.name()));
    process::forget_our_package(&mut command);
    Err(command.exec()).context("cannot start the measuring program")
}

/// The measuring program.
fn measuring_program() -> Result<PathBuf> {
    let step = Step::begin("Load generator");
    let mut cargo = process::cargo();
    cargo.args(["build", "--profile", "measure", "--message-format", "json-render-diagnostics"]);
    cargo.args(["--package", "edge-bench", "--bench", "edge-bench"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut program = None;
    for line in BufReader::new(child.stdout.take().context("no standard output")?).lines() {
        program = Artifact::program(&line?, "edge-bench").or(program);
    }
    let status = child.wait()?;
    let Some(program) = program.filter(|_| status.success()) else { bail!("cargo ended with {status}") };
    step.end("built");
    Ok(program)
}

/// A line of cargo's about something it made.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

impl Artifact {
    /// Path of the bench target `name`, if the line is about that.
    fn program(line: &str, name: &str) -> Option<PathBuf> {
        let artifact: Self = serde_json::from_str(line).ok()?;
        let is_it = artifact.target.name == name && artifact.target.kind.iter().any(|kind| kind == "bench");
        artifact.executable.filter(|_| is_it)
    }
}

/// The CA of this checkout; edgectl is built only where there is none yet.
fn development_ca() -> Result<PathBuf> {
    if !Credentials::are_made() {
        binaries::build()?;
    }
    let credentials = Credentials::load_or_make()?;
    Ok(credentials.worker_secrets.parent().context("secrets lie in a folder")?.to_owned())
}

/// The runner as it is released.
fn runner() -> Result<PathBuf> {
    let step = Step::begin("Runner, as released");
    let mut cargo = process::cargo();
    process::run_quietly_on_stdout(cargo.args(["build", "--release", "--package", "runner", "--bin", "runner"]))?;
    step.end("built");
    Ok(paths::target().join("release/runner"))
}

/// The loop inside the isolate: verifier and platform of the worker with an entry of its own, bound and optimised like the worker.
fn isolate(tools: &Tools) -> Result<PathBuf> {
    let step = Step::begin("Loop inside the isolate");
    let module = bundle::compile("bench-isolate")?;
    let out = paths::target().join("bench/isolate");
    fs::create_dir_all(&out)?;
    bundle::bind(tools, &module, &out)?;
    let bound = out.join(bundle::BOUND);
    bundle::optimise(tools, &bound, &bound, &bundle::NAMELESS)?;
    fs::copy(paths::root().join("tests/bench/js/isolate.mjs"), out.join("isolate.mjs"))?;
    step.end("built");
    Ok(out)
}

/// The peer's bundle: its packages by its own lock file, packed by esbuild as its authors would.
fn peer(tools: &Tools) -> Result<PathBuf> {
    let step = Step::begin("Peer: a JavaScript worker with jose and @peculiar/x509");
    let source = paths::root().join("tests/bench/peer");
    let packages = paths::target().join("bench/peer-packages");
    tools::install_packages(&source, &packages)?;
    let out = paths::target().join("bench/peer");
    fs::create_dir_all(&out)?;
    pack(tools, &source, &packages, &out.join("worker.js"))?;
    step.end("built");
    Ok(out)
}

fn pack(tools: &Tools, source: &Path, packages: &Path, bundle: &Path) -> Result<()> {
    let mut esbuild = tools.command(Tools::npm_bin("esbuild"));
    esbuild
        .arg(source.join("src/worker.js"))
        .args(["--bundle", "--minify", "--format=esm", "--target=es2024", "--log-level=warning"])
        .args(["--external:cloudflare:workers", "--loader:.sql=text"])
        .arg(format!("--outfile={}", bundle.display()))
        .env("NODE_PATH", packages.join("node_modules"));
    process::run_quietly_on_stdout(&mut esbuild)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_where_the_program_is() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"edge-bench"},"executable":"/x/edge-bench-1"}"#;
        assert_eq!(Artifact::program(line, "edge-bench"), Some(PathBuf::from("/x/edge-bench-1")));
        assert_eq!(Artifact::program(&line.replace("bench", "lib"), "edge-bench"), None);
        assert_eq!(Artifact::program(r#"{"reason":"build-finished","success":true}"#, "edge-bench"), None);
    }
}
