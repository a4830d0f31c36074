//! What comes out: progress while it runs, a table at the end, `report.json` for programs and `report.md` for the docs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use comfy_table::{Table, presets};
use edge_tests::figures::shown;
use serde_json::{Value, json};

use crate::measures::Measure;

/// A line of the report.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// `P1`, or a name of an extra figure without a goal.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// Of `ours` and `peer`.
    pub unit: &'static str,
    /// What the goal is about: the ratio, where there is one.
    pub value: Value,
    /// Ours.
    pub ours: Value,
    /// The peer's, where there is one.
    pub peer: Value,
    /// Whether `value` is ours by the peer's or the like.
    pub is_ratio: bool,
    /// In the words of the performance goals.
    pub goal: Option<&'static str>,
    /// Whether it is reached; the first of two.
    pub met: Option<bool>,
    /// Raw.
    pub samples: Value,
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "id": self.id, "value": self.value, "ours": self.ours, "peer": self.peer, "goal": self.goal, "met": self.met,
            "samples": self.samples,
        })
    }

    fn cells(&self) -> [String; 6] {
        let title =
            if self.id.starts_with('P') { format!("{} {}", self.id, self.title) } else { self.title.to_owned() };
        [
            title,
            shown(&self.ours, self.unit),
            shown(&self.peer, self.unit),
            if self.is_ratio { shown(&self.value, "") } else { String::new() },
            self.goal.unwrap_or_default().to_owned(),
            match self.met {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => "",
            }
            .to_owned(),
        ]
    }
}

const HEADINGS: [&str; 6] = ["measure", "ours", "peer", "ratio", "goal", ""];

/// A measure under way.
#[derive(Debug)]
pub struct Step {
    measure: Measure,
    started: Instant,
}

impl Step {
    /// Prints its heading.
    pub fn begin(measure: Measure) -> Self {
        eprintln!("==> {measure:?}: {}", measure.title());
        Self { measure, started: Instant::now() }
    }

    /// Prints what came of it.
    pub fn end(self, rows: &[Row]) {
        for row in rows {
            let [title, ours, peer, ratio, goal, met] = row.cells();
            note(&[title, ours, peer, ratio, goal, met].join(" | "));
        }
        eprintln!("    {:?} took {:.1} s", self.measure, self.started.elapsed().as_secs_f32());
    }
}

/// One indented line of progress.
pub fn note(text: &str) {
    eprintln!("    {text}");
}

/// Prints the table and writes the files.
pub fn publish(rows: &[Row], out: &Path) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(HEADINGS);
    for row in rows {
        table.add_row(row.cells());
    }
    println!("{table}");
    let report = json!({"measures": rows.iter().map(Row::json).collect::<Vec<_>>()});
    fs::write(out.join("report.json"), format!("{report:#}\n"))?;
    fs::write(out.join("report.md"), markdown(rows)?)?;
    eprintln!("written: {}", out.join("report.json").display());
    Ok(())
}

/// The same table for the docs, and what it was measured on.
fn markdown(rows: &[Row]) -> Result<String> {
    let mut text = format!("{}\n\n| {} |\n|---|---|---|---|---|---|\n", machine(), HEADINGS.join(" | "));
    for row in rows {
        writeln!(text, "| {} |", row.cells().join(" | "))?;
    }
    Ok(text)
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("processor: unknown");
    let model = model.split_once(':').map_or(model, |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let kilobytes: f64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok())
        .unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, {:.0} GB, Linux {}", kilobytes / 1e6, kernel.trim())
}
