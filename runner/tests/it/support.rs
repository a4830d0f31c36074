//! A fake control plane, and the binary run against it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use protocol::{Attestation, EnrollRequest};
use rcgen::{CertificateParams, CertificateSigningRequestParams, DnType, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// What the fake does with one call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Issues a certificate of so many milliseconds.
    Issue { ttl_ms: i64, reattest_with_it: bool },
    /// Refuses or defers.
    Problem { status: u16, code: &'static str, reason: Option<&'static str>, extra: Value, retry_after: Option<u32> },
    /// Answers anything.
    Raw { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Issues, and loses the answer.
    LoseAnswer,
    /// Issues, and changes something in the answer.
    Changed(fn(&mut Value)),
    /// Gives the last answer once more.
    Again,
    /// Never answers.
    Hang,
}

impl Reply {
    pub fn issue(ttl_ms: i64) -> Self {
        Self::Issue { ttl_ms, reattest_with_it: false }
    }

    pub fn problem(status: u16, code: &'static str, reason: Option<&'static str>) -> Self {
        Self::Problem { status, code, reason, extra: json!({}), retry_after: None }
    }

    pub fn detailed(status: u16, code: &'static str, reason: Option<&'static str>, extra: Value) -> Self {
        Self::Problem { status, code, reason, extra, retry_after: None }
    }

    pub fn retry(code: &'static str, status: u16, seconds: u32) -> Self {
        Self::Problem { status, code, reason: None, extra: json!({}), retry_after: Some(seconds) }
    }
}

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    pub path: String,
    pub at: std::time::Instant,
    pub body: Value,
    /// base64url SHA-256 of the CSR's key.
    pub key: String,
}

impl Call {
    pub fn mode(&self) -> &str {
        self.body["attestation"]["mode"].as_str().unwrap_or_default()
    }

    pub fn csr(&self) -> &str {
        self.body["csr"].as_str().unwrap_or_default()
    }
}

struct Inner {
    script: VecDeque<Reply>,
    then: Reply,
    calls: Vec<Call>,
    serial: u64,
    audience: String,
    last: Value,
}

/// The fake control plane.
#[derive(Clone)]
pub struct Fake {
    pub url: String,
    inner: Arc<Mutex<Inner>>,
    ca: Arc<Ca>,
}

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "fake control plane CA");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }
}

