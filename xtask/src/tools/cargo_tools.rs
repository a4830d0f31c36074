//! Tools from crates.io: `cargo install` into a folder of the cache per name and version.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::progress::{Step, note};
use crate::{paths, process};

/// One crate with binaries.
pub struct CargoTool {
    name: &'static str,
    version: std::borrow::Cow<'static, str>,
    /// Whether the published lock file is used.
    locked: bool,
}

/// Runs the wasm tests.
pub const WASM_PACK: CargoTool =
    CargoTool { name: "wasm-pack", version: std::borrow::Cow::Borrowed("0.15.1"), locked: true };

/// wasm-bindgen's programs must be of exactly the version that the workspace is compiled with.
pub fn wasm_bindgen_cli() -> Result<CargoTool> {
    let text = fs::read_to_string(paths::root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let lock: toml::Table = text.parse().context("Cargo.lock is not TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no packages")?;
    let version = packages
        .iter()
        .find(|package| package.get("name").and_then(toml::Value::as_str) == Some("wasm-bindgen"))
        .and_then(|package| package.get("version")?.as_str())
        .context("Cargo.lock has no wasm-bindgen")?;
    // Its own lock file names dependencies that do not build with every compiler.
    Ok(CargoTool { name: "wasm-bindgen-cli", version: version.to_owned().into(), locked: false })
}

impl fmt::Display for CargoTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name, self.version)
    }
}

impl CargoTool {
    fn root(&self) -> PathBuf {
        cache().join(self.to_string())
    }

    /// Folder of its programs.
    pub fn bin_dir(&self) -> PathBuf {
        self.root().join("bin")
    }

    /// Path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir().join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// `cargo install` writes this list last, so it stands for a whole installation.
    fn installed(&self) -> bool {
        fs::read_to_string(self.root().join(".crates.toml"))
            .is_ok_and(|list| list.contains(&format!("\"{} {} ", self.name, self.version)))
    }
}

fn cache() -> PathBuf {
    paths::cache().join("tools")
}

/// Installs those that are missing, sharing one build folder, which is removed afterwards.
pub fn ensure(wanted: &[&CargoTool]) -> Result<()> {
    if wanted.iter().all(|tool| tool.installed()) {
        return Ok(());
    }
    let _lock = super::lock(&cache(), ".lock")?;
    let missing: Vec<_> = wanted.iter().filter(|tool| !tool.installed()).collect();
    let build = cache().join(".build");
    for (index, tool) in missing.iter().enumerate() {
        let step = Step::begin(format!("tool {} of {}: {tool}", index + 1, missing.len()));
        note(format_args!("compiled once, a few minutes; kept in {}", tool.root().display()));
        install(tool, &build)?;
        step.end("installed");
    }
    // What is left over costs disk, nothing else.
    let _ = fs::remove_dir_all(&build);
    Ok(())
}

fn install(tool: &CargoTool, build: &std::path::Path) -> Result<()> {
    let mut command = process::cargo();
    command.args(["install", tool.name, "--version", &tool.version]).arg("--root").arg(tool.root());
    command.env("CARGO_TARGET_DIR", build);
    if tool.locked {
        command.arg("--locked");
    }
    process::run_quietly_on_stdout(&mut command).with_context(|| {
        format!(
            "{tool} could not be installed. It needs a C compiler (Debian: apt-get install gcc libc6-dev) and crates.io"
        )
    })
}
