//! Where the faults happen: a machine with the real runner, and what stands around it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use edge_tests::emulators::oidc::{KeyAlgorithm, gke_issuer};
use edge_tests::emulators::sts::{Role, WebIdentityTrust};
use edge_tests::emulators::{Credentials, Fault, FaultPlan, StsConfig, StsEmulator, TokenOptions};
use edge_tests::process::ChildProcess;
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, GKE_ISSUER, Host, REGION, Stack, places};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use serde_json::json;

/// Who may nothing.
const NOBODY: u32 = 65_534;
/// Region whose STS throttles.
pub const THROTTLED: &str = "us-east-2";
/// Region whose STS closes every connection.
pub const DARK: &str = "us-west-2";

/// Everything outside the machines.
pub struct Scene<'s> {
    pub stack: &'s Stack,
    /// A verifier whose operator has not finished.
    pub unready: &'s Stack,
    pub throttled: StsEmulator,
    pub dark: StsEmulator,
    /// Takes connections and never answers.
    pub silent: SocketAddr,
    /// Speaks TLS with a certificate that nobody knows.
    pub untrusted: SocketAddr,
    /// Makes a process's clock 20 min slow.
    pub slow_clock: PathBuf,
    /// Its host of keys is down.
    pub dark_cluster: String,
    /// Where everybody may go.
    pub elsewhere: tempfile::TempDir,
}

impl<'s> Scene<'s> {
    pub fn new(stack: &'s Stack, unready: &'s Stack) -> Self {
        let sts = |fault: Fault| {
            let sts = StsEmulator::start(StsConfig::default()).unwrap();
            sts.set_fault(fault);
            sts
        };
        let scene = Self {
            stack,
            unready,
            throttled: sts(Fault::Throttle),
            dark: sts(Fault::Close),
            silent: silent(),
            untrusted: untrusted(stack.folder()),
            slow_clock: slow_clock(stack.folder()),
            dark_cluster: gke_issuer("acme-prod", "europe-west1", "dark"),
            elsewhere: tempfile::tempdir().unwrap(),
        };
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scene.elsewhere.path(), open).unwrap();
        stack.issuer.add_issuer(&scene.dark_cluster, KeyAlgorithm::ES256);
        stack.issuer.set_fault(FaultPlan::from(Fault::status(500)).on_path("/clusters/dark/"));
        // The account knows the cluster, and the role trusts another service account of it.
        let trust = WebIdentityTrust {
            issuer: GKE_ISSUER.to_owned(),
            jwks_uri: stack.issuer.jwks_uri(GKE_ISSUER),
            audience: "sts.amazonaws.com".to_owned(),
            subjects: vec!["system:serviceaccount:elsewhere:runner".to_owned()],
        };
        stack.sts.put_role(Role { web_identity: vec![trust], ..Role::new(ACME_ACCOUNT, "irsa") });
        scene.apply_policy();
        scene
    }

    fn apply_policy(&self) {
        let mut policy = self.stack.policy();
        for (region, sts) in [(THROTTLED, &self.throttled), (DARK, &self.dark)] {
            policy["aws_sts"]["regions"].as_array_mut().unwrap().push(json!(region));
            policy["aws_sts"]["endpoints"][region] = json!(sts.url());
        }
        let uri = self.stack.issuer.jwks_uri(&self.dark_cluster);
        let issuer = json!({"mode": "gke-oidc", "issuer": self.dark_cluster, "jwks_uri": uri});
        policy["oidc_issuers"].as_array_mut().unwrap().push(issuer);
        policy["tenants"][0]["rules"].as_array_mut().unwrap().push(json!({
            "mode": "gke-oidc", "project": "acme-prod", "location": "europe-west1", "cluster": "dark",
            "namespace": "rootpilot", "service_account": "runner",
        }));
        self.stack.admin().apply(&policy);
    }

    /// A machine without anything but the verifier's address.
    pub fn bare(&self, name: &str) -> Host {
        self.stack.host(name)
    }

    /// A machine with credentials of acme's role.
    pub fn aws(&self, name: &str) -> Host {
        let role = self.stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, name);
        self.with_aws(name, &role)
    }

    pub fn with_aws(&self, name: &str, credentials: &Credentials) -> Host {
        self.bare(name).with_aws(credentials, REGION, &self.stack.sts.url())
    }

    /// The same at another STS.
    pub fn aws_at(&self, name: &str, region: &str, sts: &StsEmulator) -> Host {
        let role = sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, name);
        self.bare(name).with_aws(&role, region, &sts.url())
    }

    /// A good projected token of a pod, changed.
    pub fn token(&self, pod: &str, change: impl FnOnce(&mut TokenOptions)) -> String {
        let mut options = TokenOptions { pod: pod.to_owned(), ..TokenOptions::default() };
        change(&mut options);
        self.stack.issuer.token(&options)
    }

    /// A machine whose kubelet wrote this.
    pub fn gke(&self, name: &str, token: &str) -> Host {
        self.bare(name).with_projected("gke-oidc", token)
    }
}

