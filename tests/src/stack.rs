//! The whole thing, running: the worker bundle in workerd, STS and OIDC issuer beside it, a policy in force.
//!
//! ```no_run
//! use edge_tests::stack::{Key, Options, Stack, evidence};
//! let stack = Stack::start(Options::new("my-topic"));
//! let (key, token) = (Key::generate(), stack.admin().mint("acme"));
//! let answer = stack.client().post("/v1/enroll", &evidence::request(&key, &evidence::token("bootstrap-token", &token.token)));
//! assert_eq!(answer.status, 200);
//! ```
//!
//! The emulators answer from threads of this process, the verifier is a child that ends with it, whichever way it ends. Each
//! stack has a folder of its own under the target folder, wiped when a stack of the same name is started: names are unique
//! among test files. What is missing (bundle, binaries) is a panic that says how to make it.

mod admin;
mod client;
pub mod evidence;
mod inspector;
mod key;
pub mod places;
mod policy;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use self::admin::Admin;
pub use self::client::{Answer, Client};
pub use self::key::{Key, b64url, leaf, leaf_der, leaf_pem, serial, sha256_b64url};
pub use self::policy::{ACME_ACCOUNT, ACME_ROLE, ACME_USER, EKS_ISSUER, GKE_ISSUER, REGION};
pub use self::programs::{Ended, Host};
use crate::emulators::{Credentials, IssuerConfig, OidcIssuer, StsConfig, StsEmulator, TokenOptions};
use crate::process::{ChildProcess, Stream};

/// Audience of the policy, and of evidence made here.
pub const AUDIENCE: &str = "edge.example.com";
/// Trust domain of the policy.
pub const TRUST_DOMAIN: &str = "edge.example.com";
/// Miniflare starts within a second on an idle machine; a machine that compiles beside it takes longer.
const READY: Duration = Duration::from_secs(90);
/// A log line is written before the answer leaves, but crosses two processes.
const LOG_LINE: Duration = Duration::from_secs(10);

/// How a stack is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of its folder; unique among what may run at once.
    pub name: String,
    /// Variables of the worker, which win over its secrets. `RATE_LIMITS` is `off` unless set to something else.
    pub vars: Value,
    /// Secrets left out.
    pub missing_secrets: Vec<String>,
    /// `request.cf` of every request.
    pub cf: Option<Value>,
    /// Whether the emulators stand in for the real hosts of AWS and of clusters' issuers. Every other call of the verifier then fails,
    /// loopback included.
    pub real_hosts: bool,
    /// Texts of wrangler.toml and what is put in their place.
    pub wrangler_edits: Vec<(String, String)>,
    /// A module served in the place of the bundle's `index.js`, which it can import: faults put in from outside.
    pub entry: Option<PathBuf>,
    /// Whether [`Stack::policy`] is applied.
    pub apply_policy: bool,
    /// Whether [`Stack::heap`] can be asked.
    pub inspector: bool,
}

impl Options {
    /// A verifier with all secrets, rate limits off and the policy of [`Stack::policy`].
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            vars: json!({"RATE_LIMITS": "off"}),
            missing_secrets: Vec::new(),
            cf: None,
            real_hosts: false,
            wrangler_edits: Vec::new(),
            entry: None,
            apply_policy: true,
            inspector: false,
        }
    }
}

/// A running stack; dropping it ends it and removes its folder.
#[derive(Debug)]
pub struct Stack {
    /// AWS STS.
    pub sts: StsEmulator,
    /// Issuer of every cluster.
    pub issuer: OidcIssuer,
    options: Options,
    folder: PathBuf,
    /// Origin to origin.
    real_hosts: Value,
    verifier: ChildProcess,
    client: Client,
    /// Address of workerd's inspector.
    inspector: Option<String>,
}

