//! The command line: what can be asked, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use protocol::admin::BanScope;

const AFTER_HELP: &str = "\
Environment:
  EDGECTL_URL            Address of the verifier
  EDGECTL_TOKEN          Admin token (or EDGECTL_TOKEN_FILE: a file that holds it)
  EDGECTL_SERVICE_TOKEN  Service token, for `explain` (or EDGECTL_SERVICE_TOKEN_FILE)

Exit status:
  0   done
  1   the answer is no: the policy has problems or differs, evidence is refused, no such thing
  2   the command line is wrong
  69  the verifier cannot be reached, or is not ready; try again later
  77  the verifier does not accept the token
  78  an address, token or file that is needed is missing or cannot be used

From nothing to a first runner:
  edgectl ca init --out ca --organization \"Example Inc\"
  npx wrangler secret bulk ca/worker-secrets.json && npx wrangler deploy
  export EDGECTL_URL=https://edge.example.com EDGECTL_TOKEN_FILE=ca/admin.token
  edgectl policy apply policy.toml
  edgectl token mint acme";

/// Sets up and looks after a RootPilot Edge verifier.
#[derive(Debug, Parser)]
#[command(name = "edgectl", version, after_help = AFTER_HELP, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// Form of data on standard output, text or json; messages go to standard error.
    #[arg(long, short, global = true, value_enum, value_name = "FORM", default_value_t = Format::Text, hide_possible_values = true)]
    pub output: Format,

    /// Where the verifier is.
    #[command(flatten)]
    pub verifier: VerifierArguments,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Address and tokens. Tokens are never arguments: arguments can be seen by every process of the machine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Verifier")]
pub struct VerifierArguments {
    /// Address of the verifier: https, or http to loopback.
    #[arg(long, global = true, env = "EDGECTL_URL", value_name = "URL", hide_env = true)]
    pub url: Option<String>,

    /// File with the admin token; EDGECTL_TOKEN comes first.
    #[arg(long, global = true, env = "EDGECTL_TOKEN_FILE", value_name = "FILE", hide_env = true)]
    pub token_file: Option<OsString>,

    /// File with the service token; EDGECTL_SERVICE_TOKEN comes first.
    #[arg(long, global = true, env = "EDGECTL_SERVICE_TOKEN_FILE", value_name = "FILE", hide_env = true)]
    pub service_token_file: Option<OsString>,
}

/// Form of data on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Tables and lines for people.
    #[default]
    Text,
    /// One JSON document; `audit --follow` prints one per line.
    Json,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the certificate authority and the worker's secrets.
    #[command(subcommand)]
    Ca(CaCommand),
    /// Check, compare, apply and show the policy.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Bootstrap tokens of a tenant.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Runners of a tenant.
    #[command(subcommand)]
    Runner(RunnerCommand),
    /// What was decided and done, newest first.
    Audit(AuditArguments),
    /// Why evidence is accepted or refused, check by check. Uses nothing up.
    Explain(ExplainArguments),
    /// Completions for a shell, on standard output.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// `edgectl ca`.
#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Make a root, an issuing CA, the root's CRL, and admin and service tokens. Works offline and overwrites nothing.
    Init(CaInit),
    /// Make a new issuing CA below the root of `ca init`. The old one stays listed, so that runners renew from one to the other.
    Rotate(CaRotate),
    /// Put a former issuing CA on the root's CRL, and take it off the worker's list.
    Revoke(CaRevoke),
}

/// `edgectl ca init`.
#[derive(Debug, Args)]
pub struct CaInit {
    /// Directory to make; must not hold a CA yet.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Organization named in the CA certificates.
    #[arg(long, default_value = "RootPilot Edge", value_name = "NAME")]
    pub organization: String,
}

/// `edgectl ca rotate`.
#[derive(Debug, Args)]
pub struct CaRotate {
    /// Directory of the present issuing CA, with the root's key in it.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Directory to make for the new issuing CA and the worker's new secrets.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The present issuing key was stolen: put its CA on the root's CRL instead of listing it.
    #[arg(long)]
    pub revoke_former: bool,
}

