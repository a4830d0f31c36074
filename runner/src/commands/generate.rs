//! `runner completions` and `runner man`: generated from the command line itself, so that they cannot differ from it.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

/// Prints a completion script.
pub fn completions(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "runner", &mut script);
    crate::output::line(String::from_utf8_lossy(&script).trim_end());
}

/// Writes `runner.1` and a page for each command.
pub fn man(directory: &Path) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        Failure::configuration(format!("cannot write manual pages into {}: {error}", directory.display()))
    })
}
