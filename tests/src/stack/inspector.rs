//! Memory of a worker's isolate, as workerd's inspector tells it (Chrome DevTools Protocol).
//!
//! Resident memory of the process would be easier and proves nothing: it holds the isolates of Miniflare, and garbage that V8 saw no reason
//! to collect.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// A collection of a full heap takes a fraction of a second.
const LIMIT: Duration = Duration::from_mins(1);

/// Octets that the isolate of `worker` holds after a collection: V8's heap and buffers outside of it, but not the memory of a wasm module.
pub fn heap(address: &str, worker: &str) -> Result<u64> {
    let mut isolate = Isolate::attach(address, worker)?;
    // A snapshot is the one thing that makes workerd collect: it does not answer `collectGarbage`.
    isolate.ask("HeapProfiler.enable")?;
    isolate.ask("HeapProfiler.takeHeapSnapshot")?;
    let usage = isolate.ask("Runtime.getHeapUsage")?;
    ["usedSize", "embedderHeapUsedSize", "backingStorageSize"]
        .iter()
        .map(|part| usage[part].as_f64().with_context(|| format!("no {part} in {usage}")))
        .sum::<Result<f64>>()
        .map(|octets| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole octets, as JSON's numbers"
            )]
            let octets = octets as u64;
            octets
        })
}

struct Isolate(WebSocket<TcpStream>);

impl Isolate {
    fn attach(address: &str, worker: &str) -> Result<Self> {
        let targets: Value = reqwest::blocking::get(format!("http://{address}/json"))?.json()?;
        let targets = targets.as_array().context("the inspector's list is no list")?;
        let ids: Vec<&str> = targets.iter().filter_map(|target| target["id"].as_str()).collect();
        let id = ids.iter().find(|id| id.ends_with(worker)).with_context(|| format!("{worker} is not in {ids:?}"))?;
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let (socket, _) = tungstenite::client(format!("ws://{address}/{id}"), stream)?;
        Ok(Self(socket))
    }

    /// Sends a command and waits for its result; events in between are passed over.
    fn ask(&mut self, method: &str) -> Result<Value> {
        self.0.send(Message::text(json!({ "id": 1, "method": method }).to_string()))?;
        loop {
            let Message::Text(text) = self.0.read()? else { continue };
            let mut answer: Value = serde_json::from_str(&text)?;
            if answer["id"] == 1 {
                ensure!(answer["error"].is_null(), "{method}: {answer}");
                return Ok(answer["result"].take());
            }
        }
    }
}
