//! `cargo xtask test`: every check and suite, one after the other, none skipped because an earlier one failed.
//!
//! End-to-end tests find workerd by the variables that [`provide_workerd`] sets. A check without a test count of its
//! own (format, lints, dry run) counts as one test; so does a suite that ended badly without naming a failed test.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::bundle::{self, Profile};
use crate::paths;
use crate::process::{self, Elapsed};
use crate::progress::{Step, note};
use crate::size;
use crate::tools::{self, Need, Tools};

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    /// A step that passed or failed as a whole.
    fn of_one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed) }
    }

    /// Adds a result line of libtest or of wasm-bindgen's runner: `test result: ok. 3 passed; 0 failed; …`.
    fn add_line(&mut self, line: &str) {
        let Some((_, result)) = line.split_once("test result: ") else { return };
        let number = |word: &str| {
            let before = result.split_once(word)?.0.trim_end();
            before.rsplit([' ', ';']).next()?.parse::<u64>().ok()
        };
        if let (Some(passed), Some(failed)) = (number("passed"), number("failed")) {
            self.passed += passed;
            self.failed += failed;
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs everything, load and crash tests at their full figures if asked. True when something ran and nothing failed.
pub fn run(full: bool) -> Result<bool> {
    let started = Instant::now();
    tools::openssl()?;
    let tools = tools::prepare(Need::Test)?;
    let mut total = Count::default();
    total.add(check("Format", process::cargo().args(["fmt", "--all", "--check"]))?);
    total.add(check("Lints", process::cargo().args(LINTS))?);
    match bundle::build(&tools, Profile::Release) {
        Ok(dir) => {
            if tools::std_source() {
                total.add(Count::of_one(size::keeps_to_budget(&tools, &dir)?));
            } else {
                note("NOT RUN: the size of the bundle, which has not the standard library that it is deployed with");
            }
            total.add(Count::of_one(bundle::names_no_machine(&dir)?));
            let mut binaries = process::cargo();
            total.add(check("Binaries", binaries.args(["build", "--workspace", "--bins"]))?);
            let mut native = process::cargo();
            tools.provide(&mut native);
            provide_workerd(&mut native, &tools, &dir);
            if full {
                native.env("ROOTPILOT_FULL_LOAD", "1");
            }
            native.args(["test", "--workspace", "--no-fail-fast"]);
            total.add(suite("Native and end to end in workerd", &mut native)?);
            total.add(second_opinions(&tools, &dir)?);
            total.add(wasm(&tools)?);
            total.add(check("wrangler deploy --dry-run", &mut dry_run(&tools)?)?);
        }
        Err(error) => {
            eprintln!("error: the worker could not be built: {error:#}");
            total.failed += 1;
        }
    }
    eprintln!("    all steps ({})", Elapsed(started.elapsed()));
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.passed > 0 && total.failed == 0)
}

const LINTS: [&str; 7] = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];

/// What the end-to-end tests in `tests/` need to start the worker by themselves.
fn provide_workerd(command: &mut Command, tools: &Tools, bundle: &Path) {
    command
        .env("ROOTPILOT_NODE", &tools.node)
        .env("ROOTPILOT_SERVE", paths::serve_script())
        .env("ROOTPILOT_BUNDLE", bundle);
}

/// Programs that some tests ask for a second opinion, and about what. Those tests are ignored in a plain `cargo test`, because not every
/// machine has the programs, and have the program in their name.
const SECOND_OPINIONS: [(&str, &str); 5] = [
    ("nginx", "client certificates, CRLs and the example of the docs"),
    ("curl", "commands of the docs"),
    ("helm", "the chart"),
    ("kubectl", "the manifests"),
    ("systemd-analyze", "the unit"),
];

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where servers are, also for those who have it not on their path.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.into_iter().any(|dir| dir.join(program).is_file())
}

/// What the names of the tests that ask `program` contain.
fn name_in_tests(program: &str) -> String {
    program.replace('-', "_")
}

