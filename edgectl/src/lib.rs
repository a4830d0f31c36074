//! The operator's command of RootPilot Edge (PROTOCOL, Operator's command): a file per command under [`commands`].
//!
//! Data goes to standard output, everything else to standard error, so that `--output json` can be piped. What the verifier decides is
//! asked of it; what it would say to a policy is worked out here by the verifier's own code.
//!
//! Out of scope: runners' own work, and the platform the verifier runs on (`wrangler` stores the secrets).

pub mod authority;
pub mod cli;
pub mod client;
pub mod commands;
pub mod configuration;
pub mod failure;
pub mod output;
pub mod policy_file;
pub mod private_files;

use std::process::ExitCode;

use clap::Parser as _;

use crate::output::Output;

/// Reads the arguments, runs the command, says what went wrong.
pub fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    let output = Output::new(arguments.output);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output.failure(&failure::Failure::Io { what: "start".to_owned(), error }),
    };
    match runtime.block_on(commands::run(arguments, output)) {
        Ok(outcome) => outcome.into(),
        Err(failure) => output.failure(&failure),
    }
}
