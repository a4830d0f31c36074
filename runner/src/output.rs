//! What people and programs see: data on standard output, everything else on standard error.
//!
//! A failure is one line that names the cause, then its hints, a line each. Colour only on a terminal. Texts that came from
//! elsewhere pass through [`one_line`].

use std::io::Write as _;

use serde::Serialize;

use crate::cli::Output;
use crate::failure::Failure;

/// Longest foreign text that is shown.
const LONGEST: usize = 512;

/// Foreign text on one line: control characters escaped, white space around it taken off, cut at 512 characters.
pub fn one_line(text: &str) -> String {
    escaped(text.trim())
}

/// The same with the white space around it, where that may be what is wrong.
pub fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Writes a failure to standard error, and with `--output json` an object to standard output.
pub fn failure(failure: &Failure, output: Output) {
    let _ = write_failure(&mut anstream::stderr().lock(), failure);
    failure_data(failure, output);
}

/// The object alone.
pub fn failure_data(failure: &Failure, output: Output) {
    if output == Output::Json {
        json(&FailureJson::from(failure));
    }
}

fn write_failure(out: &mut impl std::io::Write, failure: &Failure) -> std::io::Result<()> {
    let error = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
    let hint = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Cyan.into()));
    if failure.verbatim {
        writeln!(out, "{}", failure.message)?;
    } else {
        writeln!(out, "{error}error{error:#}: {}", failure.message)?;
    }
    for text in &failure.hints {
        writeln!(out, "{hint}hint{hint:#}: {text}")?;
    }
    Ok(())
}

/// A failure as an object: `{"error":{"class","exit_status","message","hints","code","reason","request_id"}}`.
#[derive(Debug, Serialize)]
pub struct FailureJson<'a> {
    error: FailureBody<'a>,
}

#[derive(Debug, Serialize)]
struct FailureBody<'a> {
    class: crate::failure::Class,
    exit_status: u8,
    message: &'a str,
    hints: &'a [String],
    code: Option<protocol::Code>,
    reason: Option<protocol::Reason>,
    request_id: Option<&'a str>,
}

impl<'a> From<&'a Failure> for FailureJson<'a> {
    fn from(failure: &'a Failure) -> Self {
        let problem = failure.problem.as_deref();
        Self {
            error: FailureBody {
                class: failure.class,
                exit_status: failure.class.exit() as u8,
                message: &failure.message,
                hints: &failure.hints,
                code: problem.map(|problem| problem.code),
                reason: problem.and_then(|problem| problem.reason),
                request_id: problem.map(|problem| problem.request_id.as_str()),
            },
        }
    }
}

/// Writes one JSON document and a line end to standard output. A closed pipe is no failure of ours.
pub fn json(value: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(value) {
        line(&text);
    }
}

/// Writes a line to standard output.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_forge_lines_or_move_the_cursor() {
        assert_eq!(one_line("a\nb\x1b[2Jc\u{9b}"), "a\\nb\\u{1b}[2Jc\\u{9b}");
        assert_eq!(one_line(&"x".repeat(600)).chars().count(), 513);
    }

    #[test]
    fn a_text_of_the_contract_stands_alone() {
        let mut out = Vec::new();
        write_failure(&mut out, &Failure::fail_fast("RUNNER_X requires Y").hint("set Y")).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        assert_eq!(String::from_utf8(text).unwrap(), "RUNNER_X requires Y\nhint: set Y\n");
        assert!(out.starts_with(b"RUNNER_X requires Y\n"));
    }
}
