//! What people and programs see: data on standard output, the rest on standard error.

use std::io::Write as _;
use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use serde_json::json;

use crate::cli::Format;
use crate::failure::Failure;

/// Prints in the form that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    format: Format,
}

impl Output {
    /// In this form.
    pub const fn new(format: Format) -> Self {
        Self { format }
    }

    /// Whether a program reads.
    pub const fn is_json(self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// The data of a command: `value` as JSON, or `text` made for people.
    pub fn data(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let mut printed = if self.is_json() {
            serde_json::to_string_pretty(value).map_err(|error| print_failed(error.into()))?
        } else {
            text()
        };
        if !printed.is_empty() && !printed.ends_with('\n') {
            printed.push('\n');
        }
        print(&printed)
    }

    /// One of many data, on a line of its own.
    pub fn event(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let line = if self.is_json() {
            serde_json::to_string(value).map_err(|error| print_failed(error.into()))?
        } else {
            text()
        };
        print(&[&line, "\n"].concat())
    }

    /// What was done: JSON for programs, a message for people.
    pub fn done(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json() {
            return self.data(value, String::new);
        }
        self.note(text());
        Ok(())
    }

    /// Says that a list goes on.
    pub fn more(self, next: Option<&str>) {
        if next.is_some() && !self.is_json() {
            self.note("There are more: --limit N or --all.");
        }
    }

    /// A message for the person.
    pub fn note(self, message: impl AsRef<str>) {
        anstream::eprintln!("{}", message.as_ref());
    }

    /// Says what went wrong and what to try; programs get one JSON line.
    pub fn failure(self, failure: &Failure) -> ExitCode {
        if self.is_json() {
            anstream::eprintln!("{}", machine_readable(failure));
        } else {
            anstream::eprintln!("{}", for_people(failure));
        }
        ExitCode::from(failure.exit_status())
    }
}

fn for_people(failure: &Failure) -> String {
    let mut lines = vec![format!("error: {failure}")];
    lines.extend(failure.policy_problems().iter().map(|problem| format!("  {}: {}", problem.path, problem.message)));
    lines.extend(failure.hint().map(|hint| format!("hint: {hint}")));
    if let Failure::Problem { problem } = failure {
        lines.push(format!("request id: {}", problem.request_id));
    }
    lines.join("\n")
}

fn machine_readable(failure: &Failure) -> serde_json::Value {
    let mut error = match failure {
        Failure::Problem { problem } => json!(problem),
        _ => json!({ "detail": failure.to_string() }),
    };
    if !failure.policy_problems().is_empty() {
        error["errors"] = json!(failure.policy_problems());
    }
    error["exit_status"] = json!(failure.exit_status());
    error["hint"] = json!(failure.hint());
    json!({ "error": error })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever read has seen enough, as with `| head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(print_failed),
    }
}

fn print_failed(error: std::io::Error) -> Failure {
    Failure::Io { what: "print".to_owned(), error }
}

/// A table without lines, as wide as its content, control characters of the content made visible.
pub fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| visible(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Names and values, a line each.
pub fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let fields: Vec<(&str, &str)> = fields.into_iter().collect();
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name:<width$}  {}", visible(value))).collect();
    lines.join("\n")
}

/// Text from elsewhere, unable to move the cursor or colour the terminal.
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|char| {
            let escape = char.is_control().then(|| char.escape_default());
            let plain = escape.is_none().then_some(char);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Empty for nothing.
pub fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_cells_stay_in_their_cell() {
        assert_eq!(visible("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        let text = table(["ID", "TEXT"], [["1".to_owned(), "x\ny".to_owned()]]);
        assert_eq!(text, "ID  TEXT\n1   x\\ny");
    }
}