impl Stack {
    /// Starts everything; requests are served when this returns.
    pub fn start(options: Options) -> Self {
        let folder = places::profile().join("stacks").join(&options.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made under the target folder");
        programs::ca_init(&folder.join("ca"));
        let sts = StsEmulator::start(StsConfig::default()).expect("a loopback port is free");
        let issuer =
            OidcIssuer::start(IssuerConfig { default_issuer: GKE_ISSUER.to_owned(), ..IssuerConfig::default() })
                .expect("a loopback port is free");
        let real_hosts = real_hosts(&sts, &issuer);
        let Served { verifier, client, inspector } = serve(&options, &folder, &real_hosts, 0);
        let stack = Self { sts, issuer, options, folder, real_hosts, verifier, client, inspector };
        if stack.options.apply_policy {
            stack.admin().apply(&stack.policy());
        }
        stack
    }

    /// Address of the verifier.
    pub fn url(&self) -> &str {
        self.client.url()
    }

    fn port(&self) -> u16 {
        self.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("the address ends in a port")
    }

    /// The stack's own folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A client without a token.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The operator.
    pub fn admin(&self) -> Admin {
        Admin(self.client.with_bearer(&self.admin_token()))
    }

    /// A client with the service token, for `/v1/verify`.
    pub fn service(&self) -> Client {
        self.client.with_bearer(&self.service_token())
    }

    /// Bearer of the admin routes.
    pub fn admin_token(&self) -> String {
        self.token("admin.token")
    }

    /// Bearer of `/v1/verify`.
    pub fn service_token(&self) -> String {
        self.token("service.token")
    }

    fn token(&self, name: &str) -> String {
        let text = fs::read_to_string(self.folder.join("ca").join(name)).expect("edgectl ca init wrote it");
        text.trim().to_owned()
    }

    /// The roots, PEM, as `edgectl ca init` wrote them.
    pub fn root_file(&self) -> PathBuf {
        self.folder.join("ca/root.pem")
    }

    /// The policy document of most tests: tenant `acme` with a rule for every mode, `globex` and `initech` beside it, everything
    /// outside at the emulators.
    pub fn policy(&self) -> Value {
        policy::document(&self.sts, &self.issuer)
    }

    /// `aws-sts` request signed by `credentials`, good for tenant `acme` when they are its role's or user's.
    pub fn sts_request(&self, credentials: &Credentials, key: &Key) -> evidence::StsRequest {
        evidence::StsRequest::new(credentials, REGION, &self.sts.url(), AUDIENCE, key)
    }

    /// A good `gke-oidc` token of tenant `acme`, from a pod of this name.
    pub fn gke_token(&self, pod: &str) -> String {
        self.issuer.token(&TokenOptions { pod: pod.to_owned(), ..TokenOptions::default() })
    }

    /// A good `eks-oidc` token of tenant `acme`, from a pod of this name.
    pub fn eks_token(&self, pod: &str) -> String {
        let issuer = Some(EKS_ISSUER.to_owned());
        self.issuer.token(&TokenOptions { issuer, pod: pod.to_owned(), ..TokenOptions::default() })
    }

    /// Enrols by evidence.
    pub fn enroll(&self, key: &Key, attestation: &Value) -> Answer {
        self.client.post("/v1/enroll", &evidence::request(key, attestation))
    }

    /// Renews by the body proof: `key` holds `certificate`, `next` is to be certified.
    pub fn renew(&self, key: &Key, certificate: &str, next: &Key) -> Answer {
        let proof = key.renewal(certificate, AUDIENCE, self.now(), next);
        self.client.post("/v1/renew", &evidence::request(next, &proof))
    }

    /// Unix seconds; the verifier has the same clock.
    pub fn now(&self) -> i64 {
        self.sts.clock().now()
    }

    /// A machine with the real runner.
    pub fn host(&self, name: &str) -> Host {
        Host::new(self, name)
    }

    /// Runs `edgectl … --output json` with both tokens.
    pub fn edgectl(&self, arguments: &[&str]) -> Ended {
        programs::edgectl(self, arguments)
    }

    /// Starts `edgectl … --output json` with both tokens.
    pub fn start_edgectl(&self, arguments: &[&str]) -> ChildProcess {
        programs::start_edgectl(self, arguments)
    }

    /// Ends the verifier as an operator would (SIGTERM).
    pub fn stop(&mut self) {
        self.verifier.terminate().expect("the verifier can be ended");
    }

    /// Kills workerd and what started it (SIGKILL), in the middle of whatever they do.
    pub fn kill(&mut self) {
        self.verifier.kill().expect("the verifier can be killed");
    }

    /// Starts the verifier again on the same storage and at the same address; one that still runs is stopped first.
    pub fn restart(&mut self) {
        self.stop();
        let served = serve(&self.options, &self.folder, &self.real_hosts, self.port());
        Served { verifier: self.verifier, client: self.client, inspector: self.inspector } = served;
    }

    /// The same with other options; name and policy stay as they are.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.options);
        self.restart();
    }

