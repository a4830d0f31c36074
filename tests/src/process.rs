//! Runs a program beside a test: output captured, readiness awaited with a bound, ended on drop.
//!
//! Everything here blocks, on purpose: the emulators answer from threads of their own, so a test
//! may wait. A child is the head of a process group of its own, and the group is ended with it, so that what
//! it started (a `workerd` under `node`) does not stay behind.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

const POLL: Duration = Duration::from_millis(20);
/// How long a child may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// Lines kept per stream; the rest of a chatty child's past is forgotten.
const KEPT_LINES: usize = 20_000;

/// Why a child did not do what was awaited.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started or waited for.
    #[error("{program}: {source}")]
    Io {
        /// The program's name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{program} ended early ({status})\n{output}")]
    Ended {
        /// The program's name.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        output: String,
    },
    /// It took too long.
    #[error("{program}: no {awaited} within {bound:?}\n{output}")]
    TimedOut {
        /// The program's name.
        program: String,
        /// What was waited for.
        awaited: String,
        /// For how long.
        bound: Duration,
        /// The end of what it wrote.
        output: String,
    },
}

/// One output stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    forgotten: usize,
    ended: bool,
}

#[derive(Debug, Default)]
struct Capture {
    lines: Mutex<Lines>,
    changed: Condvar,
}

impl Capture {
    /// Reads `source` to its end on a thread; what is not there has ended.
    fn follow(self: &Arc<Self>, source: Option<impl Read + Send + 'static>) {
        let Some(source) = source else {
            self.lines.lock().ended = true;
            return;
        };
        let capture = Arc::clone(self);
        std::thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while matches!(source.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line);
                capture.push(text.trim_end_matches(['\n', '\r']).to_owned());
                line.clear();
            }
            capture.lines.lock().ended = true;
            capture.changed.notify_all();
        });
    }

    /// Waits for the stream's end, but not for a writer that left the group and lives on.
    fn drain(&self) {
        let until = Instant::now() + GRACE;
        let mut lines = self.lines.lock();
        while !lines.ended && !self.changed.wait_until(&mut lines, until).timed_out() {}
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock();
        if lines.kept.len() == KEPT_LINES {
            lines.kept.pop_front();
            lines.forgotten += 1;
        }
        lines.kept.push_back(line);
        self.changed.notify_all();
    }

    fn text(&self) -> String {
        let lines = self.lines.lock();
        lines.kept.iter().fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        })
    }

    /// The first line that satisfies `wanted`, past ones included.
    fn wait_for(&self, wanted: &mut dyn FnMut(&str) -> bool, until: Instant) -> Option<String> {
        let mut lines = self.lines.lock();
        let mut seen = 0;
        loop {
            let skip = usize::saturating_sub(seen, lines.forgotten);
            if let Some(line) = lines.kept.iter().skip(skip).find(|line| wanted(line)) {
                return Some(line.clone());
            }
            seen = lines.forgotten + lines.kept.len();
            if lines.ended || self.changed.wait_until(&mut lines, until).timed_out() {
                return None;
            }
        }
    }
}

/// A child that ends with this value.
#[derive(Debug)]
pub struct ChildProcess {
    program: String,
    child: Child,
    /// Held open: some children take its end as the order to stop.
    stdin: Option<ChildStdin>,
    stdout: Arc<Capture>,
    stderr: Arc<Capture>,
    /// Set once the child has been waited for; from then on its id may be another process's.
    status: Option<ExitStatus>,
}

impl ChildProcess {
    /// Starts `command` with both output streams captured and no standard input.
    pub fn spawn(command: &mut Command) -> Result<Self, ProcessError> {
        Self::start(command.stdin(Stdio::null()))
    }

    /// The same, with `input` on standard input, which stays open until the child ends or this process does.
    pub fn spawn_with_input(command: &mut Command, input: &[u8]) -> Result<Self, ProcessError> {
        let mut process = Self::start(command.stdin(Stdio::piped()))?;
        let mut stdin = process.child.stdin.take().expect("standard input is a pipe");
        stdin.write_all(input).and_then(|()| stdin.flush()).map_err(|error| process.io(error))?;
        process.stdin = Some(stdin);
        Ok(process)
    }

    /// The same as [`Self::spawn`] with standard output thrown away: for a server that logs every request there.
    pub fn spawn_without_stdout(command: &mut Command) -> Result<Self, ProcessError> {
        Self::start_with(command.stdin(Stdio::null()), Stdio::null())
    }

