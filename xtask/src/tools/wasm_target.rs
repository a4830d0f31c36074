//! The standard library for `wasm32-unknown-unknown`.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::{process, progress::Step};

const TARGET: &str = "wasm32-unknown-unknown";

/// Adds the target to the active toolchain when it is not there.
pub fn ensure() -> Result<()> {
    if present() {
        return Ok(());
    }
    let step = Step::begin(format!("rustup target add {TARGET}"));
    // `rustup target add` needs the toolchain by name where automatic installation is off.
    let active = process::capture(rustup().args(["show", "active-toolchain"]));
    let added = active.and_then(|line| {
        let toolchain = line.split_whitespace().next().unwrap_or("stable").to_owned();
        process::run_quietly_on_stdout(rustup().args(["target", "add", "--toolchain", &toolchain, TARGET]))
    });
    added.map_err(|error| anyhow!("{error:#}\n{ADVICE}"))?;
    step.end("installed");
    Ok(())
}

fn present() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(crate::paths::root()).args(["--print", "target-libdir", "--target", TARGET]);
    process::capture(&mut command).is_ok_and(|dir| Path::new(&dir).is_dir())
}

fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(crate::paths::root());
    command
}

const ADVICE: &str = "\
The worker needs Rust's standard library for wasm32-unknown-unknown, and rustup could not bring it.
With Rust from a distribution, install its wasm target (Debian: libstd-rust-dev-wasm32; Fedora: rust-std-static-wasm32-unknown-unknown).
Where only Debian 12 packages can be reached, its library source builds one:
  apt-get install rustc-web cargo-web rust-web-src lld-22
  export RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-22
  export CARGO_UNSTABLE_BUILD_STD=std,panic_abort PATH=/usr/bin:$PATH";