    /// Memory that the worker's isolate holds on to outside of its wasm module, octets: what is left after a collection.
    pub fn heap(&self) -> u64 {
        let address = self.inspector.as_deref().expect("the stack was started with `inspector`");
        inspector::heap(address, "rootpilot-edge").unwrap_or_else(|error| panic!("workerd's inspector: {error:#}"))
    }

    /// The verifier's log so far: its JSON lines since it was last started.
    pub fn log(&self) -> Vec<Value> {
        self.verifier.stderr().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Everything the verifier and its server wrote since it was last started.
    pub fn log_text(&self) -> String {
        self.verifier.stderr()
    }

    /// The decision that was logged for an `x-request-id`.
    pub fn logged(&self, request_id: &str) -> Value {
        let until = Instant::now() + LOG_LINE;
        loop {
            if let Some(line) = self.log().into_iter().find(|line| line["request_id"] == request_id) {
                return line;
            }
            assert!(Instant::now() < until, "no log line for {request_id}:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.verifier.terminate();
        // What a failed test leaves behind is worth a look.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The worker's secrets as `edgectl ca init` made them, but for those left out.
fn secrets(options: &Options, folder: &Path) -> PathBuf {
    let text = fs::read(folder.join("ca/worker-secrets.json")).expect("edgectl ca init wrote it");
    let mut secrets: Value = serde_json::from_slice(&text).expect("edgectl wrote JSON");
    let members = secrets.as_object_mut().expect("secrets are an object");
    members.retain(|name, _| !options.missing_secrets.contains(name));
    let file = folder.join("secrets.json");
    fs::write(&file, secrets.to_string()).expect("a file can be written");
    file
}

/// The hosts that the verifier calls in production, stood in for by the emulators.
fn real_hosts(sts: &StsEmulator, issuer: &OidcIssuer) -> Value {
    let regions = StsConfig::default().regions;
    let of_sts = regions.iter().flat_map(|region| {
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        ["sts", "sts-fips"].map(|service| (format!("https://{service}.{region}.{suffix}"), json!(sts.url())))
    });
    let of_clusters = ["https://container.googleapis.com", "https://oidc.eks.eu-west-1.amazonaws.com"];
    of_sts
        .chain(of_clusters.map(|host| (host.to_owned(), json!(issuer.url()))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The worker's configuration, edited where the options say so.
fn wrangler(options: &Options, folder: &Path) -> PathBuf {
    let mut text = fs::read_to_string(places::wrangler_toml()).expect("wrangler.toml can be read");
    for (old, new) in &options.wrangler_edits {
        assert!(text.contains(old), "wrangler.toml does not say `{old}`");
        text = text.replace(old, new);
    }
    let file = folder.join("wrangler.toml");
    fs::write(&file, text).expect("a file can be written");
    file
}

/// A verifier that serves.
struct Served {
    verifier: ChildProcess,
    client: Client,
    inspector: Option<String>,
}

fn serve(options: &Options, folder: &Path, real_hosts: &Value, port: u16) -> Served {
    let found = |place: Result<PathBuf, places::Missing>| place.unwrap_or_else(|missing| panic!("{missing}"));
    let configuration = json!({
        "bundle": found(places::bundle()),
        "entry": options.entry,
        "wrangler": wrangler(options, folder),
        "state": folder.join("state"),
        "port": port,
        "secrets": secrets(options, folder),
        "vars": options.vars,
        "cf": options.cf,
        "inspector": options.inspector,
        "outbound": options.real_hosts.then_some(real_hosts),
    });
    let mut command = Command::new(found(places::node()));
    command.arg(found(places::serve_script())).current_dir(folder);
    let line = format!("{configuration}\n");
    let mut verifier = ChildProcess::spawn_with_input(&mut command, line.as_bytes()).expect("Node.js starts");
    let ready = verifier
        .wait_for_line(Stream::Stdout, "ready line", READY, |line| line.starts_with('{'))
        .unwrap_or_else(|error| panic!("{error}"));
    let ready: Value = serde_json::from_str(&ready).expect("the ready line is JSON");
    let url = ready["url"].as_str().expect("the ready line names the address");
    let inspector = ready["inspector"].as_str().map(str::to_owned);
    Served { verifier, client: Client::new(url), inspector }
}
