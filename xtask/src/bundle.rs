//! The worker bundle: `verifier-wasm` compiled, bound, optimised and packed into `build/`.
//!
//! worker-build does the work. Around it: cargo is asked first whether the module changed at all, so that an unchanged
//! worker costs no optimiser run; and the name section, which worker-build keeps, is taken out (a tenth of the size).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::progress::{Step, note};
use crate::tools::{self, Tools};
use crate::{paths, process};

/// How the worker is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Optimised for size, as it is deployed: into `build/`.
    Release,
    /// Not optimised, minutes faster to build: into the target folder, never deployed.
    Dev,
}

impl Profile {
    /// Release, unless asked otherwise.
    pub fn new(unoptimised: bool) -> Self {
        if unoptimised { Self::Dev } else { Self::Release }
    }

    /// Folder with `index.js` and `index_bg.wasm`.
    pub fn dir(self) -> PathBuf {
        match self {
            Self::Release => paths::root().join("build"),
            Self::Dev => paths::scratch().join("worker-dev"),
        }
    }

    fn cargo_dir(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

/// Binaryen must not use features that workerd refuses, so `--all-features` is out.
const WASM_FEATURES: [&str; 7] = [
    "--enable-mutable-globals",
    "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-reference-types",
    "--enable-exception-handling",
];

/// Builds, or finds that nothing changed; the folder with the bundle.
pub fn build(tools: &Tools, profile: Profile) -> Result<PathBuf> {
    let step = Step::begin(match profile {
        Profile::Release => "Worker bundle",
        Profile::Dev => "Worker bundle, not optimised",
    });
    let _lock = tools::lock(&paths::scratch(), "bundle.lock")?;
    let dir = profile.dir();
    compile(profile)?;
    let stamp = Stamp::new(tools, profile)?;
    if stamp.is_current(&dir) {
        step.end("unchanged");
        return Ok(dir);
    }
    stamp.forget()?;
    pack(tools, profile, &dir)?;
    stamp.keep()?;
    report(tools, &dir)?;
    step.end("built");
    Ok(dir)
}

/// The cargo call that worker-build makes, so that its own finds everything done.
fn compile(profile: Profile) -> Result<()> {
    let mut command = process::cargo();
    command.current_dir(crate_dir()).args(["build", "--lib", "--target", "wasm32-unknown-unknown"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    command.env("WASM_BINDGEN_USE_JS_SYS", "1");
    process::run_quietly_on_stdout(&mut command)
}

fn crate_dir() -> PathBuf {
    paths::root().join("verifier-wasm")
}

fn pack(tools: &Tools, profile: Profile, dir: &Path) -> Result<()> {
    let mut command = tools.command(&tools.worker_build);
    command.current_dir(crate_dir()).arg(match profile {
        Profile::Release => "--release",
        Profile::Dev => "--dev",
    });
    process::run_quietly_on_stdout(command.arg("--out-dir").arg(dir))?;
    if profile == Profile::Dev {
        return Ok(());
    }
    let module = dir.join("index_bg.wasm");
    let mut strip = tools.command(Tools::npm_bin("wasm-opt"));
    strip.arg(&module).arg("-o").arg(&module).args(WASM_FEATURES).args(["--strip-debug", "--strip-producers"]);
    process::run_quietly_on_stdout(&mut strip)
}

/// What a bundle was made of: a copy of the module that cargo gave, and the tools. Kept beside the bundle's folder.
struct Stamp {
    profile: Profile,
    module: Vec<u8>,
    tools: String,
}

impl Stamp {
    fn new(tools: &Tools, profile: Profile) -> Result<Self> {
        let path = paths::target().join("wasm32-unknown-unknown").join(profile.cargo_dir()).join("verifier_wasm.wasm");
        let module = fs::read(&path).with_context(|| format!("cargo left no {}", path.display()))?;
        Ok(Self { profile, module, tools: tools.fingerprint.clone() })
    }

    fn module_path(&self) -> PathBuf {
        paths::scratch().join(format!("bundle-{}.wasm", self.profile.cargo_dir()))
    }

    fn tools_path(&self) -> PathBuf {
        paths::scratch().join(format!("bundle-{}-tools.txt", self.profile.cargo_dir()))
    }

    fn is_current(&self, dir: &Path) -> bool {
        dir.join("index.js").is_file()
            && dir.join("index_bg.wasm").is_file()
            && fs::read_to_string(self.tools_path()).is_ok_and(|old| old == self.tools)
            && fs::read(self.module_path()).is_ok_and(|old| old == self.module)
    }

    /// A run that is cut short must not look finished.
    fn forget(&self) -> Result<()> {
        match fs::remove_file(self.tools_path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn keep(&self) -> Result<()> {
        fs::write(self.module_path(), &self.module)?;
        fs::write(self.tools_path(), &self.tools)?;
        Ok(())
    }
}

/// Sizes of what is uploaded, raw and as `gzip -9` has them.
fn report(tools: &Tools, dir: &Path) -> Result<()> {
    const MEASURE: &str = "const z = require('zlib'), f = require('fs');
        for (const p of process.argv.slice(1)) {
            const raw = f.readFileSync(p);
            console.log(raw.length, z.gzipSync(raw, { level: 9 }).length);
        }";
    let files = ["index_bg.wasm", "index.js"];
    let mut command = tools.command(&tools.node);
    command.args(["-e", MEASURE]).args(files.map(|file| dir.join(file)));
    let measured = process::capture(&mut command)?;
    let mut total = (0_u64, 0_u64);
    for (file, line) in files.iter().zip(measured.lines()) {
        let (raw, gzip) = line.split_once(' ').context("no sizes")?;
        let (raw, gzip): (u64, u64) = (raw.parse()?, gzip.parse()?);
        note(format_args!("{file:<14} {:>8} KB {:>8} KB gzip -9", kilobytes(raw), kilobytes(gzip)));
        total = (total.0 + raw, total.1 + gzip);
    }
    note(format_args!("{:<14} {:>8} KB {:>8} KB gzip -9", "together", kilobytes(total.0), kilobytes(total.1)));
    Ok(())
}

fn kilobytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1000, bytes % 1000 / 100)
}
