//! The rows: how each fault is brought about, and what has to be said.

use std::path::{Path, PathBuf};

use edge_tests::emulators::Credentials;
use edge_tests::stack::{ACME_ACCOUNT, Host, Key, REGION, evidence};
use serde_json::json;

use super::places::{DARK, Machine, Scene, THROTTLED};

/// A row of the page.
pub struct Row {
    /// Its first column.
    pub fault: &'static str,
    /// Its second.
    pub class: &'static str,
    /// What the message must say; `<token>` stands for the path of the token file. Nothing where the fault does no harm.
    pub said: &'static [&'static str],
    /// What the hints after it must say.
    pub hinted: &'static [&'static str],
    /// The message is the first text of `said` to the letter, on a line of its own (PROTOCOL, Runner).
    pub verbatim: bool,
    /// A machine of this name with the fault.
    pub inject: for<'s> fn(&'s Scene<'s>, &str) -> Machine<'s>,
}

/// Most rows.
const ROW: Row = Row { fault: "", class: "", said: &[], hinted: &[], verbatim: false, inject: |_, _| unreachable!() };

pub static ROWS: [Row; 30] = [
    Row {
        fault: "mode unset, no token",
        class: "78",
        said: &["RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN"],
        verbatim: true,
        inject: |scene, name| scene.bare(name).into(),
        ..ROW
    },
    Row {
        fault: "mode mtls-renewal configured",
        class: "78",
        said: &["RUNNER_ATTESTATION_MODE=mtls-renewal is not one of bootstrap-token, aws-sts, gke-oidc, eks-oidc"],
        hinted: &["not a configurable mode"],
        verbatim: true,
        inject: |scene, name| scene.bare(name).with("RUNNER_ATTESTATION_MODE", "mtls-renewal").into(),
    },
    Row {
        fault: "AWS_REGION unset, AWS_DEFAULT_REGION set",
        class: "78",
        said: &["RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION"],
        hinted: &["AWS_DEFAULT_REGION=eu-west-1", "never guessed"],
        verbatim: true,
        inject: |scene, name| scene.aws(name).with("AWS_REGION", "").with("AWS_DEFAULT_REGION", "eu-west-1").into(),
    },
    Row {
        fault: "AWS_REGION=eu-north-1 not in the allowlist",
        class: "77",
        said: &["eu-north-1", "not allowed by the control plane", "not a credential problem"],
        inject: |scene, name| scene.aws(name).with("AWS_REGION", "eu-north-1").into(),
        ..ROW
    },
    Row {
        fault: "no AWS credentials anywhere",
        class: "78",
        said: &["environment:", "profile `default`", "web identity", "container endpoint", "instance metadata"],
        inject: |scene, name| without_credentials(scene, name).into(),
        ..ROW
    },
    Row {
        fault: "temporary credentials expired (STS ExpiredToken)",
        class: "waits/77",
        said: &["credentials have expired", "renew them"],
        inject: expired_credentials,
        ..ROW
    },
    Row {
        fault: "access key deleted (InvalidClientTokenId)",
        class: "77",
        said: &["does not know the access key", "deleted", "opt-in region"],
        inject: |scene, name| {
            let user = scene.stack.sts.add_user(ACME_ACCOUNT, "former");
            assert!(scene.stack.sts.delete(&user.access_key_id));
            scene.with_aws(name, &user).into()
        },
        ..ROW
    },
    Row {
        fault: "clock 20 min slow",
        class: "77",
        said: &["the clock of this machine is 20 min slow"],
        inject: |scene, name| scene.aws(name).with("LD_PRELOAD", &text(&scene.slow_clock)).into(),
        ..ROW
    },
    Row {
        fault: "IMDS PUT answer lost (hop limit)",
        class: "78",
        said: &["hop limit"],
        inject: |scene, name| {
            let host = without_credentials(scene, name).with("AWS_EC2_METADATA_DISABLED", "");
            host.with("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("http://{}", scene.silent)).into()
        },
        ..ROW
    },
    Row {
        fault: "IRSA AssumeRole denied",
        class: "77/78",
        said: &["the trust policy of the role", "arn:aws:iam::111122223333:role/irsa"],
        inject: |scene, name| {
            let host = without_credentials(scene, name);
            let token = scene.token(name, |options| options.audience = vec!["sts.amazonaws.com".to_owned()]);
            let file = text(&write(&host, &token));
            host.with("AWS_WEB_IDENTITY_TOKEN_FILE", &file)
                .with("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/irsa")
                .into()
        },
        ..ROW
    },
    Row {
        fault: "identity proven, no rule",
        class: "77",
        said: &["proven", "arn:aws:iam::111122223333:role/stranger", "ask the operator to map it"],
        inject: |scene, name| {
            let role = scene.stack.sts.add_role_session(ACME_ACCOUNT, "stranger", name);
            scene.with_aws(name, &role).into()
        },
        ..ROW
    },
    Row {
        fault: "STS throttles",
        class: "0",
        said: &["AWS is throttling"],
        hinted: &["try again after"],
        inject: |scene, name| {
            let host = scene.aws_at(name, THROTTLED, &scene.throttled);
            Machine::undone_by(host, || scene.throttled.clear_faults())
        },
        ..ROW
    },
    Row {
        fault: "STS endpoint unreachable from the verifier",
        class: "0",
        said: &["the control plane cannot reach AWS STS", "credentials are not at fault"],
        inject: |scene, name| Machine::undone_by(scene.aws_at(name, DARK, &scene.dark), || scene.dark.clear_faults()),
        ..ROW
    },
    Row {
        fault: "AWS_ENDPOINT_URL_STS points elsewhere than the policy",
        class: "77",
        said: &["sts.other.example", "127.0.0.1:", "not allowed"],
        hinted: &["AWS_ENDPOINT_URL_STS"],
        inject: |scene, name| scene.aws(name).with("AWS_ENDPOINT_URL_STS", "https://sts.other.example").into(),
        ..ROW
    },
    Row {
        fault: "RUNNER_AUDIENCE wrong for aws-sts",
        class: "77",
        said: &["other.example", "edge.example.com"],
        hinted: &["RUNNER_AUDIENCE"],
        inject: |scene, name| scene.aws(name).with("RUNNER_AUDIENCE", "other.example").into(),
        ..ROW
    },
    Row {
        fault: "GKE token file missing",
        class: "78",
        said: &[
            "RUNNER_ATTESTATION_MODE=gke-oidc: failed to read projected KSA token at <token> (is the Workload Identity token volume mounted?)",
        ],
        verbatim: true,
        inject: |scene, name| {
            let host = scene.gke(name, "");
            std::fs::remove_file(token_file(&host)).unwrap();
            host.into()
        },
        ..ROW
    },
    Row {
        fault: "GKE token file empty",
        class: "78",
        said: &["RUNNER_ATTESTATION_MODE=gke-oidc: projected token at <token> is empty"],
        verbatim: true,
        inject: |scene, name| scene.gke(name, "").into(),
        ..ROW
    },
    Row {
        fault: "token with trailing newline",
        class: "0",
        inject: |scene, name| scene.gke(name, &format!("{}\n", scene.token(name, |_| ()))).into(),
        ..ROW
    },
    Row {
        fault: "token file unreadable (mode 000, as non-root)",
        class: "78",
        said: &["failed to read projected KSA token at"],
        hinted: &["permission denied for uid"],
        inject: unreadable_token,
        ..ROW
    },
    Row {
        fault: "token expired on disk",
        class: "waits",
        said: &["expired at", "the kubelet has not rotated it"],
        inject: |scene, name| {
            let day_ago = Some(scene.stack.now() - 86_400);
            let host = scene.gke(name, &scene.token(name, |options| options.issued_at = day_ago));
            rotated_later(scene, name, host)
        },
        ..ROW
    },
    Row {
        fault: "token not bound to a pod (kubectl create token)",
        class: "77",
        said: &["not bound to a pod", "a projected token is needed"],
        inject: |scene, name| {
            let unbound = json!({"kubernetes.io": {"pod": null, "node": null}});
            scene.gke(name, &scene.token(name, |options| options.claims = unbound)).into()
        },
        ..ROW
    },
    Row {
        fault: "JWKS host down, cold cache",
        class: "0",
        said: &["keys unavailable", "the token is not at fault"],
        inject: |scene, name| {
            let token = scene.token(name, |options| options.issuer = Some(scene.dark_cluster.clone()));
            Machine::undone_by(scene.gke(name, &token), || scene.stack.issuer.clear_faults())
        },
        ..ROW
    },
    Row {
        fault: "token used by another key",
        class: "waits",
        said: &["already used by another key", "a new token is needed"],
        inject: |scene, name| {
            let token = scene.token(name, |_| ());
            scene.stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &token)).assert_status(200);
            rotated_later(scene, name, scene.gke(name, &token))
        },
        ..ROW
    },
    Row {
        fault: "bootstrap token with a character lost",
        class: "77",
        said: &[BOOTSTRAP_TOKEN_REFUSED],
        hinted: &["51 characters instead of 52"],
        inject: |scene, name| {
            let token = scene.stack.admin().mint("acme").token;
            scene.bare(name).with_token(&token[..token.len() - 1]).into()
        },
        ..ROW
    },
    Row {
        fault: "bootstrap token used up",
        class: "77",
        said: &[BOOTSTRAP_TOKEN_REFUSED],
        inject: |scene, name| {
            let token = scene.stack.admin().mint("acme").token;
            let used = scene.stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token));
            used.assert_status(200);
            scene.bare(name).with_token(&token).into()
        },
        ..ROW
    },
    Row {
        fault: "control-plane URL http to a public host",
        class: "78",
        said: &["RUNNER_CONTROL_PLANE_URL=http://edge.example.com", "https is required"],
        inject: |scene, name| at(scene, name, "http://edge.example.com").into(),
        ..ROW
    },
    Row {
        fault: "DNS of the control plane fails",
        class: "69",
        said: &["no-such-host.invalid", "was not found", "not about credentials"],
        inject: |scene, name| at(scene, name, "https://no-such-host.invalid").into(),
        ..ROW
    },
    Row {
        fault: "TLS certificate not trusted",
        class: "69",
        said: &["TLS certificate", "not trusted", "Corporate Inspection CA"],
        inject: |scene, name| at(scene, name, &format!("https://localhost:{}", scene.untrusted.port())).into(),
        ..ROW
    },
    Row {
        fault: "verifier not configured (503)",
        class: "69",
        said: &["not configured yet", "operator"],
        inject: |scene, name| at(scene, name, scene.unready.url()).into(),
        ..ROW
    },
    Row { fault: "runner banned", class: "77", said: &["banned", "ask the operator"], inject: banned, ..ROW },
];

