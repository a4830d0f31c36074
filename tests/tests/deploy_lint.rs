//! `deploy/`: what is shipped there parses, is hardened, and says what the runner expects.
//!
//! Manifests and chart values are held to rules and to the chart's schema here. `kubectl`, `helm` and `systemd-analyze` judge in their own
//! words: those tests are ignored unless asked for, as `cargo xtask test` does where the programs are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use edge_tests::stack::places;
use serde::Deserialize as _;
use serde_json::{Value, json};

fn deploy(path: &str) -> PathBuf {
    places::root().join("deploy").join(path)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_norway::from_str(text).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    let all = serde_norway::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap());
    all.filter(|document| !document.is_null()).collect()
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(deploy(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    files
}

/// What a program says; it must be content.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let program = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[track_caller]
fn kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut found = documents.iter().filter(|document| document["kind"] == kind);
    let one = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "more than one {kind}");
    one
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container["env"].as_array().into_iter().flatten().find(|entry| entry["name"] == name)
}

/// What holds for every pod of ours, whoever wrote it down.
#[track_caller]
fn check_deployment(deployment: &Value) {
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"], "rootpilot-runner");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    let runner = &pod["containers"][0];
    assert_eq!(
        runner["securityContext"],
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
    );
    assert_eq!(runner["readinessProbe"]["exec"]["command"], json!(["/usr/local/bin/runner", "status"]));
    assert_eq!(runner["livenessProbe"], Value::Null);
    let mounts = runner["volumeMounts"].as_array().unwrap();
    let mount = |path: &str| mounts.iter().find(|mount| mount["mountPath"] == path);
    let volume =
        |name: &Value| pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == *name).unwrap();
    assert!(mount("/var/lib/rootpilot-runner").is_some(), "the state directory is writable");
    assert_eq!(variable(runner, "RUNNER_BOOTSTRAP_TOKEN"), None, "secrets come as files");
    let url = variable(runner, "RUNNER_CONTROL_PLANE_URL").unwrap()["value"].as_str().unwrap();
    assert!(url.starts_with("https://"), "{url}");

    let path = match variable(runner, "RUNNER_ATTESTATION_MODE").unwrap()["value"].as_str().unwrap() {
        "gke-oidc" => protocol::GKE_TOKEN_PATH,
        "eks-oidc" => protocol::EKS_TOKEN_PATH,
        "bootstrap-token" => variable(runner, "RUNNER_BOOTSTRAP_TOKEN_FILE").unwrap()["value"].as_str().unwrap(),
        "aws-sts" => {
            assert!(variable(runner, "AWS_REGION").is_some());
            assert!(variable(runner, "AWS_ROLE_SESSION_NAME").is_some());
            return;
        }
        other => panic!("{other}"),
    };
    let (folder, file) = path.rsplit_once('/').unwrap();
    let mounted = mount(folder).unwrap_or_else(|| panic!("nothing is mounted at {folder}"));
    assert_eq!(mounted["readOnly"], true);
    let source = volume(&mounted["name"]);
    if source["secret"].is_object() {
        assert_eq!(source["secret"]["items"][0]["path"], file);
        return;
    }
    let token = &source["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(token["path"], file);
    assert_eq!(token["audience"], "edge.example.com");
    assert!((600..=86_400).contains(&token["expirationSeconds"].as_u64().unwrap()));
}

#[test]
fn manifests_are_hardened_and_mount_what_the_runner_reads() {
    for file in files("kubernetes", "yaml") {
        let documents = documents(&text(&file));
        let (account, deployment) = (kind(&documents, "ServiceAccount"), kind(&documents, "Deployment"));
        let namespace = &kind(&documents, "Namespace")["metadata"];
        assert_eq!(namespace["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
        for namespaced in [account, deployment] {
            assert_eq!(namespaced["metadata"]["namespace"], namespace["name"]);
        }
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], account["metadata"]["name"]);
        check_deployment(deployment);
    }
}

const CHART: &str = "helm/rootpilot-runner";

/// What Helm does with a values file: maps are merged, everything else replaced.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn values(over: Value) -> Value {
    let mut values = yaml(&text(&deploy(CHART).join("values.yaml")));
    merge(&mut values, over);
    values
}

fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&text(&deploy(CHART).join("values.schema.json"))).unwrap();
    jsonschema::draft7::meta::validate(&schema).map_err(|error| error.to_string()).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
}

#[test]
fn the_chart_takes_good_values() {
    let schema = schema();
    let cases = files(&format!("{CHART}/ci"), "yaml");
    assert_eq!(cases.len(), 4, "a case for each mode");
    for case in cases {
        let values = values(yaml(&text(&case)));
        let problems: Vec<String> = schema.iter_errors(&values).map(|error| error.to_string()).collect();
        assert_eq!(problems, Vec::<String>::new(), "{}", case.display());
    }
}

#[test]
fn the_chart_refuses_bad_values_by_name() {
    let schema = schema();
    let good = || json!({"controlPlane": {"url": "https://edge.example.com"}, "image": {"repository": "r"}});
    for (bad, place) in [
        (json!({"controlPlane": {"url": ""}}), "/controlPlane/url"),
        (json!({"controlPlane": {"url": "http://edge.example.com"}}), "/controlPlane/url"),
        (json!({"controlPlane": {"url": "https://user@edge.example.com"}}), "/controlPlane/url"),
        (json!({"controlPlane": {"audience": "a b"}}), "/controlPlane/audience"),
        (json!({"controlPlane": {"address": "x"}}), "/controlPlane"),
        (json!({"image": {"repository": ""}}), "/image/repository"),
        (json!({"image": {"digest": "sha256:abc"}}), "/image/digest"),
        (json!({"attestation": {"mode": "mtls-renewal"}}), "/attestation/mode"),
        (json!({"attestation": {"mode": "aws-sts"}}), "/attestation/awsSts/region"),
        (json!({"attestation": {"mode": "aws-sts", "awsSts": {"region": "EU-WEST-1"}}}), "/attestation/awsSts/region"),
        (json!({"attestation": {"mode": "bootstrap-token"}}), "/attestation/bootstrapToken/existingSecret"),
        (json!({"attestation": {"oidc": {"expirationSeconds": 300}}}), "/attestation/oidc/expirationSeconds"),
        (json!({"replicas": 2, "persistence": {"existingClaim": "c"}}), "/replicas"),
        (json!({"extraEnv": [{"name": "RUNNER_BOOTSTRAP_TOKEN", "value": "rpbt_x"}]}), "/extraEnv/0/name"),
        (json!({"logFormat": "xml"}), "/logFormat"),
        (json!({"mode": "gke-oidc"}), ""),
    ] {
        let mut over = good();
        merge(&mut over, bad.clone());
        let values = values(over);
        let places: Vec<String> = schema.iter_errors(&values).map(|error| error.instance_path().to_string()).collect();
        assert!(places.iter().any(|found| found == place), "{bad}: {places:?}");
    }
}

/// Whether `whole` has everything that `part` says.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| has(found, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().enumerate().all(|(at, value)| whole.get(at).is_some_and(|found| has(found, value)))
        }
        _ => whole == part,
    }
}

/// A dry run asks a cluster for its kinds; what changes a local file knows the types of Kubernetes, and drops fields that they do not have.
#[test]
#[ignore = "needs kubectl"]
fn kubectl_knows_every_field_of_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    for file in files("kubernetes", "yaml") {
        let documents = documents(&text(&file));
        let deployment = kind(&documents, "Deployment");
        let alone = folder.path().join("deployment.json");
        fs::write(&alone, deployment.to_string()).unwrap();
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["set", "env", "--local", "--dry-run=client", "--output=json", "ROUND=TRIP", "--filename"]);
        let read: Value = serde_json::from_str(&succeed(kubectl.arg(&alone))).unwrap();
        assert!(has(&read, deployment), "{}: {read:#}", file.display());
    }
    assert!(!has(&json!({"a": {"b": [1]}}), &json!({"a": {"b": [1], "c": 1}})));
}

