//! The process helper, on small shell scripts and on our own `emulators` binary.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use edge_tests::process::{ChildProcess, ProcessError, Stream, free_port};
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(30);

fn shell(script: &str) -> ChildProcess {
    ChildProcess::spawn(Command::new("sh").args(["-c", script])).unwrap()
}

fn is_alive(pid: &str) -> bool {
    // A zombie is over, too: its parent just has not asked yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(condition: impl Fn() -> bool) {
    let until = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < until, "waited for {BOUND:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_emulators_announce_themselves_and_end_on_sigterm() {
    let mut child = ChildProcess::spawn(&mut Command::new(env!("CARGO_BIN_EXE_emulators"))).unwrap();
    let line = child.wait_for_line(Stream::Stdout, "ready line", BOUND, |line| line.starts_with('{')).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["pid"], child.pid());
    for address in ["sts_url", "issuer_url"] {
        let address = ready[address].as_str().unwrap().strip_prefix("http://").unwrap();
        child.wait_for_port(address.parse().unwrap(), BOUND).unwrap();
    }
    assert_eq!(child.terminate().unwrap().code(), Some(0));
}

#[test]
fn both_streams_are_kept_apart() {
    let mut child = shell("echo out; echo err >&2; printf 'no newline'; exit 3");
    assert_eq!(child.wait_for_exit(BOUND).unwrap().code(), Some(3));
    assert_eq!(child.stdout(), "out\nno newline\n");
    assert_eq!(child.stderr(), "err\n");
}

#[test]
fn lines_are_found_whether_past_or_to_come() {
    let mut child = shell("echo one; sleep 0.2; echo two; sleep 60");
    let mut wait =
        |wanted: &'static str| child.wait_for_line(Stream::Stdout, wanted, BOUND, |line| line == wanted).unwrap();
    assert_eq!(wait("two"), "two");
    assert_eq!(wait("one"), "one");
}

#[test]
fn a_child_that_ends_early_is_reported_with_its_words() {
    let mut child = shell("echo 'cannot bind' >&2; exit 1");
    let error = child.wait_for_line(Stream::Stdout, "ready line", BOUND, |_| true).unwrap_err();
    let ProcessError::Ended { status, ref output, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(status.code(), Some(1));
    assert!(output.contains("cannot bind"), "{error}");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let mut child = shell("exit 2");
    assert!(matches!(child.wait_for_port(nobody, BOUND), Err(ProcessError::Ended { .. })));
}

#[test]
fn waiting_is_bounded() {
    let mut child = shell("echo started; sleep 60");
    let short = Duration::from_millis(100);
    let error = child.wait_for_line(Stream::Stdout, "x", short, |line| line == "x").unwrap_err();
    assert!(matches!(error, ProcessError::TimedOut { .. }), "{error}");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    assert!(matches!(child.wait_for_port(nobody, short), Err(ProcessError::TimedOut { .. })));
    assert!(matches!(child.wait_for_exit(short), Err(ProcessError::TimedOut { .. })));
    assert!(matches!(ChildProcess::spawn(&mut Command::new("/nonexistent/program")), Err(ProcessError::Io { .. })));
}

#[test]
fn dropping_ends_the_child_and_what_it_started() {
    let mut child = shell("sleep 60 & echo $!; wait");
    let grandchild = child.wait_for_line(Stream::Stdout, "pid", BOUND, |_| true).unwrap();
    let pid = child.pid().to_string();
    assert!(is_alive(&pid) && is_alive(&grandchild));
    drop(child);
    wait_until(|| !is_alive(&pid) && !is_alive(&grandchild));
}

#[test]
fn what_ignores_sigterm_is_killed() {
    let mut child = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    child.wait_for_line(Stream::Stdout, "ready", BOUND, |line| line == "ready").unwrap();
    assert_eq!(child.terminate().unwrap().signal(), Some(9));
}

#[test]
fn free_ports_can_be_bound() {
    let port = free_port().unwrap();
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert!(TcpStream::connect(listener.local_addr().unwrap()).is_ok());
}

#[test]
fn a_child_that_ends_takes_what_it_started_along() {
    let mut child = shell("sleep 60 & echo $!; exit 4");
    assert_eq!(child.wait_for_exit(BOUND).unwrap().code(), Some(4));
    let grandchild = child.stdout().trim().to_owned();
    wait_until(|| !is_alive(&grandchild));
    assert_eq!(child.terminate().unwrap().code(), Some(4));
    assert!(matches!(child.signal(rustix::process::Signal::TERM), Err(ProcessError::Ended { .. })));
}

#[test]
fn standard_output_can_be_thrown_away() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo thrown away; echo kept >&2; sleep 1000"]);
    let mut child = ChildProcess::spawn_without_stdout(&mut command).unwrap();
    child.wait_for_line(Stream::Stderr, "line", BOUND, |line| line == "kept").unwrap();
    child.terminate().unwrap();
    assert_eq!(child.stdout(), "");
}
