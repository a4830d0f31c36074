//! P5: what is uploaded, `gzip -9`, exactly.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use edge_tests::figures::rounded;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::report::Row;
use crate::scene::Scene;

/// Kilobytes are 1,000 octets.
const GOAL: f64 = 350.0;

/// zlib itself, by Node.js: other implementations of level 9 give other sizes.
const WEIGH: &str = "
const fs = require('fs'), path = require('path'), zlib = require('zlib');
const folder = process.argv[1];
const files = fs.readdirSync(folder, { recursive: true }).filter((name) => /\\.(m?js|wasm)$/.test(name));
console.log(JSON.stringify(files.sort().map((file) => {
  const raw = fs.readFileSync(path.join(folder, file));
  const named = file.endsWith('.wasm') && WebAssembly.Module.customSections(new WebAssembly.Module(raw), 'name').length > 0;
  return { file, raw: raw.length, gzip: zlib.gzipSync(raw, { level: 9 }).length, named };
})));";

/// A module of the bundle.
#[derive(Debug, Deserialize, Serialize)]
struct Module {
    file: String,
    raw: f64,
    gzip: f64,
    named: bool,
}

fn weigh(scene: &Scene, folder: &std::path::Path) -> Result<Vec<Module>> {
    let output = Command::new(&scene.node).arg("-e").arg(WEIGH).arg(folder).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the sizes")
}

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let ours = weigh(scene, &scene.ours().bundle)?;
    let peer = weigh(scene, &scene.peer(&json!({})).bundle)?;
    for module in &ours {
        ensure!(!module.named, "{} still has its name section", module.file);
    }
    let kilobytes = |modules: &[Module]| modules.iter().map(|module| module.gzip).sum::<f64>() / 1e3;
    let size = kilobytes(&ours);
    Ok(vec![Row {
        id: "P5",
        title: "worker bundle, gzip -9",
        unit: "KB",
        value: json!(rounded(size, 1)),
        ours: json!(rounded(size, 1)),
        peer: json!(rounded(kilobytes(&peer), 1)),
        goal: Some("≤ 350 KB"),
        met: Some(size <= GOAL),
        samples: json!({"ours": ours, "peer": peer}),
        ..Row::default()
    }])
}
