//! `runner doctor`: see [`crate::doctor`].

use crate::cli::Options;
use crate::config::Environment;
use crate::failure::Exit;

/// Runs every check and prints a line for each.
pub async fn doctor(options: &Options, environment: Environment<'_>) -> Exit {
    crate::doctor::run(options, environment).await
}
