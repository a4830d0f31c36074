//! The worker bundle: `verifier-wasm` compiled, bound to JavaScript, optimised and packed into `build/`.
//!
//! | step | from | to |
//! |---|---|---|
//! | cargo | `verifier-wasm/src` | the module, with wasm-bindgen's notes in it |
//! | wasm-bindgen | that | `glue.js` and the module proper |
//! | wasm-opt | the module | `index_bg.wasm`, without names (a tenth of the size) |
//! | esbuild | `verifier-wasm/js` and the glue | `index.js`, in one piece |
//!
//! Cargo is asked first whether the module changed at all, so that an unchanged worker costs no optimiser run.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::progress::{Step, note};
use crate::tools::{self, TARGET, Tools};
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
            Self::Release => "worker",
            Self::Dev => "debug",
        }
    }
}

/// The module as wasm-bindgen leaves it.
pub const BOUND: &str = "glue_bg.wasm";

/// The script of a bundle.
pub const SCRIPT: &str = "index.js";
/// The module of a bundle.
pub const WASM: &str = "index_bg.wasm";

/// What takes the names out.
pub const NAMELESS: [&str; 2] = ["--strip-debug", "--strip-producers"];

/// For the size that is downloaded, which is compressed: what Binaryen's inlining and its shared subexpressions save, gzip saves anyhow, and they
/// cost it the likeness of one place to another (docs/performance.md).
const FOR_SIZE: [&str; 3] = ["-Oz", "--one-caller-inline-max-function-size=0", "--skip-pass=local-cse"];

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
    let module = match profile {
        Profile::Release => compile("verifier-wasm")?,
        Profile::Dev => compile_dev()?,
    };
    let stamp = Stamp::new(tools, profile, &module)?;
    if stamp.is_current(&dir) {
        step.end("unchanged");
        return Ok(dir);
    }
    stamp.forget()?;
    pack(tools, profile, &module, &dir)?;
    stamp.keep()?;
    report(tools, &dir)?;
    step.end("built");
    Ok(dir)
}

fn compile_dev() -> Result<PathBuf> {
    let mut command = process::cargo();
    command.args(["build", "--lib", "--package", "verifier-wasm", "--target", TARGET]);
    process::run_quietly_on_stdout(&mut command)?;
    Ok(module(paths::target(), Profile::Dev, "verifier-wasm"))
}

/// Compiles a package as it is deployed; its module.
///
/// The standard library is compiled with it, for size and without the texts of panics, which nobody would hear: 28 KB less to download
/// (docs/performance.md). That takes flags that are not stable, of a compiler that `rust-toolchain.toml` pins, and a target folder of its own: build
/// scripts look whether such flags are allowed, and would be run anew at each turn.
pub fn compile(package: &str) -> Result<PathBuf> {
    let target = paths::target().join("deployed");
    let mut command = process::cargo();
    command.args(["build", "--lib", "--package", package, "--target", TARGET]);
    command.args(["--profile", Profile::Release.cargo_dir()]);
    command.arg("--target-dir").arg(&target).args(["--config", &flags()?]);
    // Either would take the place of the flags.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    if tools::std_source() {
        command.args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"]);
        command.env("RUSTC_BOOTSTRAP", "1");
    } else {
        note(
            "no source of the standard library (rustup component add rust-src): the bundle will be about 28 KB larger",
        );
    }
    process::run_quietly_on_stdout(&mut command)?;
    Ok(module(&target, Profile::Release, package))
}

fn module(target: &Path, profile: Profile, package: &str) -> PathBuf {
    target.join(TARGET).join(profile.cargo_dir()).join(package.replace('-', "_")).with_extension("wasm")
}

/// Folders of this machine that panic messages would name, and what they say in their place.
fn machine_paths() -> Result<Vec<(PathBuf, &'static str)>> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let cargo = cargo.map(|cargo| (cargo.join("registry/src"), "crates"));
    Ok(cargo
        .into_iter()
        .chain([(tools::sysroot()?.join("lib/rustlib"), "rust"), (paths::root().to_owned(), ".")])
        .collect())
}

