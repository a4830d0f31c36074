//! The standard library for `wasm32-unknown-unknown`: compiled, for tests, and its source, for a bundle that has its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::process;
use crate::progress::{Step, note};

/// What the worker is compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Adds the target to the active toolchain when it is not there.
pub fn ensure() -> Result<()> {
    if present() {
        return Ok(());
    }
    add("target", TARGET).map_err(|error| anyhow!("{error:#}\n{ADVICE}"))
}

/// Adds the source to the active toolchain when it is not there; whether it is now.
pub fn ensure_source() -> bool {
    let there = || sysroot().is_ok_and(|root| root.join("lib/rustlib/src/rust/library/Cargo.lock").is_file());
    if there() {
        return true;
    }
    if let Err(error) = add("component", "rust-src") {
        note(format_args!("{error:#}"));
    }
    there()
}

/// Folder of the active toolchain.
pub fn sysroot() -> Result<PathBuf> {
    process::capture(rustc().args(["--print", "sysroot"])).map(PathBuf::from)
}

/// `rustup <kind> add <name>`, which needs the toolchain by name where automatic installation is off.
fn add(kind: &str, name: &str) -> Result<()> {
    let step = Step::begin(format!("rustup {kind} add {name}"));
    let active = process::capture(rustup().args(["show", "active-toolchain"]))?;
    let toolchain = active.split_whitespace().next().unwrap_or("stable");
    process::run_quietly_on_stdout(rustup().args([kind, "add", "--toolchain", toolchain, name]))?;
    step.end("installed");
    Ok(())
}

fn present() -> bool {
    let directory = process::capture(rustc().args(["--print", "target-libdir", "--target", TARGET]));
    directory.is_ok_and(|directory| Path::new(&directory).is_dir())
}

fn rustc() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.current_dir(crate::paths::root());
    command
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
