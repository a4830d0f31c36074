//! `bootstrap-token`: a secret that the operator minted for the tenant.
//!
//! The control plane gives one answer for every way in which a token can be wrong, so what can be seen from here (a character lost
//! in copying) is kept as a fact for the explanation.

use std::borrow::Cow;

use async_trait::async_trait;
use protocol::{Attestation, Mode};

use super::{Binding, Detail, Evidence, EvidenceSource, Facts, Fingerprint};
use crate::config::TokenOrigin;
use crate::failure::Failure;

/// Characters of a 256-bit secret in base32.
const SECRET_LENGTH: usize = 52;

/// Source of [`Attestation::BootstrapToken`].
#[derive(Debug)]
pub struct BootstrapToken {
    origin: TokenOrigin,
}

/// What can be seen of a token without showing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    /// Variable or file it was read from.
    pub origin: String,
    /// Tenant and public id, where the token has the documented form.
    pub tenant_and_id: Option<(String, String)>,
    /// What is odd about its form.
    pub oddity: Option<String>,
}

impl BootstrapToken {
    /// A source for the token of `origin`.
    pub const fn new(origin: TokenOrigin) -> Self {
        Self { origin }
    }
}

/// Looks at the form of a token: `rpbt_<tenant>_<id>_<secret>`, lower-case base32.
pub fn inspect(token: &str, origin: &TokenOrigin) -> TokenFacts {
    let origin = match origin {
        TokenOrigin::Variable(_) => "RUNNER_BOOTSTRAP_TOKEN".to_owned(),
        TokenOrigin::File(path) => path.display().to_string(),
    };
    let parts: Vec<&str> = token.split('_').collect();
    let ["rpbt", tenant, id, secret] = parts.as_slice() else {
        let oddity = "it does not have the form rpbt_<tenant>_<id>_<secret>".to_owned();
        return TokenFacts { origin, tenant_and_id: None, oddity: Some(oddity) };
    };
    let base32 = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b));
    let oddity = if secret.len() != SECRET_LENGTH {
        Some(format!(
            "its last part has {} characters instead of {SECRET_LENGTH}: was it cut when copied?",
            secret.len()
        ))
    } else if !base32(secret) || !base32(id) {
        Some("it contains characters that no token has (only a-z and 2-7 after the tenant)".to_owned())
    } else {
        None
    };
    TokenFacts { origin, tenant_and_id: Some(((*tenant).to_owned(), (*id).to_owned())), oddity }
}

#[async_trait]
impl EvidenceSource for BootstrapToken {
    fn mode(&self) -> Mode {
        Mode::BootstrapToken
    }

    async fn collect(&self, binding: Binding<'_>) -> Result<Evidence, Failure> {
        let token = self.origin.read()?;
        let facts = Facts {
            mode: Mode::BootstrapToken,
            audience: binding.audience.to_owned(),
            made_at: binding.now,
            fingerprint: Some(Fingerprint::of(&[token.as_bytes()])),
            detail: Detail::BootstrapToken(inspect(&token, &self.origin)),
        };
        Ok(Evidence { attestation: Attestation::BootstrapToken { token: Cow::Owned(token.to_string()) }, facts })
    }

    async fn fingerprint(&self) -> Option<Fingerprint> {
        self.origin.read().ok().map(|token| Fingerprint::of(&[token.as_bytes()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oddity(token: &str) -> Option<String> {
        inspect(token, &TokenOrigin::File("token".into())).oddity
    }

    #[test]
    fn a_lost_character_is_seen() {
        let secret = "a".repeat(52);
        assert_eq!(oddity(&format!("rpbt_acme_k3j5_{secret}")), None);
        assert!(oddity(&format!("rpbt_acme_k3j5_{}", "a".repeat(51))).unwrap().contains("51 characters"));
        assert!(oddity(&format!("rpbt_acme_k3j5_{}1", "a".repeat(51))).unwrap().contains("no token has"));
        assert!(oddity("secret").unwrap().contains("rpbt_<tenant>_<id>_<secret>"));
    }
}
