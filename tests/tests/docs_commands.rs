//! `docs/`: every command block is run, or says what account it needs; and then at least its `edgectl` and `runner` commands exist.
//!
//! | block | what happens to it |
//! |---|---|
//! | `sh` | run as it stands, in one folder per page |
//! | `sh needs a verifier` | run against a stack, its address put in the place of the example's |
//! | `sh needs …` | the commands of this project in it are asked for their help, so that their names and flags are right |
//! | `toml policy`, `toml policy.toml` | validated |
//! | `nginx`, `js`, `yaml` | loaded by what reads them |
//!
//! Commands of `cargo xtask` are asked for their help. What asks a program that not everybody has is ignored unless asked for, as
//! `cargo xtask test` does where it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use edge_tests::stack::{AUDIENCE, Options, Stack, places};
use serde_json::Value;

struct Block {
    page: String,
    line: usize,
    language: String,
    /// What follows the language on the fence.
    info: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(places::root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.extend(["README.md", "SECURITY.md", "ARCHITECTURE.md"].map(|name| places::root().join(name)));
    pages.sort();
    pages
}

fn blocks_of(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.strip_prefix(places::root()).unwrap().display().to_string();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(fence)) => {
                let (language, info) = fence.split_once(' ').unwrap_or((fence, ""));
                open = Some(Block {
                    page: name.clone(),
                    line: number + 1,
                    language: language.to_owned(),
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{name}: a block is not closed");
    blocks
}

fn blocks(language: &str) -> Vec<Block> {
    pages().iter().flat_map(|page| blocks_of(page)).filter(|block| block.language == language).collect()
}

/// Whether a block holds nothing but commands of `cargo xtask`.
fn is_of_the_project(block: &Block) -> bool {
    block.text.lines().all(|line| line.starts_with("cargo xtask "))
}

/// Blocks of `docs/` that are not for [`project_commands_exist_with_their_arguments`].
fn commands() -> Vec<Block> {
    let mut blocks = blocks("sh");
    blocks.retain(|block| !is_of_the_project(block));
    assert!(
        blocks.iter().all(|block| block.page.starts_with("docs/")),
        "other pages name commands of the project alone"
    );
    assert!(blocks.len() > 10);
    blocks
}

fn bash(folder: &Path, script: &str) -> Command {
    let programs = places::profile();
    places::binary("edgectl").and(places::binary("runner")).unwrap_or_else(|missing| panic!("{missing}"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(folder).stdin(Stdio::null());
    command.env_clear().env("PATH", path).env("HOME", folder);
    command
}

#[track_caller]
fn succeed(place: &str, command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{place}: {}\n{}", output.status, String::from_utf8_lossy(&said));
    output
}

/// Writes the blocks of a page whose info is a file name, such as `policy.toml`.
fn write_files(page: &str, folder: &Path) {
    for block in blocks("toml").iter().filter(|block| block.page == page) {
        if Path::new(&block.info).extension().is_some_and(|extension| extension == "toml") {
            fs::write(folder.join(&block.info), &block.text).unwrap();
        }
    }
}

#[test]
fn every_command_block_says_how_it_is_checked() {
    for block in commands() {
        assert!(block.info.is_empty() || block.info.starts_with("needs "), "{}: `{}`", block.place(), block.info);
    }
}

#[test]
fn project_commands_exist_with_their_arguments() {
    let xtask = places::binary("xtask").unwrap_or_else(|missing| panic!("{missing}"));
    let mut seen = 0;
    for block in blocks("sh").iter().filter(|block| is_of_the_project(block)) {
        for line in block.text.lines() {
            let arguments = line.split('#').next().unwrap_or_default().split_whitespace().skip(2);
            succeed(&block.place(), Command::new(&xtask).args(arguments).arg("--help"));
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn blocks_without_needs_run_as_they_stand() {
    let mut folders: Vec<(String, tempfile::TempDir)> = Vec::new();
    for block in commands().iter().filter(|block| block.info.is_empty()) {
        if folders.last().is_none_or(|(page, _)| *page != block.page) {
            let folder = tempfile::tempdir().unwrap();
            write_files(&block.page, folder.path());
            folders.push((block.page.clone(), folder));
        }
        let (_, folder) = folders.last().unwrap();
        succeed(&block.place(), &mut bash(folder.path(), &block.text));
    }
    assert!(folders.len() >= 2);
}

/// The simple commands of a script that call one of our programs.
fn own_commands(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    let pieces = joined.lines().flat_map(|line| line.split(" && ")).flat_map(|line| line.split(" | "));
    let calls_ours = |piece: &&str| {
        let is_assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
        piece
            .split_whitespace()
            .find(|word| !is_assignment(word))
            .is_some_and(|word| matches!(word, "edgectl" | "runner"))
    };
    pieces.map(str::trim).filter(calls_ours).map(|piece| piece.split(" > ").next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_of_ours_exists_with_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for block in blocks("sh") {
        for command in own_commands(&block.text) {
            succeed(&format!("{}: {command}", block.place()), &mut bash(folder.path(), &format!("{command} --help")));
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// A policy fragment with what it stands in.
fn whole(fragment: &str) -> String {
    let head =
        "trust_domain = \"e\"\naudience = \"e\"\n[aws_sts]\nregions = [\"eu-west-1\"]\n[[tenants]]\nid = \"acme\"\n";
    [head, fragment].concat()
}

#[test]
fn policies_are_valid_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for block in blocks("toml") {
        let policy = match block.info.as_str() {
            "policy" => whole(&block.text),
            "policy.toml" => block.text.clone(),
            _ => continue,
        };
        fs::write(folder.path().join("p.toml"), policy).unwrap();
        let output = succeed(&block.place(), &mut bash(folder.path(), "edgectl policy validate p.toml --output json"));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["warnings"], serde_json::json!([]), "{}", block.place());
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
#[ignore = "needs curl"]
fn with_curl_blocks_that_need_a_verifier_run_against_one() {
    let stack = Stack::start(Options::new("docs"));
    for page in ["docs/deploy.md", "docs/attestation.md", "docs/enrollment.md", "docs/relying-parties.md"] {
        let folder = tempfile::tempdir().unwrap();
        write_files(page, folder.path());
        std::os::unix::fs::symlink(stack.folder().join("ca"), folder.path().join("ca")).unwrap();
        let runner = enrolled(&stack, folder.path());
        for block in commands().iter().filter(|block| block.page == page && block.info == "needs a verifier") {
            let script = block
                .text
                .replace("https://edge.example.com", stack.url())
                .replace("rpbt_…", &stack.admin().mint("acme").token)
                .replace("cuy3vz6l5tf3bl6ybbp4i3afnw", &runner)
                // Follows until it is interrupted.
                .replace("edgectl audit acme --follow", "edgectl audit acme")
                // Says by its status that the policies differ.
                .replace("edgectl policy diff policy.toml", "edgectl policy diff policy.toml || test $? = 1")
                // Checks this machine's clock, resolver and name servers too, which are not the page's business.
                .replace("runner doctor\n", "runner doctor || test $? -lt 100\n");
            let mut command = bash(folder.path(), &script);
            command
                .env("EDGECTL_URL", stack.url())
                .env("EDGECTL_TOKEN_FILE", "ca/admin.token")
                .env("RUNNER_CONTROL_PLANE_URL", stack.url())
                .env("RUNNER_AUDIENCE", AUDIENCE)
                .env("RUNNER_STATE_DIR", folder.path().join("other"))
                .env("RUNNER_BOOTSTRAP_TOKEN", stack.admin().mint("acme").token);
            succeed(&block.place(), &mut command);
        }
    }
}

/// A runner of tenant acme to be looked at.
fn enrolled(stack: &Stack, folder: &Path) -> String {
    let token = stack.admin().mint("acme").token;
    let script = "runner enroll --state-dir first --output json";
    let mut command = bash(folder, script);
    command.env("RUNNER_CONTROL_PLANE_URL", stack.url()).env("RUNNER_BOOTSTRAP_TOKEN", token);
    let output = succeed("enrolment", &mut command);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    said["runner_id"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs nginx"]
fn the_nginx_example_is_taken_by_nginx() {
    let nginx = blocks("nginx");
    assert_eq!(nginx.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display().to_string();
    succeed(
        "certificates",
        &mut bash(
            folder.path(),
            "edgectl ca init --out ca && cp ca/root.pem trust-bundle.pem && cp ca/root.crl.pem crl.pem && openssl req -x509 -newkey \
             ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout server.key -out server.pem",
        ),
    );
    let server = nginx[0].text.replace("/etc/nginx/tls", &here).replace("/etc/nginx/runners", &here);
    let temporary =
        "client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;";
    let config =
        format!("pid nginx.pid; error_log stderr; events {{}} http {{ access_log off; {temporary} {server} }}");
    fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let arguments = ["-t", "-p", &here, "-e", "stderr", "-c", "nginx.conf"].map(|word| format!("'{word}'")).join(" ");
    succeed(&nginx[0].place(), &mut bash(folder.path(), &format!("PATH=$PATH:/usr/sbin nginx {arguments}")));
}

/// Cases for the Worker of the page: what the edge reports, and who that is.
const WORKER_CASES: &str = r#"
import assert from "node:assert";
import worker, { ISSUERS, runnerOf } from "./worker.mjs";
const good = {
  certVerified: "SUCCESS", certRevoked: "0", certIssuerDNRFC2253: [...ISSUERS][0],
  certSubjectDNRFC2253: "CN=cuy3vz6l5tf3bl6ybbp4i3afnw,O=acme",
};
const of = (tls) => runnerOf({ cf: { tlsClientAuth: tls } });
assert.deepEqual(of(good), { runnerId: "cuy3vz6l5tf3bl6ybbp4i3afnw", tenant: "acme" });
for (const bad of [
  { certVerified: "NONE" }, { certVerified: "FAILED:self signed certificate" }, { certRevoked: "1" }, { certRevoked: true },
  { certIssuerDNRFC2253: "CN=other" }, { certSubjectDNRFC2253: "CN=x,O=acme" },
  { certSubjectDNRFC2253: "CN=cuy3vz6l5tf3bl6ybbp4i3afnw,O=acme,O=other" },
]) assert.equal(of({ ...good, ...bad }), null, JSON.stringify(bad));
assert.equal(of(undefined), null);
assert.equal(runnerOf({}), null);
const status = async (tls) => (await worker.fetch({ cf: { tlsClientAuth: tls } })).status;
assert.equal(await status(good), 200);
assert.equal(await status({ ...good, certSubjectDNRFC2253: good.certSubjectDNRFC2253.replace("acme", "other") }), 403);
assert.equal(await status(undefined), 403);
"#;

#[test]
fn the_worker_example_tells_runners_from_others() {
    let node = places::node().unwrap_or_else(|missing| panic!("{missing}"));
    let scripts = blocks("js");
    assert_eq!(scripts.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let worker = scripts[0].text.replace("const ISSUERS", "export const ISSUERS");
    fs::write(folder.path().join("worker.mjs"), worker).unwrap();
    let cases = folder.path().join("cases.mjs");
    fs::write(&cases, WORKER_CASES).unwrap();
    succeed(&scripts[0].place(), Command::new(node).arg(cases));
}

#[test]
fn yaml_blocks_are_yaml() {
    let blocks = blocks("yaml");
    assert!(blocks.len() >= 2);
    for block in blocks {
        let document: Value =
            serde_norway::from_str(&block.text).unwrap_or_else(|error| panic!("{}: {error}", block.place()));
        assert!(document.is_object(), "{}", block.place());
    }
}

/// Names of this project's variables in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    words.filter(|word| word.starts_with("RUNNER_") || word.starts_with("EDGECTL_")).map(str::to_owned).collect()
}

#[test]
fn every_variable_named_is_one_that_the_programs_know() {
    let folder = tempfile::tempdir().unwrap();
    let help = succeed("help", &mut bash(folder.path(), "runner --help && edgectl --help"));
    let mut known = variables(&String::from_utf8_lossy(&help.stdout));
    known.extend(["EDGECTL_TOKEN_FILE".to_owned(), "EDGECTL_SERVICE_TOKEN_FILE".to_owned()]);
    let deployed =
        ["systemd/runner.env", "systemd/rootpilot-runner.service", "helm/rootpilot-runner/templates/deployment.yaml"];
    let deployed = deployed.map(|file| places::root().join("deploy").join(file));
    for file in pages().into_iter().chain(deployed) {
        let unknown: Vec<String> = variables(&fs::read_to_string(&file).unwrap()).difference(&known).cloned().collect();
        assert_eq!(unknown, Vec::<String>::new(), "{}", file.display());
    }
}

/// Anchor of a heading, as forges make them.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("http") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(file.exists(), "{}: {target}", page.display());
            if !fragment.is_empty() {
                let linked = fs::read_to_string(&file).unwrap();
                let mut headings = linked
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .map(|line| anchor(line.trim_start_matches('#')));
                assert!(headings.any(|found| found == fragment), "{}: {target}", page.display());
            }
        }
    }
}
