//! The workspace's own programs, as `dev` and `demo` run them.

use anyhow::Result;

use crate::process;
use crate::progress::Step;

/// Builds runner, edgectl and the emulators in the dev profile. The whole workspace is named, so that features, and with
/// them the compiled dependencies, are those of `cargo xtask test`.
pub fn build() -> Result<()> {
    let step = Step::begin("Runner, edgectl, emulators");
    process::run_quietly_on_stdout(process::cargo().args(["build", "--workspace", "--bins"]))?;
    step.end("built");
    Ok(())
}
