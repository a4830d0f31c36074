//! `edgectl completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Arguments;
use crate::failure::{Failure, Outcome};

/// Prints the script of a shell.
pub fn run(shell: Shell) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "edgectl", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)
        .map_err(|error| Failure::Io { what: "print".to_owned(), error })?;
    Ok(Outcome::Done)
}
