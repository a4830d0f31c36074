//! Every check of CHECKS.md is there, is cited in the code, and has tests that exist, natively and in workerd.

mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use table::{Row, TABLE};
use verifier::checks::Check;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The numbers of CHECKS.md, as they were counted when this list was written.
#[test]
fn the_list_of_checks_is_whole() {
    let numbers = include_str!("numbers.txt").lines().flat_map(|line| {
        let (series, count) = line.split_once(' ').unwrap();
        (1..=count.parse::<u32>().unwrap()).map(move |number| format!("{series}{number}"))
    });
    let known: Vec<&str> = Check::ALL.iter().map(|check| check.id()).collect();
    assert_eq!(known, numbers.collect::<Vec<_>>());
}

#[test]
fn every_check_has_its_row() {
    let rows: Vec<Check> = TABLE.iter().map(|row| row.check).collect();
    assert_eq!(rows, Check::ALL);
}

/// Suites that run the worker inside workerd.
fn in_workerd(test: &str) -> bool {
    ["tests/tests/e2e/", "tests/tests/state/"].iter().any(|folder| test.starts_with(folder))
}

#[test]
fn every_check_is_tested_natively_and_in_workerd() {
    for Row { check, native, workerd } in TABLE {
        assert!(!native.is_empty() && !native.iter().any(|test| in_workerd(test)), "{check:?}");
        assert!(!workerd.is_empty() && workerd.iter().all(|test| in_workerd(test)), "{check:?}");
    }
}

#[test]
fn every_test_of_the_table_exists() {
    for row in TABLE {
        for test in row.native.iter().chain(row.workerd) {
            let (file, name) = test.rsplit_once("::").unwrap();
            assert!(tests_of(&read(file)).contains(name), "{:?}: {test} is no test that runs", row.check);
        }
    }
}

/// Names of the test functions of a file that are not ignored, and of the cases that a `list_cases!` has.
fn tests_of(source: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let (mut is_test, mut in_cases) = (false, false);
    for line in source.lines().map(str::trim) {
        match line {
            "#[test]" => is_test = true,
            "super::list_cases![" => in_cases = true,
            "];" => in_cases = false,
            _ if in_cases => {
                names.insert(line.trim_end_matches(','));
            }
            _ if line.starts_with("#[ignore") => is_test = false,
            _ if is_test && !line.starts_with('#') && !line.starts_with("//") => {
                let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                names.extend(name.map(|(name, _)| name));
                is_test = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn tests_are_found_as_they_are_written() {
    let source = "#[test]\nfn one() {\n}\n#[test]\n#[ignore = \"x\"]\nfn two() {}\nfn three() {}\n    /// Doc.\n    #[test]\n    #[cfg(unix)]\n\
        async fn four(a in any()) {}\nsuper::list_cases![\n    five,\n];\nfn six() {}\n";
    assert_eq!(tests_of(source), BTreeSet::from(["one", "four", "five"]));
}

#[test]
fn every_check_is_cited_in_the_code() {
    let sources: Vec<String> = ["protocol/src", "verifier/src", "verifier-wasm/src"]
        .iter()
        .flat_map(|dir| files(&root().join(dir)))
        .filter(|path| !path.ends_with("checks.rs") && !path.ends_with("tests.rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for check in Check::ALL {
        let cited = sources
            .iter()
            .any(|source| source.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == check.id()));
        assert!(cited, "{} is cited nowhere", check.id());
    }
}

/// Each adversary with what is defended, by checks that exist, and what is not.
#[test]
fn the_threat_model_cites_checks_for_every_adversary() {
    let text = read("docs/threat-model.md");
    let (_, rest) = text.split_once("\n## Adversaries\n").unwrap();
    let (adversaries, _) = rest.split_once("\n## ").unwrap();
    let sections: Vec<&str> = adversaries.split("\n### ").skip(1).collect();
    for who in [
        "stolen bootstrap token",
        "hostile customer of the same cloud",
        "cluster admin of the same project",
        "JWKS host",
        "on the network",
        "flooding client",
        "copied a runner's disk",
        "curious operator",
    ] {
        assert!(sections.iter().any(|section| section.lines().next().unwrap().contains(who)), "nobody is \"{who}\"");
    }
    for section in sections {
        let words = section.split(|c: char| !c.is_ascii_alphanumeric());
        let cited: Vec<&str> = words
            .filter(|word| word.starts_with(['S', 'K', 'B', 'I', 'A', 'M']) && word[1..].parse::<u32>().is_ok())
            .collect();
        let unknown: Vec<&&str> =
            cited.iter().filter(|id| !Check::ALL.iter().any(|check| check.id() == **id)).collect();
        assert!(!cited.is_empty() && unknown.is_empty(), "{unknown:?} in {section}");
        assert!(section.contains("**Not defended:**"), "nothing is said to be left open: {section}");
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