    fn start(command: &mut Command) -> Result<Self, ProcessError> {
        Self::start_with(command, Stdio::piped())
    }

    fn start_with(command: &mut Command, stdout: Stdio) -> Result<Self, ProcessError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdout(stdout)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| ProcessError::Io { program: program.clone(), source })?;
        let (stdout, stderr) = (Arc::<Capture>::default(), Arc::<Capture>::default());
        stdout.follow(child.stdout.take());
        stderr.follow(child.stderr.take());
        Ok(Self { program, child, stdin: None, stdout, stderr, status: None })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits for a line of `stream` that satisfies `wanted`, one already written included.
    pub fn wait_for_line(
        &mut self,
        stream: Stream,
        awaited: &str,
        bound: Duration,
        mut wanted: impl FnMut(&str) -> bool,
    ) -> Result<String, ProcessError> {
        let capture = match stream {
            Stream::Stdout => Arc::clone(&self.stdout),
            Stream::Stderr => Arc::clone(&self.stderr),
        };
        if let Some(line) = capture.wait_for(&mut wanted, Instant::now() + bound) {
            return Ok(line);
        }
        // The stream ends a little before the process does.
        let status = if capture.lines.lock().ended { self.poll_exit(Instant::now() + GRACE)? } else { None };
        Err(self.not_ready(status, awaited, bound))
    }

    /// Waits until something accepts connections at `address`.
    pub fn wait_for_port(&mut self, address: SocketAddr, bound: Duration) -> Result<(), ProcessError> {
        let until = Instant::now() + bound;
        loop {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            let status = self.poll_exit(Instant::now())?;
            if status.is_some() || Instant::now() >= until {
                return Err(self.not_ready(status, &format!("listener at {address}"), bound));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the child to end by itself; what it started is ended then, too.
    pub fn wait_for_exit(&mut self, bound: Duration) -> Result<ExitStatus, ProcessError> {
        match self.poll_exit(Instant::now() + bound)? {
            Some(status) => Ok(status),
            None => Err(self.not_ready(None, "end", bound)),
        }
    }

    /// Sends a signal to the child alone. Nothing is sent to a child that is known to have ended.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        match self.status {
            Some(status) => Err(self.not_ready(Some(status), "process", Duration::ZERO)),
            None => kill_process(self.id(), signal).map_err(|error| self.io(error.into())),
        }
    }

    /// Ends the child as an operator would: SIGTERM, and SIGKILL when that is not heeded.
    pub fn terminate(&mut self) -> Result<ExitStatus, ProcessError> {
        if self.status.is_none() {
            self.signal(Signal::TERM)?;
            self.poll_exit(Instant::now() + GRACE)?;
        }
        self.kill()
    }

    /// Kills the child and what it started, as a crash would.
    pub fn kill(&mut self) -> Result<ExitStatus, ProcessError> {
        match self.status {
            Some(status) => Ok(status),
            None => self.reap(),
        }
    }

    /// Whether the child has ended, asked until `until` and at least once. It is reaped then.
    fn poll_exit(&mut self, until: Instant) -> Result<Option<ExitStatus>, ProcessError> {
        while self.status.is_none() {
            // Looks without reaping: the group must be ended while its id is still the child's.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let ended = waitid(WaitId::Pid(self.id()), look).map_err(|error| self.io(error.into()))?;
            if ended.is_some() {
                return self.reap().map(Some);
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
        Ok(self.status)
    }

    /// Ends the group, then waits for the child: in this order the group's id cannot be a stranger's.
    fn reap(&mut self) -> Result<ExitStatus, ProcessError> {
        let _ = kill_process_group(self.id(), Signal::KILL);
        drop(self.stdin.take());
        let status = self.child.wait().map_err(|source| ProcessError::Io { program: self.program.clone(), source })?;
        self.status = Some(status);
        self.stdout.drain();
        self.stderr.drain();
        Ok(status)
    }

    /// The child's process id, which is its group's.
    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn io(&self, source: io::Error) -> ProcessError {
        ProcessError::Io { program: self.program.clone(), source }
    }

    fn not_ready(&self, status: Option<ExitStatus>, awaited: &str, bound: Duration) -> ProcessError {
        let program = self.program.clone();
        let output = format!("{}{}", self.stdout(), self.stderr());
        match status {
            Some(status) => ProcessError::Ended { program, status, output },
            None => ProcessError::TimedOut { program, awaited: awaited.to_owned(), bound, output },
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.terminate();
    }
}

/// A loopback port that was free a moment ago. Prefer port 0 where the program can pick itself.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
