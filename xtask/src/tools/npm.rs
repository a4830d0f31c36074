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

/// Packages of the lock file in `source`, in `to/node_modules`: those of the benches, which nobody else needs.
pub fn install_elsewhere(source: &Path, to: &Path) -> Result<()> {
    let _lock = super::lock(&paths::scratch(), "npm.lock")?;
    let lock = fs::read(source.join(LOCK_FILE)).with_context(|| format!("no {LOCK_FILE} in {}", source.display()))?;
    let stamp = to.join("node_modules").join(STAMP);
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    fs::write(to.join(LOCK_FILE), &lock)?;
    fs::copy(source.join("package.json"), to.join("package.json"))?;
    ci(to)?;
    fs::write(stamp, lock).context("cannot write to node_modules")
}

/// The program itself: the package's own launcher is a script that Node.js runs.
pub fn workerd() -> Result<PathBuf> {
    let arch = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "64" };
    let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    let program = modules().join(format!("@cloudflare/workerd-{system}-{arch}/bin/workerd"));
    if program.is_file() {
        Ok(program)
    } else {
        bail!("workerd has no package for this platform: {}", program.display())
    }
}

const LOCK_FILE: &str = "package-lock.json";
/// Copied from the lock file after an installation that succeeded.
const STAMP: &str = ".installed-lock.json";

fn stamp() -> PathBuf {
    modules().join(STAMP)
}

fn wanted() -> Result<Vec<u8>> {
    fs::read(paths::root().join(LOCK_FILE)).context("cannot read package-lock.json")
}

fn current() -> bool {
    matches!((fs::read(stamp()), wanted()), (Ok(installed), Ok(wanted)) if installed == wanted)
}

fn ci(folder: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    // Warnings would be about the npm that runs this: the Node.js it installs is the one used.
    npm.current_dir(folder).args(["ci", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"]);
    process::run_quietly_on_stdout(&mut npm).context("npm ci failed; it needs Node.js with npm and the npm registry")
}

fn install() -> Result<()> {
    let step = Step::begin("npm ci (wrangler, workerd, wasm-opt, esbuild, Node.js 24)");
    note("about 170 MB from the registry, 520 MB unpacked into node_modules");
    ci(paths::root())?;
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
