//! tests/vectors/faults.md, row by row, for real: the fault brought about, the real runner, and where the verifier has a say the real
//! verifier in workerd.
//!
//! The classes mean what the page says. Every row is tried by `enroll` and by `run`, each on a machine of its own; where `run` keeps
//! going, the fault is then undone and the certificate must come.

mod places;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use edge_tests::process::{ChildProcess, Stream};
use edge_tests::stack::{Ended, Options, Stack};
use parking_lot::Mutex;
use serde_json::Value;

use self::places::{Machine, Scene};
use self::rows::{ROWS, Row};
use crate::support::vector;

/// For what a runner does in seconds, on a machine that is busy.
const SOON: Duration = Duration::from_secs(90);
/// Runners at work at once.
const WORKERS: usize = 6;

/// Fault and class of each row of the page.
fn page() -> Vec<(String, String)> {
    let text = String::from_utf8(vector("", "faults.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].replace('`', ""), cells[1].to_owned())
    })
    .collect()
}

#[test]
fn every_row_of_the_page_has_a_test() {
    let tested: Vec<(String, String)> = ROWS.iter().map(|row| (row.fault.to_owned(), row.class.to_owned())).collect();
    assert_eq!(tested, page());
}

#[test]
fn every_fault_is_explained() {
    let stack = Stack::start(Options::new("faults"));
    let secrets = ["CA_PRIVATE_KEY".to_owned()].to_vec();
    let unready =
        Stack::start(Options { apply_policy: false, missing_secrets: secrets, ..Options::new("faults-unready") });
    let scene = Scene::new(&stack, &unready);
    let (todo, failed) = (Mutex::new(ROWS.iter().collect::<Vec<_>>()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(row) = todo.lock().pop() else { break };
                    if catch_unwind(AssertUnwindSafe(|| judge(row, &scene))).is_err() {
                        failed.lock().push(row.fault);
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner(), Vec::<&str>::new());
}

fn judge(row: &Row, scene: &Scene<'_>) {
    match row.class {
        "78" => ends(row, scene, &[78]),
        "77" => ends(row, scene, &[77]),
        "77/78" => ends(row, scene, &[77, 78]),
        "69" => {
            enroll_ends(row, scene, &[69]);
            keeps_going(row, scene);
        }
        "waits" | "waits/77" => {
            enroll_ends(row, scene, &[77]);
            let said = keeps_going(row, scene);
            assert!(said.contains("waiting for new evidence"), "{}: {said}", row.fault);
        }
        "0" if row.said.is_empty() => {
            let machine = inject(row, scene, "enroll");
            let _ = Ended::of(&mut machine.runner("enroll")).expect(0);
            certified(row, &mut inject(row, scene, "run").start());
        }
        "0" => {
            let said = keeps_going(row, scene);
            assert!(!said.contains("refuse"), "{}: {said}", row.fault);
        }
        other => panic!("{}: {other} is no class", row.fault),
    }
}

/// A machine with the fault, for one command.
fn inject<'s>(row: &Row, scene: &'s Scene<'s>, command: &str) -> Machine<'s> {
    let number = ROWS.iter().position(|other| other.fault == row.fault).unwrap();
    (row.inject)(scene, &format!("row-{number}-{command}"))
}

/// `enroll` and `run` both end, with the same words and status.
fn ends(row: &Row, scene: &Scene<'_>, allowed: &[i32]) {
    enroll_ends(row, scene, allowed);
    let machine = inject(row, scene, "run");
    let mut runner = machine.start();
    let status = runner.wait_for_exit(SOON).unwrap().code().unwrap();
    let ended = Ended { status, stdout: runner.stdout(), stderr: runner.stderr() };
    explained(row, &machine, &ended, allowed);
}

fn enroll_ends(row: &Row, scene: &Scene<'_>, allowed: &[i32]) {
    let machine = inject(row, scene, "enroll");
    explained(row, &machine, &Ended::of(&mut machine.runner("enroll")), allowed);
}

/// The first message names the cause, the same on standard error and as data; hints follow.
fn explained(row: &Row, machine: &Machine<'_>, ended: &Ended, allowed: &[i32]) {
    let place = format!("{}: {}\n{}\n{}", row.fault, ended.status, ended.stdout, ended.stderr);
    assert!(allowed.contains(&ended.status), "{place}");
    let data = ended.stdout.lines().last().unwrap_or_default();
    let error = serde_json::from_str::<Value>(data).unwrap_or_else(|error| panic!("{error}: {place}"))["error"].take();
    let message = error["message"].as_str().unwrap_or_else(|| panic!("no message: {place}"));
    let token = rows::token_file(&machine.host).display().to_string();
    let said: Vec<String> = row.said.iter().map(|word| word.replace("<token>", &token)).collect();
    for word in &said {
        assert!(message.contains(word), "`{word}` is not in the message: {place}");
    }
    let mut lines = ended.stderr.lines();
    if row.verbatim {
        assert_eq!((lines.next(), message), (Some(said[0].as_str()), said[0].as_str()), "{place}");
    } else {
        assert!(lines.any(|line| line.strip_prefix("error: ").unwrap_or(line) == message), "{place}");
    }
    let hints: Vec<&str> = lines.filter(|line| line.starts_with("hint: ")).collect();
    for word in row.hinted {
        assert!(hints.iter().any(|hint| hint.contains(word)), "`{word}` is in no hint: {place}");
    }
}

/// `run` says it, stays up, and has a certificate once the fault is undone. Answers what it said.
fn keeps_going(row: &Row, scene: &Scene<'_>) -> String {
    let mut machine = inject(row, scene, "run");
    let mut runner = machine.start();
    let names_it = |line: &str| row.said.iter().all(|word| line.contains(word));
    let said = runner
        .wait_for_line(Stream::Stderr, row.said[0], SOON, names_it)
        .unwrap_or_else(|error| panic!("{}: {error}", row.fault));
    if let Some(undo) = machine.undo.take() {
        undo();
        certified(row, &mut runner);
    }
    assert!(runner.terminate().unwrap().success(), "{}: {}", row.fault, runner.stderr());
    for word in row.hinted {
        assert!(runner.stderr().contains(word), "`{word}` is nowhere: {}: {}", row.fault, runner.stderr());
    }
    said
}

fn certified(row: &Row, runner: &mut ChildProcess) {
    let got = runner.wait_for_line(Stream::Stdout, "certificate", SOON, |line| line.contains("\"runner_id\""));
    got.unwrap_or_else(|error| panic!("{}: {error}", row.fault));
}
