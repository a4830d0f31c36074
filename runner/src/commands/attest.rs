//! `runner attest`: the evidence that would be sent, on standard output.
//!
//! Secrets are redacted unless asked for. Nothing is sent to the control plane; the state directory is only read.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::{Attestation, EnrollRequest};

use crate::cli::Output;
use crate::config::Config;
use crate::evidence::{self, Binding};
use crate::failure::Failure;
use crate::identity_store;
use crate::key::Key;
use crate::output;

/// What stands in the place of a secret.
const REDACTED: &str = "redacted; --reveal shows it";

/// Gathers evidence and prints the body of `POST /v1/enroll`.
pub async fn attest(config: &Config, reveal: bool, format: Output) -> Result<(), Failure> {
    let state = identity_store::read_for(&config.state_dir, config.control_plane.as_str(), config.method.mode())?;
    for fault in &state.faults {
        tracing::warn!("state in {}: {}: `run` and `enroll` move it aside", config.state_dir.display(), fault.what);
    }
    let key = if let Some(key) = state.key.or(state.pending) {
        key
    } else {
        tracing::warn!(
            "no key is stored in {} yet: this evidence is for a key made just now and not kept",
            config.state_dir.display()
        );
        Key::generate().map_err(|error| Failure::configuration(error.to_string()))?
    };
    let csr = key.csr().map_err(|error| Failure::configuration(error.to_string()))?;
    let binding = Binding { audience: &config.audience, key: &key, csr: &csr, now: Timestamp::now() };
    let mut attestation = evidence::source(config).collect(binding).await?.attestation;
    if !reveal {
        redact(&mut attestation);
    }
    let request = EnrollRequest { csr: Cow::Borrowed(&csr.pem), attestation };
    match format {
        Output::Json => output::json(&request),
        Output::Text => output::line(&serde_json::to_string_pretty(&request).unwrap_or_default()),
    }
    Ok(())
}

/// Takes out what would let someone else attest.
fn redact(attestation: &mut Attestation<'static>) {
    match attestation {
        Attestation::BootstrapToken { token } => {
            let public =
                token.rsplit_once('_').filter(|(head, _)| head.starts_with("rpbt_")).map(|(head, _)| head.to_owned());
            *token = Cow::Owned(public.map_or_else(|| REDACTED.to_owned(), |head| format!("{head}_({REDACTED})")));
        }
        Attestation::GkeOidc { token } | Attestation::EksOidc { token } => {
            let claims = token.rsplit_once('.').map_or("", |(claims, _)| claims).to_owned();
            *token = Cow::Owned(format!("{claims}.({REDACTED})"));
        }
        Attestation::AwsSts(evidence) => {
            for (name, value) in &mut evidence.headers {
                if name == "x-amz-security-token" {
                    *value = Cow::Borrowed(REDACTED);
                } else if name == "authorization" {
                    let cut = value.find("Signature=").map_or(0, |at| at + "Signature=".len());
                    *value = Cow::Owned(format!("{}({REDACTED})", &value[..cut]));
                }
            }
        }
        Attestation::MtlsRenewal(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_parts_stay_and_secrets_go() {
        let mut token = Attestation::BootstrapToken { token: Cow::Borrowed("rpbt_acme_id_secret") };
        redact(&mut token);
        let Attestation::BootstrapToken { token } = token else { unreachable!() };
        assert!(token.starts_with("rpbt_acme_id_(") && !token.contains("secret)"));
        let mut token = Attestation::GkeOidc { token: Cow::Borrowed("head.claims.signature") };
        redact(&mut token);
        let Attestation::GkeOidc { token } = token else { unreachable!() };
        assert!(token.starts_with("head.claims.(") && !token.contains("signature"));
    }
}