/// Asks each program that is there, and says which are not.
fn second_opinions(tools: &Tools, bundle: &Path) -> Result<Count> {
    let (there, missing): (Vec<_>, Vec<_>) = SECOND_OPINIONS.iter().partition(|(program, _)| is_installed(program));
    for (program, about) in missing {
        note(format_args!("NOT RUN: what needs {program}, which is not installed: {about}"));
    }
    let mut total = Count::default();
    for (program, about) in there {
        let mut command = process::cargo();
        tools.provide(&mut command);
        provide_workerd(&mut command, tools, bundle);
        // All tests are named, so that what the step before has compiled serves here too.
        command.args(["test", "--workspace", "--tests", "--", "--ignored", &name_in_tests(program)]);
        total.add(suite(&format!("{program} on {about}"), &mut command)?);
    }
    Ok(total)
}

fn wasm(tools: &Tools) -> Result<Count> {
    let program = tools.wasm_pack.as_ref().context("wasm-pack was not asked for")?;
    let mut command = tools.command(program);
    command.args(["test", "--node", "verifier-wasm"]);
    suite("wasm-pack test --node verifier-wasm", &mut command)
}

fn dry_run(tools: &Tools) -> Result<Command> {
    let out = paths::scratch().join("dry-run");
    std::fs::create_dir_all(&out)?;
    let mut command = tools.command(&tools.node);
    command.arg(Tools::npm_bin("wrangler")).args(["deploy", "--dry-run", "--outdir"]).arg(out);
    Ok(command)
}

/// A step that passes or fails as a whole.
fn check(title: &str, command: &mut Command) -> Result<Count> {
    let step = Step::begin(title);
    let status = process::status(command.stdout(std::io::stderr()))?;
    step.end(if status.success() { "passed" } else { "FAILED" });
    Ok(Count::of_one(status.success()))
}

/// A step that counts its own tests.
fn suite(title: &str, command: &mut Command) -> Result<Count> {
    let step = Step::begin(title);
    let mut count = Count::default();
    let status = process::tee(command, |line| count.add_line(line))?;
    let count = settle(count, status);
    step.end(&format!("{} passed, {} failed", count.passed, count.failed));
    Ok(count)
}

/// A suite that fails to build, crashes or runs nothing is a failure even when no test says so.
fn settle(mut count: Count, status: ExitStatus) -> Count {
    if count.failed == 0 && (!status.success() || count.passed == 0) {
        count.failed = 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn counted(text: &str) -> Count {
        let mut count = Count::default();
        text.lines().for_each(|line| count.add_line(line));
        count
    }

    #[test]
    fn result_lines_are_summed() {
        let text = "test a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(counted(text), Count { passed: 15, failed: 2 });
    }

    #[test]
    fn other_lines_do_not_count() {
        assert_eq!(counted("test result: unknown\n5 passed; 0 failed\n"), Count::default());
    }

    /// Every `.rs` file below a folder.
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_ignored_test_is_asked_for_by_its_name() {
        let mut texts = Vec::new();
        for member in ["edgectl", "runner", "tests", "verifier"] {
            sources(&paths::root().join(member).join("tests"), &mut texts);
        }
        let mut asked = Vec::new();
        for ignored in texts.iter().flat_map(|text| text.split("\n#[ignore").skip(1)) {
            let (program, rest) = ignored.strip_prefix(" = \"needs ").and_then(|rest| rest.split_once('"')).unwrap();
            let name = rest.split_once("fn ").unwrap().1.split('(').next().unwrap();
            assert!(name.contains(&name_in_tests(program)), "{name} needs {program}");
            asked.push(program);
        }
        for (program, _) in SECOND_OPINIONS {
            assert!(asked.contains(&program), "nothing needs {program}");
        }
        assert!(asked.iter().all(|program| SECOND_OPINIONS.iter().any(|(known, _)| known == program)), "{asked:?}");
    }

    #[test]
    fn a_suite_that_crashed_or_was_empty_failed() {
        let ok = ExitStatus::from_raw(0);
        let crashed = ExitStatus::from_raw(101 << 8);
        let three = Count { passed: 3, failed: 0 };
        assert_eq!(settle(three, ok), three);
        assert_eq!(settle(three, crashed).failed, 1);
        assert_eq!(settle(Count::default(), ok).failed, 1);
        assert_eq!(settle(Count { passed: 3, failed: 2 }, crashed).failed, 2);
    }
}
