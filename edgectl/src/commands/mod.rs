//! A file per command.

pub mod audit;
pub mod ca;
pub mod completions;
pub mod explain;
pub mod policy;
pub mod runner;
pub mod token;

use crate::cli::{Arguments, Command};
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Runs the command that was asked for.
pub async fn run(arguments: Arguments, output: Output) -> Result<Outcome, Failure> {
    let verifier = &arguments.verifier;
    match arguments.command {
        Command::Ca(command) => ca::run(&command, output),
        Command::Policy(command) => policy::run(command, verifier, output).await,
        Command::Token(command) => token::run(command, verifier, output).await,
        Command::Runner(command) => runner::run(command, verifier, output).await,
        Command::Audit(command) => audit::run(command, verifier, output).await,
        Command::Explain(command) => explain::run(&command, verifier, output).await,
        Command::Completions { shell } => completions::run(shell),
    }
}
