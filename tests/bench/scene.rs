//! What every measure stands on: a CA, the emulators, a policy, and both workers with the same of all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use edge_tests::emulators::{IssuerConfig, OidcIssuer, StsConfig, StsEmulator};
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, AUDIENCE, Admin, Client, GKE_ISSUER, REGION, TRUST_DOMAIN, places};
use edge_tests::workerd::{Server, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Arguments, interrupt};

/// Everything but the workers, running.
#[derive(Debug)]
pub struct Scene {
    /// Issuer of the tokens.
    pub issuer: OidcIssuer,
    /// AWS STS.
    pub sts: StsEmulator,
    /// Bearer of `/v1/verify`.
    pub service_token: String,
    /// Bearer of the admin routes.
    pub admin_token: String,
    /// Node.js.
    pub node: PathBuf,
    /// workerd.
    pub workerd: PathBuf,
    /// The runner, stripped by whoever needs it.
    pub runner: Option<PathBuf>,
    /// Folder of the bundle that loops.
    pub isolate: Option<PathBuf>,
    ours: Worker,
    peer: Worker,
    folder: TempDir,
}

impl Scene {
    /// Reads the CA and starts the emulators.
    pub fn set(arguments: &Arguments) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&arguments.out)?;
        let read = |name: &str| {
            let path = arguments.ca.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let token = |name: &str| -> Result<String> { Ok(read(name)?.trim().to_owned()) };
        let mut texts: BTreeMap<String, String> = serde_json::from_str(&read("worker-secrets.json")?)?;
        texts.insert("RATE_LIMITS".to_owned(), "off".to_owned());
        let project = Project::read()?;
        let objects = project.durable_objects.bindings.into_iter().map(|object| (object.name, object.class_name));
        let ours = Worker {
            bundle: arguments.bundle.clone(),
            main: file_name(&project.main)?,
            compatibility_date: project.compatibility_date.clone(),
            compatibility_flags: project.compatibility_flags,
            texts: texts.clone(),
            objects: objects.collect(),
        };
        let peer = Worker {
            bundle: arguments.peer.clone(),
            main: "worker.js".to_owned(),
            compatibility_date: project.compatibility_date,
            compatibility_flags: Vec::new(),
            texts,
            objects: vec![("TENANT".to_owned(), "Tenant".to_owned())],
        };
        let issuer = IssuerConfig { default_issuer: GKE_ISSUER.to_owned(), ..IssuerConfig::default() };
        Ok(Self {
            issuer: OidcIssuer::start(issuer)?,
            sts: StsEmulator::start(StsConfig::default())?,
            service_token: token("service.token")?,
            admin_token: token("admin.token")?,
            node: arguments.node.clone(),
            workerd: arguments.workerd.clone(),
            runner: arguments.runner.clone(),
            isolate: arguments.isolate.clone(),
            ours,
            peer,
            folder,
        })
    }

    /// A policy with these tenants. Each has the service account `runner` of the namespace named like it, the first also an AWS role.
    pub fn policy<'a>(&self, tenants: impl IntoIterator<Item = &'a str>) -> Value {
        let tenant = |(index, id): (usize, &str)| {
            let mut rules = vec![json!({
                "mode": "gke-oidc", "project": "acme-prod", "location": "europe-west1", "cluster": "runners",
                "namespace": id, "service_account": "runner",
            })];
            if index == 0 {
                rules.push(json!({"mode": "aws-sts", "account": ACME_ACCOUNT, "role": ACME_ROLE}));
            }
            json!({"id": id, "bootstrap_tokens": true, "rules": rules})
        };
        json!({
            "trust_domain": TRUST_DOMAIN,
            "audience": AUDIENCE,
            "certificates": {"ttl": "1h", "reattest_after": "24h"},
            "aws_sts": {"regions": [REGION], "endpoints": {REGION: self.sts.url()}},
            "oidc_issuers": [{
                "mode": "gke-oidc", "issuer": GKE_ISSUER, "jwks_uri": self.issuer.jwks_uri(GKE_ISSUER),
            }],
            "tenants": tenants.into_iter().enumerate().map(tenant).collect::<Vec<_>>(),
        })
    }

    /// A folder of this run.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Our worker as it is deployed.
    pub const fn ours(&self) -> &Worker {
        &self.ours
    }

    /// Ours inside of a wrapper: a module that imports it from `OURS`, and whose function `wrapped` makes the class of an object from ours
    /// and its name.
    pub fn wrapped(&self, name: &str, wrapper: &str) -> Result<Worker> {
        ensure!(wrapper.contains("// CLASSES"), "the wrapper has no place for the classes");
        let folder = self.folder(&format!("{name}-bundle"));
        edge_tests::workerd::copy_modules(&self.ours.bundle, &folder)?;
        let class =
            |(_, class): &(String, String)| format!("export const {class} = wrapped(ours.{class}, \"{class}\");");
        let classes = self.ours.objects.iter().map(class).collect::<Vec<_>>().join("\n");
        let text = wrapper.replace("OURS", &format!("./{}", self.ours.main)).replace("// CLASSES", &classes);
        let main = format!("{name}.mjs");
        std::fs::write(folder.join(&main), text)?;
        Ok(Worker { bundle: folder, main, ..self.ours.clone() })
    }

    /// A worker of one module, for what has neither policy nor checks.
    pub fn bare(&self, name: &str, module: &str, objects: &[&str]) -> Result<Worker> {
        let folder = self.folder(&format!("{name}-bundle"));
        std::fs::create_dir_all(&folder)?;
        let main = format!("{name}.mjs");
        std::fs::write(folder.join(&main), module)?;
        let objects = objects.iter().map(|class| (class.to_uppercase(), (*class).to_owned())).collect();
        Ok(Worker { bundle: folder, main, objects, texts: BTreeMap::new(), ..self.ours.clone() })
    }

    /// The peer under a policy.
    pub fn peer(&self, policy: &Value) -> Worker {
        self.peer.clone().with("POLICY", policy.to_string())
    }

    /// Starts ours on an empty storage and puts a policy in force.
    pub fn start_ours(&self, name: &str, policy: &Value) -> Result<Server> {
        self.start_ours_as(self.ours(), name, policy)
    }

    /// The same with a worker of one's own that has ours inside.
    pub fn start_ours_as(&self, worker: &Worker, name: &str, policy: &Value) -> Result<Server> {
        let server = self.start(worker, name)?;
        let applied = self.admin(&server).try_apply(policy);
        ensure!(applied.status == 200, "the policy was refused: {}", applied.text());
        healthy(server)
    }

    /// Starts the peer on an empty storage.
    pub fn start_peer(&self, name: &str, policy: &Value) -> Result<Server> {
        healthy(self.start(&self.peer(policy), name)?)
    }

    /// Starts any worker on an empty storage.
    pub fn start(&self, worker: &Worker, name: &str) -> Result<Server> {
        interrupt::check()?;
        let folder = self.folder(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        Server::start(&self.workerd, worker, &folder)
    }

    /// The operator of a server.
    pub fn admin(&self, server: &Server) -> Admin {
        Admin(Client::new(&server.url()).with_bearer(&self.admin_token))
    }
}

fn file_name(path: &str) -> Result<String> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    Ok(name.with_context(|| format!("{path} names no file"))?.to_owned())
}

/// Waits until it says that it can enrol.
fn healthy(server: Server) -> Result<Server> {
    let client = Client::new(&server.url());
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        interrupt::check()?;
        let answer = client.get("/healthz");
        if answer.status == 200 {
            return Ok(server);
        }
        ensure!(Instant::now() < until, "not healthy: {}\n{}", answer.text(), server.errors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The parts of wrangler.toml that bare workerd needs, too.
#[derive(Debug, Deserialize)]
struct Project {
    main: String,
    compatibility_date: String,
    #[serde(default)]
    compatibility_flags: Vec<String>,
    durable_objects: Objects,
}

#[derive(Debug, Deserialize)]
struct Objects {
    bindings: Vec<Object>,
}

#[derive(Debug, Deserialize)]
struct Object {
    name: String,
    class_name: String,
}

impl Project {
    fn read() -> Result<Self> {
        let text = std::fs::read_to_string(places::wrangler_toml()).context("cannot read wrangler.toml")?;
        toml::from_str(&text).context("wrangler.toml")
    }
}