impl Fake {
    /// Starts one that issues certificates of an hour unless the script says otherwise.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    pub async fn start_at(address: SocketAddr, script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let fake = Self::new(format!("http://{}", listener.local_addr().unwrap()), "127.0.0.1", script);
        let app = axum::Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        fake
    }

    /// The same over TLS, and the authority that it is trusted by.
    pub async fn start_tls(script: impl IntoIterator<Item = Reply>) -> (Self, String) {
        let (listener, authority) = TlsListener::bind().await;
        let fake = Self::new(listener.url(), "localhost", script);
        let app = axum::Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (fake, authority)
    }

    fn new(url: String, audience: &str, script: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            url,
            inner: Arc::new(Mutex::new(Inner {
                script: script.into_iter().collect(),
                then: Reply::issue(3_600_000),
                calls: Vec::new(),
                serial: 0,
                audience: audience.to_owned(),
                last: Value::Null,
            })),
            ca: Arc::new(Ca::new()),
        }
    }

    /// What happens when the script is over.
    pub fn then(self, reply: Reply) -> Self {
        self.inner.lock().unwrap().then = reply;
        self
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner.lock().unwrap().calls.clone()
    }

    /// Waits until there were so many calls.
    pub async fn wait_calls(&self, count: usize) -> Vec<Call> {
        eventually(|| {
            let calls = self.calls();
            (calls.len() >= count).then_some(calls)
        })
        .await
    }

    fn issue(&self, call: &Call, ttl_ms: i64, reattest_with_it: bool) -> Value {
        let serial = {
            let mut inner = self.inner.lock().unwrap();
            inner.serial += 1;
            inner.serial
        };
        let mut csr = CertificateSigningRequestParams::from_pem(call.csr()).unwrap();
        let now = Timestamp::now();
        let end = now + SignedDuration::from_millis(ttl_ms);
        csr.params.serial_number = Some(serial.into());
        csr.params.not_after = rcgen::date_time_ymd(2099, 1, 1);
        let leaf = csr.signed_by(&self.ca.issuer).unwrap().pem();
        let answer = json!({
            "runner_id": "abcdefghijklmnopqrstuvwxyz",
            "tenant": "acme",
            "spiffe_id": "spiffe://test/tenant/acme/runner/abcdefghijklmnopqrstuvwxyz",
            "certificate": leaf,
            "trust_bundle": self.ca.pem,
            "not_before": now.to_string(),
            "not_after": end.to_string(),
            "renew_after": (now + SignedDuration::from_millis(ttl_ms / 2)).to_string(),
            "reattest_before": reattest_with_it.then(|| end.to_string()),
            "server_time": now.to_string(),
            "a_field_of_a_newer_version": 1,
        });
        self.inner.lock().unwrap().last = answer.clone();
        answer
    }

    fn check_renewal(&self, request: &EnrollRequest<'_>) {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
        use der::{Decode as _, DecodePem as _, Encode as _};
        use p256::ecdsa::signature::Verifier as _;
        let Attestation::MtlsRenewal(evidence) = &request.attestation else { panic!("not a renewal") };
        let proof = evidence.proof.as_ref().unwrap();
        let certificate = x509_cert::Certificate::from_pem(proof.certificate.as_bytes()).unwrap();
        let csr = x509_cert::request::CertReq::from_pem(request.csr.as_bytes()).unwrap();
        let text = protocol::renewal_text(
            &self.inner.lock().unwrap().audience,
            proof.timestamp,
            &runner::key::sha256_b64(&certificate.to_der().unwrap()),
            &runner::key::sha256_b64(&csr.to_der().unwrap()),
        );
        let spki = certificate.tbs_certificate().subject_public_key_info();
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(spki.subject_public_key.as_bytes().unwrap()).unwrap();
        let signature = B64.decode(proof.signature.as_bytes()).unwrap();
        key.verify(text.as_bytes(), &p256::ecdsa::Signature::from_slice(&signature).unwrap()).unwrap();
        let _ = der::Any::from_der(&csr.to_der().unwrap()).unwrap();
    }
}

fn key_of(csr: &str) -> String {
    use der::{DecodePem as _, Encode as _};
    x509_cert::request::CertReq::from_pem(csr.as_bytes())
        .map(|csr| runner::key::sha256_b64(&csr.info.public_key.to_der().unwrap()))
        .unwrap_or_default()
}

async fn answer(State(fake): State<Fake>, uri: Uri, body: Bytes) -> Response {
    match uri.path() {
        "/healthz" => return axum::Json(json!({"status": "ok", "version": "0.0.0"})).into_response(),
        "/v1/enroll" | "/v1/renew" => {}
        _ => return problem(404, "not_found", None, json!({}), None),
    }
    let value: Value = serde_json::from_slice(&body).unwrap();
    let key = key_of(value["csr"].as_str().unwrap_or_default());
    let call = Call { path: uri.path().to_owned(), at: std::time::Instant::now(), body: value, key };
    let reply = {
        let mut inner = fake.inner.lock().unwrap();
        inner.calls.push(call.clone());
        inner.script.pop_front().unwrap_or_else(|| inner.then.clone())
    };
    let request: EnrollRequest<'_> = serde_json::from_slice(&body).expect("a request of PROTOCOL");
    match uri.path() {
        "/v1/enroll" => assert_ne!(call.mode(), "mtls-renewal"),
        "/v1/renew" => fake.check_renewal(&request),
        other => panic!("no such route: {other}"),
    }
    match reply {
        Reply::Issue { ttl_ms, reattest_with_it } => {
            axum::Json(fake.issue(&call, ttl_ms, reattest_with_it)).into_response()
        }
        Reply::Problem { status, code, reason, extra, retry_after } => {
            problem(status, code, reason, extra, retry_after)
        }
        Reply::Raw { status, headers, body } => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Reply::LoseAnswer => {
            fake.issue(&call, 3_600_000, false);
            // A body that breaks off: the connection is closed in the middle of it.
            let broken = futures_util::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("cut"))]);
            Response::new(axum::body::Body::from_stream(broken))
        }
        Reply::Changed(change) => {
            let mut answer = fake.issue(&call, 3_600_000, false);
            change(&mut answer);
            axum::Json(answer).into_response()
        }
        Reply::Again => {
            let mut last = fake.inner.lock().unwrap().last.clone();
            last["server_time"] = Timestamp::now().to_string().into();
            axum::Json(last).into_response()
        }
        Reply::Hang => std::future::pending().await,
    }
}

