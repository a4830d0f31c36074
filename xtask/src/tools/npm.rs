//! Packages of package-lock.json, Node.js among them.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::progress::{Step, note};
use crate::{paths, process};

/// What wrangler asks for.
const MINIMUM_NODE: (u32, u32) = (22, 12);

/// `node_modules` of the checkout.
pub fn modules() -> PathBuf {
    paths::root().join("node_modules")
}

/// Runs `npm ci` when the lock file is not the installed one; gives a Node.js that wrangler accepts.
pub fn ensure() -> Result<PathBuf> {
    if !current() {
        let _lock = super::lock(&paths::scratch(), "npm.lock")?;
        if !current() {
            install()?;
        }
    }
    node()
}

/// A short text that changes with the locked packages.
pub fn lock_hash() -> Result<String> {
    let mut hasher = DefaultHasher::new();
    wanted()?.hash(&mut hasher);
    Ok(format!("npm-{:016x}", hasher.finish()))
}

/// Copied here from package-lock.json after an installation that succeeded.
fn stamp() -> PathBuf {
    modules().join(".installed-lock.json")
}

fn wanted() -> Result<Vec<u8>> {
    fs::read(paths::root().join("package-lock.json")).context("cannot read package-lock.json")
}

fn current() -> bool {
    matches!((fs::read(stamp()), wanted()), (Ok(installed), Ok(wanted)) if installed == wanted)
}

fn install() -> Result<()> {
    let step = Step::begin("npm ci (wrangler, workerd, wasm-opt, esbuild, Node.js 24)");
    note("about 170 MB from the registry, 520 MB unpacked into node_modules");
    let mut npm = Command::new("npm");
    // Warnings would be about the npm that runs this: the Node.js it installs is the one used.
    npm.current_dir(paths::root()).args(["ci", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"]);
    process::run_quietly_on_stdout(&mut npm)
        .context("npm ci failed; it needs Node.js with npm and the npm registry")?;
    fs::write(stamp(), wanted()?).context("cannot write to node_modules")?;
    step.end("installed");
    Ok(())
}

/// The Node.js that came as a package of this platform (no install script needed), else the system's when new enough.
fn node() -> Result<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let packaged = modules().join(format!("node-{}-{arch}/bin/node", std::env::consts::OS));
    if packaged.is_file() {
        return Ok(packaged);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::split_paths(&path).map(|dir| dir.join("node")).find(|path| path.is_file());
    let Some(system) = system else { bail!("no Node.js found") };
    let (major, minor) = MINIMUM_NODE;
    match version(&system)? {
        found if found >= MINIMUM_NODE => Ok(system),
        found => bail!("Node.js {major}.{minor} or newer is needed on this platform, found {}.{}", found.0, found.1),
    }
}

fn version(node: &Path) -> Result<(u32, u32)> {
    let text = process::capture(Command::new(node).arg("--version"))?;
    parse_version(&text).with_context(|| format!("`node --version` said {text:?}"))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_versions_compare_by_number() {
        assert_eq!(parse_version("v24.21.0"), Some((24, 21)));
        assert!(parse_version("v9.11.2").unwrap() < MINIMUM_NODE);
        assert!(parse_version("v22.9.0").unwrap() < MINIMUM_NODE);
        assert_eq!(parse_version("24"), None);
    }
}
