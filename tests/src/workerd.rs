//! Bare workerd: a capnp written for a worker, the process, what it uses of the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{ChildProcess, Stream};
use crate::usage;

/// workerd starts in a fraction of a second on an idle machine.
const READY: Duration = Duration::from_mins(1);

/// What is served.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Folder of the modules.
    pub bundle: PathBuf,
    /// File name of the module that is the entry.
    pub main: String,
    /// As in wrangler.toml.
    pub compatibility_date: String,
    /// As in wrangler.toml.
    pub compatibility_flags: Vec<String>,
    /// Variables and secrets.
    pub texts: BTreeMap<String, String>,
    /// Binding and class of each object.
    pub objects: Vec<(String, String)>,
}

impl Worker {
    /// The same with another variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.texts.insert(name.to_owned(), value.into());
        self
    }

    /// Copies the modules and writes the configuration into `folder`.
    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let modules = folder.join("modules");
        let mut names = copy_modules(&self.bundle, &modules)?;
        // The first module is the entry.
        names.sort_by_key(|name| (*name != self.main, name.clone()));
        anyhow::ensure!(names.first() == Some(&self.main), "{} has no {}", self.bundle.display(), self.main);
        fs::create_dir_all(folder.join("state"))?;
        let path = folder.join("config.capnp");
        fs::write(&path, self.config(&names, &folder.join("state"))?)?;
        Ok(path)
    }

    fn config(&self, modules: &[String], state: &Path) -> Result<String> {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",\n    ");
        let modules = list(&mut modules.iter().map(|name| {
            let kind = if has_extension(Path::new(name), "wasm") { "wasm" } else { "esModule" };
            format!("(name = {}, {kind} = embed {})", text(name), text(&format!("modules/{name}")))
        }));
        let texts = self.texts.iter().map(|(name, value)| format!("(name = {}, text = {})", text(name), text(value)));
        let objects = self
            .objects
            .iter()
            .map(|(binding, class)| format!("(name = {}, durableObjectNamespace = {})", text(binding), text(class)));
        let bindings = list(&mut texts.chain(objects));
        let classes = list(
            &mut self
                .objects
                .iter()
                .map(|(_, class)| format!("(className = {0}, uniqueKey = {0}, enableSql = true)", text(class))),
        );
        let flags = list(&mut self.compatibility_flags.iter().map(|flag| text(flag)));
        let date = text(&self.compatibility_date);
        let disk = text(state.to_str().context("a folder whose name is not UTF-8")?);
        let mut config = String::new();
        write!(
            config,
            r#"using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"])),
    (name = "disk", disk = (path = {disk}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    {modules}
  ],
  bindings = [
    {bindings}
  ],
  durableObjectNamespaces = [
    {classes}
  ],
  durableObjectStorage = (localDisk = "disk"),
  compatibilityDate = {date},
  compatibilityFlags = [{flags}],
);
"#
        )?;
        Ok(config)
    }
}

/// Copies the files of `from` that `wanted` likes into `to`; their names, relative, with slashes.
fn copy_tree(from: &Path, to: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if wanted(&path) {
                let name = path.strip_prefix(from)?.to_str().context("a name that is not UTF-8")?.to_owned();
                let copy = to.join(&name);
                fs::create_dir_all(copy.parent().context("a file lies in a folder")?)?;
                fs::copy(&path, copy)?;
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Copies the modules of a bundle; their names.
pub fn copy_modules(from: &Path, to: &Path) -> Result<Vec<String>> {
    copy_tree(from, to, is_module)
}

fn is_module(path: &Path) -> bool {
    ["js", "mjs", "wasm"].iter().any(|known| has_extension(path, known))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

/// A text of capnp, whose escapes are those of C.
fn text(value: &str) -> String {
    let mut literal = String::with_capacity(value.len() + 2);
    literal.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => literal.extend(['\\', character]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            other => literal.push(other),
        }
    }
    literal.push('"');
    literal
}

/// A worker being served. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    process: ChildProcess,
    address: SocketAddr,
    folder: PathBuf,
    /// From the start of the process to its listening.
    pub listening_after: Duration,
}

impl Server {
    /// Serves `worker` with its storage in `folder`, which may hold that of an earlier run.
    pub fn start(workerd: &Path, worker: &Worker, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let config = worker.write(folder)?;
        Self::start_again(workerd, &config, folder)
    }

    /// The same with everything written already: nothing but the process is started.
    pub fn start_again(workerd: &Path, config: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(workerd);
        command.arg("serve").arg("--control-fd=2").arg(config);
        let started = Instant::now();
        let mut process = ChildProcess::spawn_without_stdout(&mut command)?;
        let line = process.wait_for_line(Stream::Stderr, "line that it listens", READY, |line| {
            line.starts_with('{') && line.contains("\"listen\"")
        })?;
        let listening_after = started.elapsed();
        let said: Value = serde_json::from_str(&line).context("the line that it listens")?;
        let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok()).context("no port was named")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self { process, address, folder: folder.to_owned(), listening_after })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it wrote to standard error.
    pub fn errors(&self) -> String {
        self.process.stderr()
    }

    /// Time on the processors so far, all threads.
    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu_time(self.process.pid())
    }

    /// Folder of configuration and storage.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it, so that its storage is whole on the disk.
    pub fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(text("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
