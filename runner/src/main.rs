//! The binary `runner`: command line in, exit status out.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use runner::cli::{Cli, Command, Options};
use runner::commands;
use runner::config::{self, Config};
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
            let _ = error.print();
            let shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if shown { Exit::Done.into() } else { Exit::Configuration.into() };
        }
    };
    let format = cli.options.output;
    let command = cli.command.unwrap_or(Command::Run);
    match start_logging(&cli.options, &command).and_then(|()| dispatch(&cli.options, &command)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::failure(&failure, format);
            failure.class.exit().into()
        }
    }
}

fn dispatch(options: &Options, command: &Command) -> Result<Exit, Failure> {
    let environment = |name: &str| std::env::var_os(name);
    let format = options.output;
    if *command == Command::Status {
        return commands::status::status(&config::state_dir(options), format);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::configuration(format!("cannot start: {error}")))?;
    let config = Config::resolve(options, &environment)?;
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

/// Log lines go to standard error: `RUST_LOG` decides which, `RUNNER_LOG_FORMAT` how they look.
fn start_logging(options: &Options, command: &Command) -> Result<(), Failure> {
    let level = if *command == Command::Run { LevelFilter::INFO } else { LevelFilter::WARN };
    let ours = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("runner", level)
        .with_target("aws", LevelFilter::ERROR);
    let filter = match std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()) {
        None => ours,
        Some(text) => text.parse().map_err(|_| {
            Failure::configuration("RUST_LOG is neither a level nor target=level pairs")
                .hint("such as info, or runner=debug")
        })?,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match options.log_format.as_deref() {
        None | Some("" | "text") => {
            let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            registry.with(layer.with_target(false).with_ansi(colour)).init();
        }
        Some("json") => registry.with(layer.json().flatten_event(true)).init(),
        Some(_) => {
            return Err(Failure::configuration("RUNNER_LOG_FORMAT must be text or json"));
        }
    }
    Ok(())
}

/// Neither a core dump nor a debugger of the same user sees the memory of this process.
fn keep_secrets_out_of_core_dumps() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
}