/// One text for every cause.
const BOOTSTRAP_TOKEN_REFUSED: &str =
    "the control plane refuses the bootstrap token: check it, or have the operator mint a new one";

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Where the token of a machine lies.
pub fn token_file(host: &Host) -> PathBuf {
    host.state.with_extension("token")
}

fn write(host: &Host, token: &str) -> PathBuf {
    let file = token_file(host);
    std::fs::write(&file, token).unwrap();
    file
}

/// The kubelet comes round at last.
fn rotated_later<'s>(scene: &'s Scene<'s>, name: &str, host: Host) -> Machine<'s> {
    let (name, file) = (name.to_owned(), token_file(&host));
    Machine::undone_by(host, move || std::fs::write(file, scene.token(&name, |_| ())).unwrap())
}

fn without_credentials(scene: &Scene<'_>, name: &str) -> Host {
    let nothing = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    nothing.into_iter().fold(scene.aws(name), |host, variable| host.with(variable, ""))
}

/// A machine that calls elsewhere.
fn at(scene: &Scene<'_>, name: &str, url: &str) -> Host {
    let token = scene.stack.admin().mint("acme").token;
    scene.bare(name).with_token(&token).with("RUNNER_CONTROL_PLANE_URL", url)
}

/// Credentials that somebody renews from time to time, such as with `aws sso login`.
fn expired_credentials<'s>(scene: &'s Scene<'s>, name: &str) -> Machine<'s> {
    let session = || scene.stack.sts.add_role_session(ACME_ACCOUNT, edge_tests::stack::ACME_ROLE, "laptop");
    let old = session();
    assert!(scene.stack.sts.expire(&old.access_key_id));
    let host = without_credentials(scene, name);
    let file = host.state.with_extension("credentials");
    std::fs::write(&file, profile(&old)).unwrap();
    let host = host.with("AWS_SHARED_CREDENTIALS_FILE", &text(&file)).with("AWS_REGION", REGION);
    Machine::undone_by(host, move || std::fs::write(file, profile(&session())).unwrap())
}

