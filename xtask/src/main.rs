//! Project commands of RootPilot Edge: `cargo xtask build|test|dev|demo`.
//!
//! Every command sets up the tools it needs first (see [`tools`]), so a fresh clone needs only Rust and Node.js.
//! Data goes to standard output, progress to standard error. Out of scope: deploying.

mod bundle;
mod paths;
mod process;
mod progress;
mod suites;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and try RootPilot Edge.
///
/// The first run installs what is missing: the wasm target, three cargo tools (about ten minutes of compilation,
/// kept in ~/.cache/rootpilot-edge or $ROOTPILOT_CACHE) and the npm packages of package-lock.json.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the worker bundle into build/ (wrangler's build command)
    Build,
    /// Run every check and test: format, lints, native, wasm, end to end in workerd, deploy dry run
    ///
    /// Ends with one line, `N passed, N failed`; exit status 1 when anything failed.
    Test,
    /// Install the tools and stop
    Setup,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Build => tools::prepare(tools::Need::Build).and_then(|tools| bundle::build(&tools).map(|_| true)),
        Command::Test => suites::run(),
        Command::Setup => tools::prepare(tools::Need::Test).map(|_| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
