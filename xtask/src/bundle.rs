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

/// Where the bundle is and what it weighs.
pub struct Bundle {
    /// Folder with `index.js` and `index_bg.wasm`.
    pub dir: PathBuf,
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

/// Builds, or finds that nothing changed.
pub fn build(tools: &Tools) -> Result<Bundle> {
    let step = Step::begin("Worker bundle");
    let _lock = tools::lock(&paths::scratch(), "bundle.lock")?;
    let bundle = Bundle { dir: paths::bundle() };
    compile()?;
    let stamp = Stamp::new(tools)?;
    if stamp.is_current(&bundle.dir) {
        step.end("unchanged");
        return Ok(bundle);
    }
    Stamp::forget()?;
    pack(tools, &bundle.dir)?;
    stamp.keep()?;
    report(tools, &bundle.dir)?;
    step.end("built");
    Ok(bundle)
}

/// The cargo call that worker-build makes, so that its own finds everything done.
fn compile() -> Result<()> {
    let mut command = process::cargo();
    command
        .current_dir(crate_dir())
        .args(["build", "--lib", "--release", "--target", "wasm32-unknown-unknown"])
        .env("WASM_BINDGEN_USE_JS_SYS", "1");
    process::run_quietly_on_stdout(&mut command)
}

fn crate_dir() -> PathBuf {
    paths::root().join("verifier-wasm")
}

fn pack(tools: &Tools, dir: &Path) -> Result<()> {
    let mut command = tools.command(&tools.worker_build);
    command.current_dir(crate_dir()).arg("--release").arg("--out-dir").arg(dir);
    process::run_quietly_on_stdout(&mut command)?;
    let module = dir.join("index_bg.wasm");
    let mut strip = tools.command(Tools::npm_bin("wasm-opt"));
    strip.arg(&module).arg("-o").arg(&module).args(WASM_FEATURES).args(["--strip-debug", "--strip-producers"]);
    process::run_quietly_on_stdout(&mut strip)
}

/// What `build/` was made of: a copy of the module that cargo gave, and the tools.
struct Stamp {
    module: Vec<u8>,
    tools: String,
}

impl Stamp {
    fn new(tools: &Tools) -> Result<Self> {
        let path = paths::target().join("wasm32-unknown-unknown/release/verifier_wasm.wasm");
        let module = fs::read(&path).with_context(|| format!("cargo left no {}", path.display()))?;
        Ok(Self { module, tools: tools.fingerprint.clone() })
    }

    fn paths() -> (PathBuf, PathBuf) {
        (paths::scratch().join("bundle-input.wasm"), paths::scratch().join("bundle-tools.txt"))
    }

    fn is_current(&self, dir: &Path) -> bool {
        let (module, tools) = Self::paths();
        dir.join("index.js").is_file()
            && dir.join("index_bg.wasm").is_file()
            && fs::read_to_string(tools).is_ok_and(|old| old == self.tools)
            && fs::read(module).is_ok_and(|old| old == self.module)
    }

    /// A run that is cut short must not look finished.
    fn forget() -> Result<()> {
        match fs::remove_file(Self::paths().1) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn keep(&self) -> Result<()> {
        let (module, tools) = Self::paths();
        fs::write(module, &self.module)?;
        fs::write(tools, &self.tools)?;
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
