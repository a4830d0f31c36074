//! The command line: flags, the environment variables behind them, and help that teaches.
//!
//! Nothing is judged here: values are taken as text, and [`crate::config`] says what is wrong with them in the words of the
//! contract. There is no flag for the bootstrap token itself, because arguments can be read by every user of the machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Proves to a RootPilot control plane who this machine is, and keeps the client certificate that it gets for it renewed.
#[derive(Debug, Parser)]
#[command(name = "runner", version, after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; `run` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings shared by every command.
    #[command(flatten)]
    pub options: Options,
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Enrol, keep the certificate renewed, and stay up (the default)
    ///
    /// Enrols unless a live certificate is there, renews at half of its life, rotates the key, attests again when it must, and keeps
    /// the good certificate through every failure. SIGTERM ends it, SIGHUP renews at once.
    Run,
    /// Enrol once and end
    ///
    /// Attests with the key of the present certificate, or with a new key, stores what comes back and ends. Status 0 done, 77
    /// refused, 69 not reachable, 78 configuration.
    Enroll,
    /// Print the evidence that would be sent, secrets redacted
    ///
    /// The output is the body of `POST /v1/enroll`. Nothing is sent to the control plane and nothing is stored.
    Attest {
        /// Show secrets, for `edgectl explain`; do not paste the output anywhere
        #[arg(long)]
        reveal: bool,
    },
    /// Show the identity in the state directory; status 0 when its certificate is live
    Status,
    /// Check clock, address, TLS, evidence and state directory, and say what to do
    ///
    /// Enrols nothing. The status is that of the first check that fails.
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// How results are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document, or one a line for `run`.
    Json,
}

/// Flags and their environment variables; an empty value counts as unset.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Address of the control plane: https, or http to loopback only
    #[arg(long, global = true, value_name = "URL", value_parser = text(), env = "RUNNER_CONTROL_PLANE_URL", hide_env_values = true)]
    pub control_plane_url: Option<String>,
    /// bootstrap-token (default), aws-sts, gke-oidc or eks-oidc
    #[arg(long, global = true, value_name = "MODE", value_parser = text(), env = "RUNNER_ATTESTATION_MODE", hide_env_values = true)]
    pub attestation_mode: Option<String>,
    /// File with the bootstrap token, used when RUNNER_BOOTSTRAP_TOKEN is unset
    #[arg(long, global = true, value_name = "FILE", env = "RUNNER_BOOTSTRAP_TOKEN_FILE", hide_env_values = true)]
    pub bootstrap_token_file: Option<OsString>,
    /// AWS region whose STS endpoint is signed for; required by aws-sts, never guessed
    #[arg(long, global = true, value_name = "REGION", value_parser = text(), env = "AWS_REGION", hide_env_values = true)]
    pub aws_region: Option<String>,
    /// Projected token of gke-oidc [default: /var/run/secrets/tokens/gke-oidc/token]
    #[arg(long, global = true, value_name = "FILE", env = "RUNNER_GKE_TOKEN_PATH", hide_env_values = true)]
    pub gke_token_path: Option<OsString>,
    /// Projected token of eks-oidc [default: /var/run/secrets/tokens/eks-oidc/token]
    #[arg(long, global = true, value_name = "FILE", env = "RUNNER_EKS_TOKEN_PATH", hide_env_values = true)]
    pub eks_token_path: Option<OsString>,
    /// Audience that the control plane's policy names [default: host name of the address]
    #[arg(long, global = true, value_name = "TEXT", value_parser = text(), env = "RUNNER_AUDIENCE", hide_env_values = true)]
    pub audience: Option<String>,
    /// Directory for key, certificate and trust bundle [default: /var/lib/rootpilot-runner]
    #[arg(long, global = true, value_name = "DIR", env = "RUNNER_STATE_DIR", hide_env_values = true)]
    pub state_dir: Option<OsString>,
    /// Command run after each new certificate, with the paths in its environment
    #[arg(long, global = true, value_name = "COMMAND", value_parser = text(), env = "RUNNER_ON_RENEW", hide_env_values = true)]
    pub on_renew: Option<String>,
    /// PEM file of certificate authorities trusted for the control plane, besides the system's
    #[arg(long, global = true, value_name = "FILE", env = "RUNNER_CA_FILE", hide_env_values = true)]
    pub ca_file: Option<OsString>,
    /// Log lines as text (default) or json
    #[arg(long, global = true, value_name = "FORMAT", value_parser = text(), env = "RUNNER_LOG_FORMAT", hide_env_values = true)]
    pub log_format: Option<String>,
    /// Form of the data on standard output; everything else goes to standard error
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Text as it is judged later: octets that are no UTF-8 become a character that nothing accepts, so that the variable is named.
fn text() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|text| text.to_string_lossy().into_owned())
}

const AFTER_HELP: &str = "\
Examples:
  RUNNER_BOOTSTRAP_TOKEN=rpbt_… runner enroll --control-plane-url https://edge.example.com
  RUNNER_ATTESTATION_MODE=aws-sts AWS_REGION=eu-west-1 runner run
  runner doctor

Exit status: 0 done, 78 configuration, 77 refused, 69 not reachable. See --help for every variable.";

const AFTER_LONG_HELP: &str = "\
Examples:
  First run with a token minted by the operator:
    RUNNER_BOOTSTRAP_TOKEN=rpbt_… runner enroll --control-plane-url https://edge.example.com
  A fleet on EC2 or EKS, or a laptop after `aws sso login`, without any token:
    RUNNER_ATTESTATION_MODE=aws-sts AWS_REGION=eu-west-1 runner run
  In a GKE pod with a projected token of the control plane's audience:
    RUNNER_ATTESTATION_MODE=gke-oidc runner run
  What would be sent, and why it may be refused:
    runner attest
    runner doctor
  
Variables (a flag of the same name wins; an empty variable counts as unset):
  RUNNER_CONTROL_PLANE_URL     the control plane's address
  RUNNER_ATTESTATION_MODE      bootstrap-token (default), aws-sts, gke-oidc, eks-oidc
  RUNNER_BOOTSTRAP_TOKEN       the token of bootstrap-token; there is no flag for it
  RUNNER_BOOTSTRAP_TOKEN_FILE  a file that holds it
  AWS_REGION                   required by aws-sts; AWS_DEFAULT_REGION and profiles do not count
  AWS_ENDPOINT_URL_STS, AWS_USE_FIPS_ENDPOINT, AWS_PROFILE and the rest of the AWS SDK's
  RUNNER_GKE_TOKEN_PATH        default /var/run/secrets/tokens/gke-oidc/token
  RUNNER_EKS_TOKEN_PATH        default /var/run/secrets/tokens/eks-oidc/token
  RUNNER_AUDIENCE              default: host name of the address
  RUNNER_STATE_DIR             default /var/lib/rootpilot-runner
  RUNNER_ON_RENEW              command run after each new certificate; sees RUNNER_KEY_FILE,
                               RUNNER_CERTIFICATE_FILE, RUNNER_TRUST_BUNDLE_FILE, RUNNER_ID,
                               RUNNER_TENANT, RUNNER_SPIFFE_ID, RUNNER_NOT_AFTER
  RUNNER_CA_FILE               more certificate authorities for the control plane's TLS
  HTTPS_PROXY, NO_PROXY        the way to an https control plane
  RUNNER_LOG_FORMAT            text (default) or json
  RUST_LOG                     level, or target=level pairs, such as runner=debug

Exit status:
  0   done
  78  configuration: something on this machine has to be set right first
  77  refused by the control plane
  69  not reachable, after bounded retries";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