/// A machine with a fault, and how to undo it.
pub struct Machine<'s> {
    pub host: Host,
    pub undo: Option<Box<dyn FnOnce() + 's>>,
    as_nobody: Option<PathBuf>,
}

impl From<Host> for Machine<'_> {
    fn from(host: Host) -> Self {
        Self { host, undo: None, as_nobody: None }
    }
}

impl<'s> Machine<'s> {
    pub fn undone_by(host: Host, undo: impl FnOnce() + 's) -> Self {
        Self { undo: Some(Box::new(undo)), ..Self::from(host) }
    }

    /// The runner has no rights: everybody but root as they are, root as nobody, from a folder that nobody reaches.
    pub fn as_nobody(host: &Host, folder: &Path) -> Self {
        let host = host.clone().with("RUNNER_STATE_DIR", &folder.join("state").display().to_string());
        let is_root = rustix::process::geteuid().is_root();
        let binary = is_root.then(|| {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
            let copy = folder.join("runner");
            std::fs::copy(places::binary("runner").unwrap(), &copy).unwrap();
            copy
        });
        Self { as_nobody: binary, ..Self::from(host) }
    }

    /// `runner <command> --output json`.
    pub fn runner(&self, command: &str) -> Command {
        let original = self.host.runner(&[command, "--output", "json"]);
        let Some(binary) = &self.as_nobody else { return original };
        let mut copied = Command::new(binary);
        copied.args(original.get_args()).env_clear().uid(NOBODY).gid(NOBODY).current_dir("/");
        copied.envs(original.get_envs().filter_map(|(name, value)| Some((name, value?))));
        copied
    }

    pub fn start(&self) -> ChildProcess {
        ChildProcess::spawn(&mut self.runner("run")).unwrap()
    }
}

/// Instance metadata behind one hop too many: the request arrives, the answer does not.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for connection in listener.incoming() {
            held.push(connection);
        }
    });
    address
}

/// A proxy that inspects TLS with an authority of its own.
fn untrusted(folder: &Path) -> SocketAddr {
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"])
        .args(["-subj", "/CN=Corporate Inspection CA", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", "proxy.key", "-out", "proxy.pem"])
        .current_dir(folder)
        .stderr(std::process::Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success());
    let certificate = CertificateDer::from_pem_file(folder.join("proxy.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("proxy.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (Ok(mut socket), config) = (connection, Arc::clone(&config)) else { continue };
            std::thread::spawn(move || {
                let mut session = ServerConnection::new(config).unwrap();
                while session.is_handshaking() && session.complete_io(&mut socket).is_ok() {}
                let _ = socket.flush();
            });
        }
    });
    address
}

/// What stands between a process and its clock.
const SLOW_CLOCK: &str = r"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, __func__);
    int result = next(id, now);
    if (!result && id == CLOCK_REALTIME) now->tv_sec -= 20 * 60;
    return result;
}
";

/// A library to be loaded before the runner's own; the C compiler is one of the things that building the project needs.
fn slow_clock(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("slow_clock.c"), folder.join("slow_clock.so"));
    std::fs::write(&source, SLOW_CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(status.expect("a C compiler is installed").success());
    library
}