#[test]
#[ignore = "needs helm"]
fn helm_renders_the_chart_for_every_mode() {
    let chart = deploy(CHART);
    for case in files(&format!("{CHART}/ci"), "yaml") {
        succeed(Command::new("helm").args(["lint", "--strict"]).arg(&chart).arg("-f").arg(&case));
        let mut template = Command::new("helm");
        template.args(["template", "release", "--namespace", "rootpilot"]).arg(&chart).arg("-f").arg(&case);
        let documents = documents(&succeed(&mut template));
        let deployment = kind(&documents, "Deployment");
        // One case names an audience of its own.
        let own = variable(&deployment["spec"]["template"]["spec"]["containers"][0], "RUNNER_AUDIENCE");
        assert!(own.is_some());
        check_deployment(deployment);
    }
}

/// Directives of a unit's section, in order.
fn directives(unit: &str) -> Vec<(&str, &str)> {
    unit.lines().filter(|line| !line.starts_with(['#', '['])).filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn the_unit_is_hardened() {
    let unit = text(&deploy("systemd/rootpilot-runner.service"));
    let directives = directives(&unit);
    for (name, value) in [
        ("Type", "notify"),
        ("ExecStart", "/usr/local/bin/runner run"),
        ("LoadCredential", "rootpilot-runner.bootstrap-token"),
        ("Environment", "RUNNER_BOOTSTRAP_TOKEN_FILE=%d/rootpilot-runner.bootstrap-token"),
        ("DynamicUser", "yes"),
        ("StateDirectory", "rootpilot-runner"),
        ("StateDirectoryMode", "0700"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
    ] {
        assert!(directives.contains(&(name, value)), "{name}={value}");
    }
}

#[test]
#[ignore = "needs systemd-analyze"]
fn systemd_analyze_finds_nothing_wrong_with_the_unit() {
    let unit = text(&deploy("systemd/rootpilot-runner.service"));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("rootpilot-runner.service");
    // The runner is not installed where this is tested.
    fs::write(&copy, unit.replace("/usr/local/bin/runner run", "/bin/true")).unwrap();
    let said = succeed(Command::new("systemd-analyze").arg("verify").arg(&copy));
    assert!(said.trim().is_empty(), "{said}");
    // Exposure of 1.5 of 10 at most.
    let mut security = Command::new("systemd-analyze");
    succeed(security.args(["security", "--no-pager", "--offline=true", "--threshold=15"]).arg(&copy));
}

#[test]
fn the_settings_of_the_unit_are_settings_of_the_runner() {
    let settings = text(&deploy("systemd/runner.env"));
    let names: Vec<&str> = settings
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once('='))
        .map(|(name, _)| name)
        .collect();
    assert!(names.contains(&"RUNNER_CONTROL_PLANE_URL"));
    assert!(!names.contains(&"RUNNER_BOOTSTRAP_TOKEN"), "no secrets in an environment file");
}

#[test]
fn the_image_runs_as_nobody_and_takes_no_secrets_in() {
    let file = text(&deploy("docker/Dockerfile"));
    let lines: Vec<&str> = file.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let last_stage = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(file.contains("ARG RUN_IMAGE=gcr.io/distroless/"));
    assert_eq!(lines[last_stage], "FROM ${RUN_IMAGE}");
    let stage = &lines[last_stage..];
    assert!(stage.contains(&"USER 65532:65532") && stage.contains(&"ENTRYPOINT [\"/usr/local/bin/runner\"]"));
    assert!(!stage.iter().any(|line| line.starts_with("RUN ") || line.starts_with("ADD ")), "there is no shell");
    let ignored = text(&deploy("docker/Dockerfile.dockerignore"));
    // It would make rustup fetch another toolchain than the image's.
    assert!(ignored.lines().any(|line| line == "rust-toolchain.toml") && !file.contains("RUSTUP_TOOLCHAIN"));
    // Cargo reads the manifest of every member.
    let workspace = text(&places::root().join("Cargo.toml"));
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    for member in members.split('"').skip(1).step_by(2).map(Path::new) {
        let is_ignored = |path: &Path| ignored.lines().any(|line| Path::new(line) == path);
        assert!(!member.ancestors().any(is_ignored), "{}", member.display());
    }
    for secret in [".dev", ".git", "**/*.key.pem", "**/*.token", "**/worker-secrets.json"] {
        assert!(ignored.lines().any(|line| line == secret), "{secret}");
    }
}
