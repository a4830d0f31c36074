//! The binary `runner`: command line in, exit status out.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use runner::cli::{Cli, Command, Options};
use runner::commands;
use runner::config::{self, Config, LogFormat};
use runner::failure::{Exit, Failure};
use runner::output;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

fn main() -> ExitCode {
    keep_secrets_out_of_core_dumps();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            show(&error);
            let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if shown { Exit::Done.into() } else { Exit::Configuration.into() };
        }
    };
    let command = cli.command.unwrap_or(Command::Run);
    let refused_filter = start_logging(&cli.options, &command);
    match dispatch(&cli.options, &command, refused_filter) {
        // The daemon's work is the certificate, of every other command it is what it says.
        Ok(Exit::Done) if command != Command::Run && output::is_lost() => Exit::Configuration.into(),
        Ok(exit) => exit.into(),
        Err(failure) => {
            report(&failure, &cli.options, &command);
            failure.class.exit().into()
        }
    }
}

/// Help and version as they are; of what is wrong with a command line nothing secret.
fn show(error: &clap::Error) {
    if error.use_stderr() {
        let text = error.render().ansi().to_string();
        let _ = write!(anstream::stderr(), "{}", output::without_tokens(&text));
    } else {
        let _ = error.print();
    }
}

fn dispatch(options: &Options, command: &Command, refused_filter: Option<String>) -> Result<Exit, Failure> {
    let environment = |name: &str| std::env::var_os(name);
    let format = options.output;
    match command {
        Command::Status => return commands::status::status(&config::state_dir(options), format),
        Command::Completions { shell } => {
            commands::generate::completions(*shell);
            return Ok(Exit::Done);
        }
        Command::Man { directory } => return commands::generate::man(directory).map(|()| Exit::Done),
        Command::Run | Command::Enroll | Command::Attest { .. } | Command::Doctor => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::configuration(format!("cannot start: {error}")))?;
    if *command == Command::Doctor {
        return Ok(runtime.block_on(commands::doctor::doctor(options, &environment)));
    }
    let config = Config::resolve(options, &environment)?;
    if let Some(text) = refused_filter {
        let text = output::one_line(&text);
        tracing::warn!(
            "RUST_LOG={text} is not used: it is neither a level nor target=level pairs, such as runner=debug"
        );
    }
    let done = runtime.block_on(async {
        match command {
            Command::Enroll => commands::enroll::enroll(config, format).await,
            Command::Attest { reveal } => commands::attest::attest(&config, *reveal, format).await,
            _ => commands::run::run(config, format).await,
        }
    });
    runtime.shutdown_background();
    done.map(|()| Exit::Done)
}

/// The last words: plain lines, or for a daemon that logs JSON one more line of it. Texts of the contract are always plain.
fn report(failure: &Failure, options: &Options, command: &Command) {
    let is_json = config::log_format(options).is_ok_and(|format| format == LogFormat::Json);
    // RUST_LOG may leave no place for it there.
    let is_logged = tracing::enabled!(tracing::Level::ERROR);
    if *command == Command::Run && is_json && is_logged && !failure.verbatim {
        let problem = failure.problem.as_deref();
        tracing::error!(
            exit_status = failure.class.exit() as u8,
            code = problem.map(|problem| problem.code.as_str()),
            reason = problem.and_then(|problem| problem.reason).map(protocol::Reason::as_str),
            hints = failure.hints.join("; "),
            "{}",
            failure.message
        );
        output::failure_data(failure, options.output);
    } else {
        output::failure(failure, options.output);
    }
}

/// Log lines go to standard error: `RUST_LOG` decides which, `RUNNER_LOG_FORMAT` how they look. A setting that cannot be used leaves the
/// default in place until it is spoken of, after the texts of the contract: [`Config`] judges the format; the filter is everybody's
/// variable, no reason to stay down, and handed back.
fn start_logging(options: &Options, command: &Command) -> Option<String> {
    let level = if *command == Command::Run { LevelFilter::INFO } else { LevelFilter::WARN };
    let ours = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("runner", level)
        .with_target("aws", LevelFilter::ERROR);
    let wanted = std::env::var_os("RUST_LOG").filter(|text| !text.is_empty());
    let wanted = wanted.map(|text| text.to_string_lossy().into_owned());
    let (filter, refused) = match wanted.map(|text| text.parse().map_err(|_| text)) {
        None => (ours, None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(text)) => (ours, Some(text)),
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match config::log_format(options).unwrap_or_default() {
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).init(),
        LogFormat::Text => {
            let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            registry.with(layer.with_target(false).with_ansi(colour)).init();
        }
    }
    refused
}

/// Neither a core dump nor a debugger of the same user sees the memory of this process.
fn keep_secrets_out_of_core_dumps() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
}
