//! Project commands of RootPilot Edge: `cargo xtask build|test|dev|demo|bench`.
//!
//! Every command sets up the tools it needs first (see [`tools`]), so a fresh clone needs only Rust and Node.js.
//! Data goes to standard output, progress to standard error. Out of scope: deploying.

mod bench;
mod binaries;
mod bundle;
mod credentials;
mod demo;
mod dev;
mod http;
mod operator;
mod paths;
mod process;
mod progress;
mod ready_policy;
mod size;
mod stack;
mod suites;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

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

/// Form of the data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// One JSON line.
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Build the worker bundle into build/ (wrangler's build command)
    Build {
        /// Not optimised, into the target folder: builds in a fraction of the time
        #[arg(long)]
        unoptimised: bool,
    },
    /// Run every check and test: format, lints, native, wasm, end to end in workerd, deploy dry run
    ///
    /// Ends with one line, `N passed, N failed`; exit status 1 when anything failed.
    Test {
        /// Load and crash tests at their full figures: 1,500 clients at once, 2,000 enrolments and ten kills
        #[arg(long)]
        full: bool,
    },
    /// Enroll the real runner by every mode in workerd, renew, and show one refusal of each kind
    ///
    /// Exit status 0 only when all of it held.
    Demo(demo::DemoArgs),
    /// Start the verifier with STS and OIDC emulators and a ready policy, and leave it running until SIGTERM
    ///
    /// Prints the commands to try. Standard error shows progress; logs are in the state directory.
    Dev(dev::DevArgs),
    /// Show the bytes of the worker's code by crate
    Size,
    /// Measure the worker beside a JavaScript worker that does the same, in bare workerd
    ///
    /// Prints a table and writes target/bench/report.json. Wants a machine that does nothing else; about ten minutes.
    Bench(bench::BenchArgs),
    /// Install the tools and stop
    Setup,
    /// Run a program until standard input ends
    #[command(hide = true)]
    Guard {
        /// Program and arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<std::ffi::OsString>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Build { unoptimised } => tools::prepare(tools::Need::Build)
            .and_then(|tools| bundle::build(&tools, bundle::Profile::new(unoptimised)))
            .map(|_| true),
        Command::Test { full } => suites::run(full),
        Command::Demo(args) => demo::run(&args),
        Command::Dev(args) => dev::run(&args),
        Command::Size => tools::prepare(tools::Need::Build).and_then(|tools| size::by_crate(&tools)).map(|()| true),
        Command::Bench(args) => bench::run(&args),
        Command::Setup => tools::prepare(tools::Need::Test).map(|_| {
            tools::std_source();
            true
        }),
        Command::Guard { program } => process::guard(&program),
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
