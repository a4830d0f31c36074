//! The commands of the binary, a file each.

pub mod attest;
pub mod doctor;
pub mod enroll;
pub mod generate;
pub mod run;
pub mod status;

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use crate::enrolment::How;
use crate::identity::Identity;
use crate::identity_store::{CERTIFICATE, KEY, TRUST_BUNDLE};

/// The identity as commands show it with `--output json`.
#[derive(Debug, Serialize)]
pub struct IdentityJson<'a> {
    /// How it was got, where the command got it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
    /// Runner id.
    pub runner_id: &'a str,
    /// Tenant.
    pub tenant: &'a str,
    /// SPIFFE id.
    pub spiffe_id: &'a str,
    /// Mode of the attestation.
    pub mode: protocol::Mode,
    /// Who issued it.
    pub control_plane_url: &'a str,
    /// Serial number, hex.
    pub serial: &'a str,
    /// Start of the certificate.
    pub not_before: Timestamp,
    /// End of the certificate.
    pub not_after: Timestamp,
    /// When to renew.
    pub renew_after: Timestamp,
    /// When a full attestation is due, or null.
    pub reattest_before: Option<Timestamp>,
    /// Private key.
    pub key_file: String,
    /// Chain.
    pub certificate_file: String,
    /// Roots.
    pub trust_bundle_file: String,
}

impl<'a> IdentityJson<'a> {
    /// Of an identity in a state directory.
    pub fn new(how: Option<How>, identity: &'a Identity, state_dir: &Path) -> Self {
        let file = |name| state_dir.join(name).display().to_string();
        Self {
            how,
            runner_id: &identity.runner_id,
            tenant: &identity.tenant,
            spiffe_id: &identity.spiffe_id,
            mode: identity.mode,
            control_plane_url: &identity.control_plane_url,
            serial: &identity.serial,
            not_before: identity.not_before,
            not_after: identity.not_after,
            renew_after: identity.renew_after,
            reattest_before: identity.reattest_before,
            key_file: file(KEY),
            certificate_file: file(CERTIFICATE),
            trust_bundle_file: file(TRUST_BUNDLE),
        }
    }

    /// Name and value of each line for people.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let text = crate::output::one_line;
        let mut lines = vec![
            ("runner", text(self.runner_id)),
            ("tenant", text(self.tenant)),
            ("spiffe id", text(self.spiffe_id)),
            ("mode", self.mode.to_string()),
            ("control plane", text(self.control_plane_url)),
            ("serial", self.serial.to_owned()),
            ("valid until", self.not_after.to_string()),
            ("renew after", self.renew_after.to_string()),
        ];
        lines.extend(self.reattest_before.map(|due| ("attest before", due.to_string())));
        lines.extend([
            ("key", self.key_file.clone()),
            ("certificate", self.certificate_file.clone()),
            ("trust bundle", self.trust_bundle_file.clone()),
        ]);
        lines
    }

    /// Writes the lines for people.
    pub fn print(&self) {
        for (name, value) in self.lines() {
            crate::output::line(&format!("{name:<14} {value}"));
        }
    }
}