fn profile(credentials: &Credentials) -> String {
    let Credentials { access_key_id, secret_access_key, session_token, .. } = credentials;
    let token = session_token.as_deref().unwrap_or_default();
    format!(
        "[default]\naws_access_key_id = {access_key_id}\naws_secret_access_key = {secret_access_key}\naws_session_token = {token}\n"
    )
}

fn unreadable_token<'s>(scene: &'s Scene<'s>, name: &str) -> Machine<'s> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = scene.elsewhere.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    let token = folder.join("token");
    std::fs::write(&token, scene.token(name, |_| ())).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o000)).unwrap();
    let host = scene.gke(name, "").with("RUNNER_GKE_TOKEN_PATH", &text(&token));
    Machine::as_nobody(&host, &folder)
}

/// The instance is banned, so that a reinstalled machine is, too.
fn banned<'s>(scene: &'s Scene<'s>, name: &str) -> Machine<'s> {
    let role = scene.stack.sts.add_role_session(ACME_ACCOUNT, edge_tests::stack::ACME_ROLE, name);
    let key = Key::generate();
    let enrolled = scene.stack.enroll(&key, &scene.stack.sts_request(&role, &key).evidence()).expect(200).json();
    scene.stack.admin().ban("acme", enrolled["runner_id"].as_str().unwrap(), &json!({"reason": "stolen"}));
    scene.with_aws(name, &role).into()
}
