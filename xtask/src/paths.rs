//! Where things lie in the checkout and in the cache.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Top folder of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Serves the bundle in workerd; run by Node.js.
pub fn serve_script() -> PathBuf {
    root().join("xtask/js/serve.mjs")
}

/// Cargo's target folder, as cargo itself tells: `CARGO_TARGET_DIR`, `build.target-dir`, or `target`.
pub fn target() -> &'static Path {
    static TARGET: LazyLock<PathBuf> = LazyLock::new(|| asked_of_cargo().unwrap_or_else(|| root().join("target")));
    &TARGET
}

fn asked_of_cargo() -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let output = crate::process::cargo().args(["metadata", "--no-deps", "--format-version=1"]).output().ok()?;
    serde_json::from_slice::<Metadata>(&output.stdout).ok().map(|metadata| metadata.target_directory)
}

/// Locks, stamps and logs of xtask itself; removed with the target folder.
pub fn scratch() -> PathBuf {
    target().join("xtask")
}

/// A workspace binary of the dev profile, once built.
pub fn binary(name: &str) -> PathBuf {
    target().join("debug").join(name).with_extension(std::env::consts::EXE_EXTENSION)
}

/// This program. Building the workspace may have replaced the file we were started from: then the new one, of the same source.
pub fn own() -> std::io::Result<PathBuf> {
    let started = std::env::current_exe()?;
    Ok(if started.exists() { started } else { binary("xtask") })
}

/// Compiled tools, outside the target folder so that `cargo clean` and a fresh clone keep them:
/// `$ROOTPILOT_CACHE`, else `$XDG_CACHE_HOME/rootpilot-edge`, else `~/.cache/rootpilot-edge`.
pub fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("ROOTPILOT_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("rootpilot-edge")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/rootpilot-edge")))
        .unwrap_or_else(|| std::env::temp_dir().join("rootpilot-edge"))
}
