//! What people see while they wait: a heading per step, how long it took, notes in between. All on standard error.

use std::time::Instant;

use crate::process::Elapsed;

/// A step under way; its end prints the elapsed time.
pub struct Step {
    title: String,
    started: Instant,
}

impl Step {
    /// Prints the heading.
    pub fn begin(title: impl Into<String>) -> Self {
        let title = title.into();
        eprintln!("==> {title}");
        Self { title, started: Instant::now() }
    }

    /// Prints how the step ended.
    pub fn end(self, outcome: &str) {
        eprintln!("    {}: {outcome} ({})", self.title, Elapsed(self.started.elapsed()));
    }
}

/// One indented line under the present step.
pub fn note(text: impl std::fmt::Display) {
    eprintln!("    {text}");
}
