//! Memory and processor time of a worker's isolate, as workerd's inspector tells them (Chrome DevTools Protocol).
//!
//! Figures of the process would be easier and are others: its memory holds the isolates of Miniflare, and garbage that V8 saw no reason to
//! collect; its time is HTTP, storage and the log as well.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
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

/// A profile of `worker`'s isolate under way.
#[derive(Debug)]
pub struct Profile(Isolate);

impl Profile {
    /// Looks at the isolate every `interval`.
    pub fn start(address: &str, worker: &str, interval: Duration) -> Result<Self> {
        let mut isolate = Isolate::attach(address, worker)?;
        isolate.ask("Profiler.enable")?;
        let interval = u64::try_from(interval.as_micros())?;
        isolate.ask_with("Profiler.setSamplingInterval", &json!({ "interval": interval }))?;
        isolate.ask("Profiler.start")?;
        Ok(Self(isolate))
    }

    /// How long the isolate was at work: JavaScript, wasm, native code that they called, garbage. What workerd does by itself before and after
    /// is not in it.
    pub fn stop(mut self) -> Result<Duration> {
        let stopped = self.0.ask("Profiler.stop")?;
        let recorded: Recorded = serde_json::from_value(stopped["profile"].clone()).context("the profile")?;
        Ok(recorded.at_work())
    }
}

/// `Profiler.Profile`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    nodes: Vec<Node>,
    samples: Vec<u32>,
    /// Microseconds between one sample and the next one.
    time_deltas: Vec<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: u32,
    call_frame: CallFrame,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
}

impl Recorded {
    /// A sample stands for the time up to the next one; the last one for none.
    fn at_work(&self) -> Duration {
        let outside = |node: &&Node| matches!(&*node.call_frame.function_name, "(idle)" | "(program)" | "(root)");
        let outside: BTreeSet<u32> = self.nodes.iter().filter(outside).map(|node| node.id).collect();
        let lasted = self.time_deltas.iter().skip(1);
        let at_work = self.samples.iter().zip(lasted).filter(|(node, _)| !outside.contains(node));
        Duration::from_micros(at_work.map(|(_, micros)| u64::try_from(*micros).unwrap_or(0)).sum())
    }
}

#[derive(Debug)]
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
        self.ask_with(method, &json!({}))
    }

    fn ask_with(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        let command = json!({ "id": 1, "method": method, "params": parameters });
        self.0.send(Message::text(command.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_at_work_is_that_of_functions_and_garbage() {
        let profile = json!({
            "nodes": [
                {"id": 1, "callFrame": {"functionName": "(root)"}},
                {"id": 2, "callFrame": {"functionName": "(program)"}},
                {"id": 3, "callFrame": {"functionName": "(idle)"}},
                {"id": 4, "callFrame": {"functionName": "fetch"}},
                {"id": 5, "callFrame": {"functionName": "(garbage collector)"}},
            ],
            "samples": [2, 4, 4, 5, 3, 4],
            "timeDeltas": [1_000, 100, 10, 20, 30, 500],
        });
        let recorded: Recorded = serde_json::from_value(profile).unwrap();
        assert_eq!(recorded.at_work(), Duration::from_micros(10 + 20 + 30));
    }
}
