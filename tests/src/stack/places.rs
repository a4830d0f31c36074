//! Where the things lie that the end-to-end tests start: found by one function each, and missed by name.
//!
//! `cargo xtask test` builds them and sets `ROOTPILOT_NODE`, `ROOTPILOT_SERVE` and `ROOTPILOT_BUNDLE`; without those
//! variables the places of a checkout are taken.

use std::path::{Path, PathBuf};

/// Something that has to be built or installed first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not at {}: run {remedy}", path.display())]
pub struct Missing {
    what: &'static str,
    path: PathBuf,
    remedy: &'static str,
}

const BUILD: &str = "`cargo xtask build`";
const BINARIES: &str = "`cargo build --workspace --bins`";

/// Top folder of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace")
}

/// `path`, or who would make it.
fn existing(what: &'static str, path: PathBuf, remedy: &'static str) -> Result<PathBuf, Missing> {
    if path.exists() { Ok(path) } else { Err(Missing { what, path, remedy }) }
}

/// The path in an environment variable, unless unset or empty.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Folder of the worker bundle.
pub fn bundle() -> Result<PathBuf, Missing> {
    let folder = named("ROOTPILOT_BUNDLE").unwrap_or_else(|| root().join("build"));
    existing("the worker bundle", folder.join("index_bg.wasm"), BUILD)?;
    existing("the worker bundle", folder.join("index.js"), BUILD)?;
    Ok(folder)
}

/// The script that serves the bundle in workerd; its packages are there, too.
pub fn serve_script() -> Result<PathBuf, Missing> {
    existing("Miniflare", root().join("node_modules/miniflare/package.json"), BUILD)?;
    existing("serve.mjs", named("ROOTPILOT_SERVE").unwrap_or_else(|| root().join("xtask/js/serve.mjs")), BUILD)
}

/// Node.js: the one named, the one of `node_modules`, or the first on `PATH`.
pub fn node() -> Result<PathBuf, Missing> {
    if let Some(named) = named("ROOTPILOT_NODE") {
        return existing("Node.js", named, BUILD);
    }
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let packaged = root().join(format!("node_modules/node-{}-{arch}/bin/node", std::env::consts::OS));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_the_system = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|file| file.is_file());
    existing("Node.js", if packaged.exists() { packaged } else { of_the_system.unwrap_or(packaged) }, BUILD)
}

/// The worker's configuration.
pub fn wrangler_toml() -> PathBuf {
    root().join("wrangler.toml")
}

/// Folder of the profile that the running test was built in, such as `target/debug`.
pub fn profile() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.parent().expect("a file lies in a folder");
    // Test programs lie in `deps`, binaries beside it.
    if folder.ends_with("deps") {
        folder.parent().expect("deps lies in a folder").to_owned()
    } else {
        folder.to_owned()
    }
}

/// A binary of the workspace.
pub fn binary(name: &str) -> Result<PathBuf, Missing> {
    let path = profile().join(name).with_extension(std::env::consts::EXE_EXTENSION);
    existing("a binary of the workspace", path, BINARIES)
}

/// A case file of `tests/vectors`.
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let error = binary("no-such-program").unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
        assert!(error.ends_with("run `cargo build --workspace --bins`"), "{error}");
    }

    #[test]
    fn the_checkout_is_found() {
        assert!(root().join("Cargo.lock").is_file());
        assert!(wrangler_toml().is_file());
        assert!(vectors().join("README.md").is_file());
        assert!(profile().join("deps").is_dir());
    }
}
