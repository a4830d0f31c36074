//! `runner doctor`: every condition of a first enrolment looked at by itself, and what to do about those that fail.
//!
//! It enrols nothing and changes nothing on this machine. Towards the control plane it makes two harmless calls, and for `aws-sts` a
//! rehearsal: evidence that is an hour old on purpose, so that the verifier judges region, host and audience and then stops at the
//! date, before AWS is asked (CHECKS S2, S3, S8, S9).

mod evidence;
mod network;
mod state;

use std::sync::Arc;

use serde::Serialize;

use crate::cli::{Options, Output};
use crate::clock::SystemClock;
use crate::config::{self, Config, Environment};
use crate::control_plane::ControlPlane;
use crate::failure::{Class, Exit, Failure};
use crate::output;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It works, but not for ever.
    Warn,
    /// It has to be set right.
    Fail,
    /// Not looked at, because something before it fails.
    Skipped,
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hints: Vec<String>,
    #[serde(skip)]
    class: Option<Class>,
}

impl Check {
    fn new(name: &'static str, outcome: Outcome, message: impl Into<String>) -> Self {
        Self { name, outcome, message: message.into(), hints: Vec::new(), class: None }
    }

    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Ok, message)
    }

    fn warn(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Warn, message)
    }

    fn skipped(name: &'static str, because: impl Into<String>) -> Self {
        Self::new(name, Outcome::Skipped, because)
    }

    fn fail(name: &'static str, failure: Failure) -> Self {
        let Failure { class, message, hints, .. } = failure;
        Self { name, outcome: Outcome::Fail, message, hints, class: Some(class) }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    checks: &'a [Check],
}

/// Looks at everything, prints a line for each, and returns the exit status of the first failure.
pub async fn run(options: &Options, environment: Environment<'_>) -> Exit {
    let checks = examine(options, environment).await;
    let failed = checks.iter().find(|check| check.outcome == Outcome::Fail);
    match options.output {
        Output::Json => output::json(&Report { ok: failed.is_none(), checks: &checks }),
        Output::Text => print(&checks),
    }
    failed.map_or(Exit::Done, |check| check.class.map_or(Exit::Configuration, Class::exit))
}

async fn examine(options: &Options, environment: Environment<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    match config::method(options, environment) {
        Ok(method) => checks.push(Check::ok("mode", evidence::describe(&method))),
        Err(failure) => checks.push(Check::fail("mode", failure)),
    }
    let url = config::ControlPlaneUrl::from_options(options);
    match &url {
        Ok(url) => checks.push(Check::ok("address", url.to_string())),
        Err(failure) => checks.push(Check::fail("address", failure.clone())),
    }
    let audience = url.as_ref().map_or(Ok(()), |url| config::audience(options, url).map(drop));
    for (name, judged) in [("audience", audience), ("log", config::log_format(options).map(drop))] {
        checks.extend(judged.err().map(|failure| Check::fail(name, failure)));
    }
    let config = Config::resolve(options, environment);
    match (&config, url) {
        (Ok(config), _) => examine_online(config, &mut checks).await,
        (Err(_), Ok(url)) => {
            network::examine_address(options, &url, &mut checks).await;
            checks.push(Check::skipped("evidence", "the settings are not complete"));
        }
        (Err(_), Err(_)) => {
            checks.push(Check::skipped("control plane", "there is no address"));
            checks.push(Check::skipped("evidence", "the settings are not complete"));
        }
    }
    state::examine(&config::state_dir(options), config.as_ref().ok(), &mut checks);
    checks
}

async fn examine_online(config: &Config, checks: &mut Vec<Check>) {
    let control_plane = match ControlPlane::new(config, Arc::new(SystemClock)) {
        Ok(control_plane) => control_plane,
        Err(failure) => return checks.push(Check::fail("control plane", failure)),
    };
    let reachable = network::examine(&control_plane, checks).await;
    evidence::examine(config, reachable.then_some(&control_plane), checks).await;
}

fn print(checks: &[Check]) {
    use anstyle::{AnsiColor, Style};
    use std::io::Write as _;
    let mut out = anstream::stdout().lock();
    for check in checks {
        let (word, colour) = match check.outcome {
            Outcome::Ok => ("ok", AnsiColor::Green),
            Outcome::Warn => ("warn", AnsiColor::Yellow),
            Outcome::Fail => ("fail", AnsiColor::Red),
            Outcome::Skipped => ("skip", AnsiColor::BrightBlack),
        };
        let style = Style::new().bold().fg_color(Some(colour.into()));
        output::written(writeln!(out, "{style}{word:<4}{style:#}  {:<15} {}", check.name, check.message));
        for hint in &check.hints {
            output::written(writeln!(out, "      {:<15} {hint}", ""));
        }
    }
}