/// `edgectl ca revoke`.
#[derive(Debug, Args)]
pub struct CaRevoke {
    /// Directory of the present issuing CA, with the root's key in it.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Certificate of the CA to revoke, PEM; the first of the file.
    #[arg(long, value_name = "FILE")]
    pub certificate: PathBuf,
    /// Directory to make for the root's new CRL and the worker's new secrets.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `edgectl policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Report every problem and warning of a policy file. Works offline.
    Validate {
        /// TOML, or JSON with a name that ends in .json; - reads standard input.
        file: PathBuf,
    },
    /// Compare the policy in force with a file. Exit status 1 when they differ.
    Diff {
        /// As for validate.
        file: PathBuf,
    },
    /// Put a policy in force, if nobody changed it meanwhile.
    Apply {
        /// As for validate.
        file: PathBuf,
        /// Apply only over this version (an ETag that `policy show` printed).
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
    },
    /// Print the policy in force: TOML, or JSON with --output json.
    Show,
}

/// `edgectl token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Mint a token and print it, this once.
    Mint {
        /// Tenant that it admits to.
        tenant: String,
        /// How long it can be used, at most 30d.
        #[arg(long, value_name = "DURATION")]
        ttl: Option<String>,
        /// How many runners may enrol with it.
        #[arg(long, value_name = "N")]
        max_uses: Option<u32>,
        /// For people.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// List a tenant's tokens, without their secrets.
    List {
        /// Tenant.
        tenant: String,
        /// How many.
        #[command(flatten)]
        page: PageArguments,
    },
    /// Revoke a token. Runners that enrolled with it stay; ban or evict those.
    Revoke {
        /// Tenant.
        tenant: String,
        /// Id, as `token list` shows it.
        id: String,
    },
}

/// `edgectl runner`.
#[derive(Debug, Subcommand)]
pub enum RunnerCommand {
    /// List a tenant's runners.
    List {
        /// Tenant.
        tenant: String,
        /// How many.
        #[command(flatten)]
        page: PageArguments,
    },
    /// Show one runner.
    Show(RunnerName),
    /// Refuse a runner now and later, and revoke its certificates.
    Ban {
        /// Which.
        #[command(flatten)]
        runner: RunnerName,
        /// For the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Ban every runner of the instance, or this runner only [default: instance; for bootstrap runners: runner].
        #[arg(long, value_parser = scope)]
        scope: Option<BanScope>,
    },
    /// Lift a ban. Certificates stay revoked: the runner attests again.
    Unban(RunnerName),
    /// Forget a runner and revoke its certificates. It may attest again with new evidence; a ban stays.
    Evict(RunnerName),
}

/// A runner of a tenant.
#[derive(Debug, Args)]
pub struct RunnerName {
    /// Tenant.
    pub tenant: String,
    /// Runner id.
    pub runner_id: String,
}

/// How much of a list.
#[derive(Debug, Clone, Copy, Args)]
pub struct PageArguments {
    /// At most this many items.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Everything.
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

/// `edgectl audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Tenant; without one, the deployment's own log (policy changes).
    pub tenant: Option<String>,
    /// How many.
    #[command(flatten)]
    pub page: PageArguments,
    /// Print new events as they come, oldest first, until interrupted.
    #[arg(long, short, conflicts_with = "all")]
    pub follow: bool,
}

/// `edgectl explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// What `runner attest --reveal` prints, or an attestation alone; - reads standard input.
    pub payload: PathBuf,
    /// CSR that an attestation alone is bound to, PEM.
    #[arg(long, value_name = "FILE", conflicts_with = "spki_sha256")]
    pub csr: Option<PathBuf>,
    /// base64url SHA-256 of the key that an attestation alone is bound to.
    #[arg(long, value_name = "HASH")]
    pub spki_sha256: Option<String>,
}

fn scope(text: &str) -> Result<BanScope, String> {
    text.parse().map_err(|_| "must be instance or runner".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn no_argument_takes_a_secret() {
        let mut queue = vec![Arguments::command()];
        while let Some(command) = queue.pop() {
            for argument in command.get_arguments() {
                assert!(!matches!(argument.get_id().as_str(), "token" | "service_token"), "{argument:?}");
            }
            queue.extend(command.get_subcommands().cloned());
        }
    }
}
