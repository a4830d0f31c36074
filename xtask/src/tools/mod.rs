//! The tools of the build, at pinned versions, installed when missing and shown while they are.
//!
//! | from | what | where |
//! |---|---|---|
//! | rustup | the wasm target, the source of the standard library | the active toolchain |
//! | crates.io | wasm-bindgen-cli, wasm-pack | the cache, a folder per version |
//! | npm | wrangler, workerd, Miniflare, wasm-opt, esbuild, Node.js 24 | `node_modules` |
//!
//! Only package registries are used: `wasm-pack` would fetch wasm-bindgen from a release page, so it finds ours. Out of scope: Rust,
//! Node.js and npm themselves, a C compiler, the `openssl` program.

mod cargo_tools;
mod npm;
mod wasm_target;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result};

pub use self::wasm_target::{TARGET, sysroot};
use crate::process;

/// What a command is going to do with the tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Build and serve the bundle.
    Build,
    /// The same, and run the wasm tests.
    Test,
}

/// Paths of everything installed.
pub struct Tools {
    /// Node.js new enough for wrangler.
    pub node: PathBuf,
    /// Folder with `wasm-bindgen` and `wasm-bindgen-test-runner`, at the version of Cargo.lock.
    pub wasm_bindgen: PathBuf,
    /// `wasm-pack`, when the need was [`Need::Test`].
    pub wasm_pack: Option<PathBuf>,
    /// One word per tool and version; what was made with other tools is stale.
    pub fingerprint: String,
}

impl Tools {
    /// A program of an npm package.
    pub fn npm_bin(name: &str) -> PathBuf {
        npm::modules().join(".bin").join(name)
    }

    /// A command that finds our Node.js, npm programs and wasm-bindgen first, sends no metrics and fetches no tools.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.provide(&mut command);
        command
    }

    /// Gives `command` the environment of [`Tools::command`].
    pub fn provide(&self, command: &mut Command) {
        let ours = [self.node.parent(), Some(&self.wasm_bindgen)].into_iter().flatten().map(Path::to_owned);
        let npm = npm::modules().join(".bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let joined = std::env::join_paths(ours.chain([npm]).chain(std::env::split_paths(&path)));
        process::forget_our_package(command);
        command
            .current_dir(crate::paths::root())
            .env("PATH", joined.unwrap_or(path))
            .env("WRANGLER_SEND_METRICS", "false");
    }
}

/// Installs what is missing for `need`. Cheap when all is there.
pub fn prepare(need: Need) -> Result<Tools> {
    wasm_target::ensure()?;
    let bindgen = cargo_tools::wasm_bindgen_cli()?;
    let mut wanted = vec![&bindgen];
    if need == Need::Test {
        wanted.push(&cargo_tools::WASM_PACK);
    }
    cargo_tools::ensure(&wanted)?;
    let node = npm::ensure()?;
    let fingerprint = format!("{bindgen} {}", npm::lock_hash()?);
    Ok(Tools {
        node,
        wasm_bindgen: bindgen.bin_dir(),
        wasm_pack: (need == Need::Test).then(|| cargo_tools::WASM_PACK.program("wasm-pack")),
        fingerprint,
    })
}

/// Installs the packages of the lock file in `source` into `to/node_modules`, unless they are there.
pub fn install_packages(source: &Path, to: &Path) -> Result<()> {
    npm::install_elsewhere(source, to)
}

/// Whether the toolchain has the source of the standard library, so that the bundle gets one of its own. Asked for once.
pub fn std_source() -> bool {
    static THERE: LazyLock<bool> = LazyLock::new(wasm_target::ensure_source);
    *THERE
}

/// The workerd program of this platform.
pub fn workerd() -> Result<PathBuf> {
    npm::workerd()
}

/// Says at once, and not after a quarter of an hour of set-up, that the `openssl` program is missing.
pub fn openssl() -> Result<()> {
    crate::process::capture(Command::new("openssl").arg("version")).map(drop).context(
        "certificates are checked with the openssl program, which is missing (Debian: apt-get install openssl)",
    )
}

/// Holds `name` in `dir` against another xtask until dropped; says so when it has to wait.
pub fn lock(dir: &Path, name: &str) -> Result<File> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let path = dir.join(name);
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        crate::progress::note("waiting for another cargo xtask to finish here");
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}