/// Cargo configuration for a module that is small, and the same wherever it is built.
fn flags() -> Result<String> {
    let anonymous = |(path, name): (PathBuf, &str)| format!("--remap-path-prefix={}={name}", path.display());
    let mut flags: Vec<String> = machine_paths()?.into_iter().map(anonymous).collect();
    if tools::std_source() {
        flags.extend(["-Zunstable-options", "-Cpanic=immediate-abort"].map(str::to_owned));
    }
    let flags: Vec<String> = flags.iter().map(|flag| format!("'{flag}'")).collect();
    Ok(format!("target.{TARGET}.rustflags=[{}]", flags.join(",")))
}

/// Whether the bundle says nothing of the machine that built it; names the path if it does.
pub fn names_no_machine(dir: &Path) -> Result<bool> {
    let step = Step::begin("Bundle without paths of this machine");
    let machine_paths = machine_paths()?;
    let mut found = Vec::new();
    for file in [SCRIPT, WASM] {
        let octets = fs::read(dir.join(file))?;
        let named = |path: &[u8]| octets.windows(path.len()).any(|window| window == path);
        let named = machine_paths.iter().filter(|(path, _)| named(path.as_os_str().as_bytes()));
        found.extend(named.map(|(path, _)| format!("{file} names {}", path.display())));
    }
    for line in &found {
        note(line);
    }
    step.end(if found.is_empty() { "passed" } else { "FAILED" });
    Ok(found.is_empty())
}

fn crate_dir() -> PathBuf {
    paths::root().join("verifier-wasm")
}

/// The module that JavaScript enters by.
const ENTRY: &str = "entry.mjs";

/// Modules written in JavaScript, in order of their names.
fn scripts() -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(crate_dir().join("js"))?.map(|file| Ok(file?.path()));
    let mut files: Vec<PathBuf> = files.collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "mjs"));
    files.sort_unstable();
    Ok(files)
}

/// Folder of what wasm-bindgen makes.
fn bound(profile: Profile) -> PathBuf {
    paths::scratch().join(format!("bound-{}", profile.cargo_dir()))
}

fn pack(tools: &Tools, profile: Profile, module: &Path, dir: &Path) -> Result<()> {
    let bound = bound(profile);
    for fresh in [&bound, &dir.to_owned()] {
        remove(fs::remove_dir_all(fresh))?;
        fs::create_dir_all(fresh).with_context(|| format!("cannot create {}", fresh.display()))?;
    }
    bind(tools, module, &bound)?;
    match profile {
        Profile::Release => {
            optimise(tools, &bound.join(BOUND), &dir.join(WASM), &NAMELESS)?;
        }
        Profile::Dev => _ = fs::copy(bound.join(BOUND), dir.join(WASM))?,
    }
    for script in scripts()? {
        let name = script.file_name().context("a script without a name")?;
        fs::copy(&script, bound.join(name))?;
    }
    join(tools, profile, &bound.join(ENTRY), &dir.join(SCRIPT))
}

/// Target `web`: the entry module instantiates, and takes a new instance when one has trapped.
pub fn bind(tools: &Tools, module: &Path, to: &Path) -> Result<()> {
    let mut command = tools.command(tools.wasm_bindgen.join("wasm-bindgen"));
    command.arg(module).arg("--out-dir").arg(to).args(["--out-name", "glue", "--target", "web"]);
    command.args(["--no-typescript", "--omit-default-module-path", "--experimental-reset-state-function"]);
    process::run_quietly_on_stdout(&mut command)
}

/// The module of the last release build once more, with the names that the bundle goes without.
pub fn named(tools: &Tools) -> Result<PathBuf> {
    let named = paths::scratch().join("named.wasm");
    optimise(tools, &bound(Profile::Release).join(BOUND), &named, &["--debuginfo"])?;
    Ok(named)
}

/// For size first; `names` says what becomes of the names.
pub fn optimise(tools: &Tools, from: &Path, to: &Path, names: &[&str]) -> Result<()> {
    let mut command = tools.command(Tools::npm_bin("wasm-opt"));
    command.arg(from).arg("-o").arg(to).args(WASM_FEATURES).args(FOR_SIZE).args(names);
    process::run_quietly_on_stdout(&mut command)
}

