//! What people and programs see: data on standard output, everything else on standard error.
//!
//! A failure is one line that names the cause, then its hints, a line each. Colour only on a terminal. Texts that came from
//! elsewhere pass through [`one_line`].

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let text = without_tokens(text);
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

/// A token that stands where something else was expected, a path or an address, loses what is secret in it.
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    let part_of_token = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = ["rpbt_", "eyJ"].iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, token) = rest.split_at(start);
        let (token, after) = token.split_at(token.find(|c| !part_of_token(c)).unwrap_or(token.len()));
        let separator = if token.starts_with("rpbt_") { ('_', 3) } else { ('.', 2) };
        shown.push_str(before);
        let public = token.match_indices(separator.0).nth(separator.1 - 1).and_then(|(at, _)| token.get(..=at));
        shown.push_str(public.unwrap_or(token));
        if public.is_some() {
            shown.push_str("(redacted)");
        }
        rest = after;
    }
    if shown.is_empty() && rest.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
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
    written(writeln!(std::io::stdout().lock(), "{text}"));
}

static LOST: AtomicBool = AtomicBool::new(false);

/// Remembers that data did not reach standard output, and says so once. A closed pipe is its reader's business.
pub fn written(outcome: std::io::Result<()>) {
    if let Err(error) = outcome
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        let _ = writeln!(anstream::stderr(), "error: cannot write to standard output: {error}");
    }
}

/// Whether data did not reach standard output.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
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
    fn a_token_in_the_wrong_place_is_not_shown() {
        let secret = "a".repeat(52);
        let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2lnbmF0dXJl";
        assert_eq!(one_line(&format!("x rpbt_acme_k3j5_{secret} y")), "x rpbt_acme_k3j5_(redacted) y");
        assert_eq!(one_line(&format!("/run/{jwt}")), "/run/eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.(redacted)");
        assert_eq!(one_line(&format!("rpbt_a_b_{secret},{jwt}")).matches("(redacted)").count(), 2);
        for text in ["", "plain", "rpbt_", "rpbt_acme", "a eyJ b", "/etc/rpbt_acme/token"] {
            assert_eq!(one_line(text), text);
        }
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
