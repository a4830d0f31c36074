//! Running other programs: to the end, for their output, or beside us as servers that never outlive us.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::paths;

/// Seconds with one decimal, minutes beyond two of them.
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 120 {
            write!(f, "{:.1} s", self.0.as_secs_f32())
        } else {
            write!(f, "{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::root());
    forget_our_package(&mut command);
    command
}

/// `cargo run` tells us about our own package. Build scripts that look at these variables (ring's does) must not see them, or
/// they and all that depends on them are compiled again whenever cargo is called now from here and now from a shell.
pub fn forget_our_package(command: &mut Command) {
    const OURS: [&str; 5] =
        ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE"];
    let packages = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || OURS.contains(&name)));
    for name in packages {
        command.env_remove(name);
    }
}

/// Runs to the end with our output streams; an error names the program and its exit.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs to the end with standard output sent to standard error, which is where progress belongs.
pub fn run_quietly_on_stdout(command: &mut Command) -> Result<()> {
    run(command.stdout(std::io::stderr()))
}

/// Runs to the end and gives the exit status.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("cannot start `{}`", describe(command)))
}

/// Standard output of a program that succeeded, trimmed.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", describe(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` ended with {}: {}",
            describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout).context("output is not UTF-8")?.trim().to_owned())
}

/// Runs to the end, passing standard output through while `each` sees every line.
pub fn tee(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{}`", describe(command)))?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut ours = std::io::stdout().lock();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        ours.write_all(&line)?;
        ours.write_all(b"\n")?;
        each(&String::from_utf8_lossy(&line));
    }
    Ok(child.wait()?)
}

/// Program name and arguments for messages; never the environment, where secrets are.
fn describe(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// A program that does not look at its standard input, made to end when that does: see [`guard`].
pub fn guarded(program: &Path) -> Result<Command> {
    let mut command = Command::new(paths::own()?);
    command.arg("guard").arg(program);
    Ok(command)
}

/// Runs a program and sends it SIGTERM at the end of our standard input, which is when whoever started us is gone.
/// Signals to our group are the program's to heed; its exit status becomes ours.
pub fn guard(program: &[OsString]) -> Result<bool> {
    let [name, arguments @ ..] = program else { bail!("no program named") };
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let mut child = Command::new(name).args(arguments).stdin(Stdio::null()).spawn()?;
    let pid = Pid::from_child(&child);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = kill_process(pid, Signal::TERM);
    });
    std::process::exit(child.wait()?.code().unwrap_or(1))
}

/// A server beside us, in a process group of its own: dropping it ends the group.
pub struct Server {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    status: Option<ExitStatus>,
}

impl Server {
    /// Starts the program, gives it `input` as its first line of standard input (which stays open until it is stopped),
    /// and reads the one JSON line that says it is ready. Its standard error goes to `log`.
    pub fn start(
        name: &'static str,
        command: &mut Command,
        input: Option<&serde_json::Value>,
        log: &Path,
    ) -> Result<(Self, serde_json::Value)> {
        let stderr = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no standard output")?;
        let mut server = Self { name, child, stdin, status: None };
        if let (Some(stdin), Some(input)) = (server.stdin.as_mut(), input) {
            writeln!(stdin, "{input}").with_context(|| format!("{name} does not read its configuration"))?;
        }
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if let Ok(ready) = serde_json::from_str(&line) {
            return Ok((server, ready));
        }
        server.stop();
        let said = fs::read_to_string(log).unwrap_or_default();
        bail!("{name} did not start:\n{line}{}", said.trim());
    }

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> Option<(&'static str, ExitStatus)> {
        self.is_over().then(|| (self.name, self.reap()))
    }

    /// Lets it run on without us, after a last word on its standard input.
    pub fn leave(mut self, word: &str) -> Result<()> {
        if let Some(stdin) = self.stdin.as_mut() {
            writeln!(stdin, "{word}")?;
        }
        std::mem::forget(self);
        Ok(())
    }

    /// Sends a signal to its group, unless it was waited for: then the id may be somebody else's.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // Fails only when the group is gone, which is what we want.
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }

    /// Ends it as a service manager would; how it ended.
    pub fn finish(mut self) -> ExitStatus {
        self.stop()
    }

    fn stop(&mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.signal(Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.is_over() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.reap()
    }

    /// Looks without waiting for it, so that its id stays its own.
    fn is_over(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.status.is_some() || !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), look), Ok(None))
    }

    /// Ends what is left of the group, then waits for the head of it.
    fn reap(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        let status = self.child.wait().unwrap_or_default();
        *self.status.get_or_insert(status)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn log() -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new().unwrap()
    }

    #[test]
    fn a_server_reads_its_configuration_and_ends_with_its_input() {
        let mut command = shell("read line; echo \"$line\"; cat >/dev/null; exit 3");
        let given = serde_json::json!({"port": 0});
        let (server, ready) = Server::start("echo", &mut command, Some(&given), log().path()).unwrap();
        assert_eq!(ready, given);
        assert!(!server.is_over());
        drop(server);
    }

    #[test]
    fn what_a_server_started_ends_with_it() {
        let mut command = shell("trap '' TERM; sleep 1000 & echo \"{\\\"pid\\\":$!}\"; exit 0");
        let (mut server, ready) = Server::start("parent", &mut command, None, log().path()).unwrap();
        let grandchild = Pid::from_raw(i32::try_from(ready["pid"].as_i64().unwrap()).unwrap()).unwrap();
        while server.ended().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Gone, or a zombie that nobody has waited for yet: either way it is not asleep any more.
        let stat = format!("/proc/{}/stat", grandchild.as_raw_nonzero());
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "the grandchild lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let mut command = shell("echo no such port >&2; exit 1");
        let error = Server::start("verifier", &mut command, None, log().path()).err().unwrap();
        assert!(error.to_string().contains("no such port"), "{error}");
    }

    #[test]
    fn a_message_names_the_program_but_not_where_it_is() {
        assert_eq!(describe(Command::new("/some/where/npm").arg("ci")), "npm ci");
    }
}
