//! The load generator: keep-alive connections, each with one request under way, every answer checked.
//!
//! Closed loop: a connection sends its next request when the answer to the last one is read. Latency is from the first octet sent to the
//! last one read. One thread; requests are made before the clock starts, so that most of the machine is workerd's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use edge_tests::figures::rounded;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::interrupt;

/// One request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Shot {
    /// All headers but `host` and the length.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Shot {
    /// A JSON document, with a bearer token when given.
    pub fn json(body: impl Into<Bytes>, bearer: Option<&str>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = bearer {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token is of visible characters");
            headers.insert(AUTHORIZATION, value);
        }
        Self { headers, body: body.into() }
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// Each request once.
    AllSent,
    /// The requests over and over, for so long.
    Passed(Duration),
}

/// What an answer must be.
pub type Check = fn(&[u8]) -> Result<()>;

/// One run of load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Server.
    pub address: SocketAddr,
    /// `POST` to here.
    pub path: &'static str,
    /// Connections.
    pub connections: usize,
    /// Requests.
    pub shots: Arc<[Shot]>,
    /// End.
    pub until: Until,
    /// Beside status 200.
    pub check: Check,
    /// Whether answers are kept.
    pub keep: bool,
    /// Whether wrong answers are counted; else the first one ends it.
    pub forgiving: bool,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Fired {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Answers.
    pub count: usize,
    /// Of each answer.
    pub latency: Latency,
    /// Number of the request and its good answer, in order of the requests, when kept.
    pub answers: Vec<(usize, Bytes)>,
    /// One of the wrong answers, when they did not end it.
    pub first_error: Option<String>,
}

impl Fired {
    fn add(&mut self, part: Self) {
        self.latency.add(&part.latency);
        self.count += part.count;
        self.answers.extend(part.answers);
        self.first_error = self.first_error.take().or(part.first_error);
    }

    /// Answers in a second.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

impl Load {
    /// Fires.
    pub fn fire(self) -> Result<Fired> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.fire_all())
    }

    async fn fire_all(self) -> Result<Fired> {
        let mut senders = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            senders.push(connect(self.address).await?);
        }
        let started = Instant::now();
        let gun = Arc::new(Gun { load: self, next: AtomicUsize::new(0), started });
        let mut connections = JoinSet::new();
        for sender in senders {
            connections.spawn(Arc::clone(&gun).serve(sender));
        }
        let mut fired = Fired::default();
        while let Some(part) = connections.join_next().await {
            fired.add(part??);
        }
        fired.elapsed = started.elapsed();
        fired.answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(fired)
    }
}

/// What the connections share.
struct Gun {
    load: Load,
    next: AtomicUsize,
    started: Instant,
}

impl Gun {
    fn take(&self) -> Option<usize> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        match self.load.until {
            Until::AllSent => (next < self.load.shots.len()).then_some(next),
            Until::Passed(time) => (self.started.elapsed() < time).then_some(next % self.load.shots.len()),
        }
    }

    async fn serve(self: Arc<Self>, mut sender: SendRequest<Full<Bytes>>) -> Result<Fired> {
        let Load { address, path, .. } = self.load;
        let mut fired = Fired::default();
        while let Some(index) = self.take() {
            interrupt::check()?;
            let started = Instant::now();
            let (status, body) = exchange(&mut sender, address, path, &self.load.shots[index]).await?;
            fired.latency.record(started.elapsed());
            fired.count += 1;
            match self.check(status, &body) {
                Ok(()) if self.load.keep => fired.answers.push((index, body)),
                Ok(()) => {}
                Err(error) if self.load.forgiving => fired.first_error = Some(format!("{error:#}")),
                Err(error) => return Err(error),
            }
        }
        Ok(fired)
    }

    fn check(&self, status: StatusCode, body: &[u8]) -> Result<()> {
        let checked = if status == StatusCode::OK { (self.load.check)(body) } else { Err(anyhow!("refused")) };
        checked.with_context(|| format!("{} answered {status}: {}", self.load.path, String::from_utf8_lossy(body)))
    }
}

/// One request on a connection of its own.
pub async fn call(address: SocketAddr, path: &str, shot: &Shot) -> Result<(StatusCode, Bytes)> {
    exchange(&mut connect(address).await?, address, path, shot).await
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    address: SocketAddr,
    path: &str,
    shot: &Shot,
) -> Result<(StatusCode, Bytes)> {
    let mut request = Request::new(Full::new(shot.body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse()?;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = shot.headers.clone();
    if !shot.headers.contains_key(HOST) {
        request.headers_mut().insert(HOST, HeaderValue::from_str(&address.to_string())?);
    }
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    ensure!(response.version() == Version::HTTP_11, "not HTTP/1.1");
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// Latencies in microseconds, three digits kept.
#[derive(Debug, Clone)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three digits are a valid precision"))
    }
}

impl Latency {
    /// One more.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.record(micros.max(1)).expect("a histogram that resizes takes any value");
    }

    /// Those of another connection.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both histograms resize themselves");
    }

    /// Milliseconds that this share of the answers took at most.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a request are far below 2^52")]
    pub fn quantile(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    /// For the samples of a report.
    pub fn json(&self) -> Value {
        json!({
            "p50": rounded(self.quantile(0.5), 3),
            "p90": rounded(self.quantile(0.9), 3),
            "p99": rounded(self.quantile(0.99), 3),
            "max": rounded(self.quantile(1.0), 3),
        })
    }
}