fn join(tools: &Tools, profile: Profile, entry: &Path, to: &Path) -> Result<()> {
    let mut command = tools.command(Tools::npm_bin("esbuild"));
    command.arg(entry).args(["--bundle", "--format=esm", "--target=es2024", "--log-level=warning"]);
    command.args([&format!("--external:./{WASM}"), "--external:cloudflare:*", &format!("--outfile={}", to.display())]);
    if profile == Profile::Release {
        command.arg("--minify");
    }
    process::run_quietly_on_stdout(&mut command)
}

/// What is not there needs no removal.
fn remove(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a bundle was made of: copies of the module that cargo gave and of the entry module, and the tools. Kept beside the bundle's folder.
struct Stamp {
    profile: Profile,
    module: Vec<u8>,
    /// Tools and entry module.
    rest: String,
}

impl Stamp {
    fn new(tools: &Tools, profile: Profile, module: &Path) -> Result<Self> {
        let module = fs::read(module).with_context(|| format!("cargo left no {}", module.display()))?;
        let mut rest = tools.fingerprint.clone();
        if profile == Profile::Release {
            rest.extend([flags()?, FOR_SIZE.join(" ")]);
        }
        for script in scripts()? {
            rest += &fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
        }
        Ok(Self { profile, module, rest })
    }

    fn module_path(&self) -> PathBuf {
        paths::scratch().join(format!("bundle-{}.wasm", self.profile.cargo_dir()))
    }

    fn rest_path(&self) -> PathBuf {
        paths::scratch().join(format!("bundle-{}.txt", self.profile.cargo_dir()))
    }

    fn is_current(&self, dir: &Path) -> bool {
        [SCRIPT, WASM].iter().all(|file| dir.join(file).is_file())
            && fs::read_to_string(self.rest_path()).is_ok_and(|old| old == self.rest)
            && fs::read(self.module_path()).is_ok_and(|old| old == self.module)
    }

    /// A run that is cut short must not look finished.
    fn forget(&self) -> Result<()> {
        remove(fs::remove_file(self.rest_path()))
    }

    fn keep(&self) -> Result<()> {
        fs::write(self.module_path(), &self.module)?;
        fs::write(self.rest_path(), &self.rest)?;
        Ok(())
    }
}

/// A file of the bundle, bytes: as it is, and as `gzip -9` has it.
pub struct Weight {
    file: &'static str,
    raw: u64,
    /// Compressed.
    pub gzip: u64,
}

/// Sizes of what is uploaded.
pub fn weigh(tools: &Tools, dir: &Path) -> Result<Vec<Weight>> {
    const MEASURE: &str = "const z = require('zlib'), f = require('fs');
        for (const p of process.argv.slice(1)) {
            const raw = f.readFileSync(p);
            console.log(raw.length, z.gzipSync(raw, { level: 9 }).length);
        }";
    let files = [WASM, SCRIPT];
    let mut command = tools.command(&tools.node);
    command.args(["-e", MEASURE]).args(files.map(|file| dir.join(file)));
    let measured = process::capture(&mut command)?;
    let weights = files.into_iter().zip(measured.lines()).map(|(file, line)| {
        let (raw, gzip) = line.split_once(' ').context("no sizes")?;
        Ok(Weight { file, raw: raw.parse()?, gzip: gzip.parse()? })
    });
    weights.collect()
}

fn report(tools: &Tools, dir: &Path) -> Result<()> {
    let mut weights = weigh(tools, dir)?;
    let total = |of: fn(&Weight) -> u64| weights.iter().map(of).sum();
    weights.push(Weight { file: "together", raw: total(|weight| weight.raw), gzip: total(|weight| weight.gzip) });
    for Weight { file, raw, gzip } in weights {
        note(format_args!("{file:<14} {:>8} KB {:>8} KB gzip -9", kilobytes(raw), kilobytes(gzip)));
    }
    Ok(())
}

/// Thousands of bytes, one decimal.
pub fn kilobytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1000, bytes % 1000 / 100)
}
