//! Runs the STS emulator and the OIDC issuer for other processes.
//!
//! Prints one JSON line when both listen, `{"sts_url","issuer_url","pid"}`, and ends on SIGTERM or
//! SIGINT. Everything else is done over `/_control/` on either address.

use std::io::Write as _;

use clap::Parser;
use edge_tests::emulators::{IssuerConfig, OidcIssuer, StsConfig, StsEmulator};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// AWS STS and a Kubernetes OIDC issuer on loopback, for tests and development
#[derive(Debug, Parser)]
#[command(name = "emulators")]
struct Arguments {
    /// Port of the STS; 0 picks one
    #[arg(long, default_value_t = 0)]
    sts_port: u16,
    /// Port of the OIDC issuer; 0 picks one
    #[arg(long, default_value_t = 0)]
    issuer_port: u16,
    /// Region the STS serves; may be repeated [default: one or more of each partition]
    #[arg(long = "region")]
    regions: Vec<String>,
    /// `iss` of tokens that name none
    #[arg(long, default_value_t = IssuerConfig::default().default_issuer)]
    issuer: String,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut sts = StsConfig { port: arguments.sts_port, ..StsConfig::default() };
    if !arguments.regions.is_empty() {
        sts.regions = arguments.regions;
    }
    let issuer =
        IssuerConfig { port: arguments.issuer_port, default_issuer: arguments.issuer, ..IssuerConfig::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before anything is announced, so that a signal sent on the announcement is heeded.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let sts = StsEmulator::start(sts)?;
        let issuer = OidcIssuer::start(issuer)?;
        let ready = json!({
            "sts_url": sts.url(),
            "issuer_url": issuer.url(),
            "pid": std::process::id(),
        });
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{ready}")?;
        stdout.flush()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}