fn problem(status: u16, code: &str, reason: Option<&str>, extra: Value, retry_after: Option<u32>) -> Response {
    let mut problem = json!({
        "type": "about:blank", "title": "t", "status": status, "code": code, "reason": reason,
        "detail": "", "request_id": "req-1", "retryable": status == 429 || status == 503,
        "server_time": Timestamp::now().to_string(),
    });
    if let (Value::Object(problem), Value::Object(extra)) = (&mut problem, extra) {
        problem.extend(extra);
    }
    let mut response = (StatusCode::from_u16(status).unwrap(), problem.to_string()).into_response();
    response.headers_mut().insert("content-type", "application/problem+json".parse().unwrap());
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}

/// TLS for `localhost` with a certificate of an authority of its own.
pub struct TlsListener {
    listener: tokio::net::TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl TlsListener {
    /// On any port; and the authority, PEM.
    pub async fn bind() -> (Self, String) {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "Corporate Inspection CA");
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        (Self { listener, acceptor }, authority_pem)
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.listener.local_addr().unwrap().port())
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (socket, address) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(socket).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// The environment of one runner.
pub struct Runner {
    pub dir: tempfile::TempDir,
    env: Vec<(String, String)>,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Output {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub async fn of(mut command: tokio::process::Command) -> Self {
        let output = tokio::time::timeout(Duration::from_secs(90), command.output()).await.unwrap().unwrap();
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub const TOKEN: &str = "rpbt_acme_k3j5abcd_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

impl Runner {
    /// An empty environment but for the state directory.
    pub fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state").display().to_string();
        let home = dir.path().display().to_string();
        Self { env: vec![("RUNNER_STATE_DIR".into(), state), ("HOME".into(), home)], dir }
    }

    /// With a bootstrap token for a fake.
    pub fn bootstrap(fake: &Fake) -> Self {
        Self::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
    }

    pub fn env(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.set(name, value);
        self
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<str>) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_runner"));
        command.args(args).env_clear().envs(self.env.iter().cloned()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    pub async fn run(&self, args: &[&str]) -> Output {
        Output::of(self.command(args)).await
    }

    /// Starts the daemon.
    pub fn start(&self, args: &[&str]) -> Daemon {
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let sink = Arc::clone(&log);
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = sink.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Daemon { child, log, reader }
    }
}

/// `enroll` as root's nobody, who must still reach the binary and the folder.
pub fn as_nobody(runner: &Runner) -> tokio::process::Command {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(runner.dir.path(), open).unwrap();
    let copy = runner.dir.path().join("runner");
    std::fs::copy(env!("CARGO_BIN_EXE_runner"), &copy).unwrap();
    let mut command = tokio::process::Command::new(copy);
    command.arg("enroll").env_clear().envs(runner.env.iter().cloned()).stdin(Stdio::null()).uid(65_534).gid(65_534);
    command
}

/// A running daemon.
pub struct Daemon {
    child: tokio::process::Child,
    log: Arc<Mutex<String>>,
    reader: tokio::task::JoinHandle<()>,
}

impl Daemon {
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a text in the log.
    pub async fn wait_log(&self, text: &str) {
        eventually(|| self.log().contains(text).then_some(())).await;
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end.
    pub async fn end(mut self) -> Output {
        let status = tokio::time::timeout(Duration::from_secs(90), self.child.wait()).await.unwrap().unwrap();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).await.unwrap();
        self.reader.await.unwrap();
        Output { status: status.code().unwrap_or(-1), stdout, stderr: self.log.lock().unwrap().clone() }
    }
}

/// Looks until something holds, for a long time, so that no test depends on timing.
pub async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not come to pass within a minute");
}

pub fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// An unsigned token in the shape of a projected one.
pub fn projected_token(claims: &Value) -> String {
    use base64::Engine as _;
    let b64 = |value: &Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", b64(&json!({"alg": "RS256", "kid": "k"})), b64(claims))
}
