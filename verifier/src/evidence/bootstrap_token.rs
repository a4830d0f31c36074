//! `bootstrap-token`: the grammar of the secret that a tenant hands to its runners (CHECKS B1, B5), both ways.
//!
//! `rpbt_<tenant>_<id>_<secret>`: the tenant as in the policy, then lower-case base32 without padding (RFC 4648 section 6) of 10
//! random octets that name the token and of 32 random octets that are the secret. Only SHA-256 of the whole token is ever kept.
//!
//! Out of scope: whether such a token exists, its end and its uses (CHECKS B2 to B4) are for the tenant's object.

use std::fmt;

use base32ct::{Base32Unpadded, Encoding as _};
use protocol::Reason;

use super::BootstrapClaim;
use crate::Denial;
use crate::checks::Check;
use crate::encoding::{hex, sha256};
use crate::ports::{BackendError, Entropy};

/// What every refusal of a bootstrap token says, whatever its cause (CHECKS B5).
pub const REFUSED: &str = "The bootstrap token is not accepted. Ask the operator of the verifier for a new one.";

/// The grammar, for the decision trace.
pub const FORM: &str = "rpbt_<tenant>_<id>_<secret> of a tenant that may use bootstrap tokens";

const PREFIX: &str = "rpbt_";
const ID_OCTETS: usize = 10;
const SECRET_OCTETS: usize = 32;

/// The one refusal of bootstrap tokens; `check` only shows in the decision trace.
pub fn refused(check: Check) -> Denial {
    Denial::evidence(check, Reason::BootstrapTokenRefused, REFUSED)
}

/// Reads a presented token: grammar only (CHECKS B1). The tenant's membership of the policy is checked by
/// [`crate::appraisal::appraise`].
pub fn parse(token: &str) -> Result<BootstrapClaim, Denial> {
    claim(token).ok_or_else(|| refused(Check::B1))
}

fn claim(token: &str) -> Option<BootstrapClaim> {
    let mut parts = token.strip_prefix(PREFIX)?.split('_');
    let (tenant, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let well_formed = parts.next().is_none()
        && is_tenant_id(tenant)
        && is_canonical::<ID_OCTETS>(id)
        && is_canonical::<SECRET_OCTETS>(secret);
    well_formed.then(|| BootstrapClaim { tenant: tenant.to_owned(), id: id.to_owned(), secret_sha256: hash(token) })
}

/// One text per value: stray bits in the last character are refused like any other character outside of the alphabet.
fn is_canonical<const N: usize>(text: &str) -> bool {
    let mut octets = [0; N];
    Base32Unpadded::decode(text, &mut octets)
        .is_ok_and(|decoded| decoded.len() == N && Base32Unpadded::encode_string(decoded) == text)
}

fn hash(token: &str) -> String {
    hex(&sha256(token.as_bytes()))
}

/// `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`: tenant ids of the policy (PROTOCOL, Policy).
pub fn is_tenant_id(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A token fresh from the mint: the text is shown once and the claim's hash kept.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// `rpbt_<tenant>_<id>_<secret>`.
    pub token: String,
    /// What presenting it will claim.
    pub claim: BootstrapClaim,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// Makes a token for `tenant`, which must be a tenant id.
pub fn mint(tenant: &str, entropy: &impl Entropy) -> Result<NewToken, BackendError> {
    let (mut id, mut secret) = ([0; ID_OCTETS], [0; SECRET_OCTETS]);
    entropy.fill(&mut id)?;
    entropy.fill(&mut secret)?;
    let id = Base32Unpadded::encode_string(&id);
    let token = [PREFIX, tenant, "_", &id, "_", &Base32Unpadded::encode_string(&secret)].concat();
    let claim = BootstrapClaim { tenant: tenant.to_owned(), id, secret_sha256: hash(&token) };
    Ok(NewToken { token, claim })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Counting(Cell<u8>);

    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
            for octet in buffer {
                *octet = self.0.replace(self.0.get().wrapping_add(37));
            }
            Ok(())
        }
    }

    #[test]
    fn minted_tokens_parse_to_their_claim() {
        let new = mint("acme-1", &Counting(Cell::new(3))).unwrap();
        assert_eq!(parse(&new.token), Ok(new.claim.clone()));
        assert_eq!(new.token.len(), "rpbt_acme-1_".len() + 16 + 1 + 52);
        assert_eq!(new.claim.secret_sha256.len(), 64);
        let shown = format!("{new:?}");
        assert!(!shown.contains(&new.token), "{shown}");
    }

    #[test]
    fn b1_anything_else_is_refused_alike() {
        let id = "aaaaaaaaaaaaaaaa";
        let secret = "a".repeat(52);
        assert!(parse(&format!("rpbt_acme_{id}_{secret}")).is_ok());
        for bad in [
            String::new(),
            "rpbt_".to_owned(),
            "rpbt_acme".to_owned(),
            format!("rpbt_acme_{id}"),
            format!("rpbt_acme_{id}_"),
            format!("rpbt_acme_{id}_{secret}_"),
            format!("rpbt_acme_{id}_{secret}\n"),
            format!(" rpbt_acme_{id}_{secret}"),
            format!("RPBT_acme_{id}_{secret}"),
            format!("rpbt_Acme_{id}_{secret}"),
            format!("rpbt_-acme_{id}_{secret}"),
            format!("rpbt_acme-_{id}_{secret}"),
            format!("rpbt__{id}_{secret}"),
            format!("rpbt_{}_{id}_{secret}", "a".repeat(64)),
            format!("rpbt_acme_{id}a_{secret}"),
            format!("rpbt_acme_{}_{secret}", &id[1..]),
            format!("rpbt_acme_{id}_{}", secret.to_uppercase()),
            format!("rpbt_acme_{id}_{}1", &secret[1..]),
            format!("rpbt_acme_{id}_{}b", &secret[1..]),
            format!("rpbt_acme_{id}_{secret}===="),
            format!("rpbt_acmé_{id}_{secret}"),
        ] {
            assert_eq!(parse(&bad), Err(refused(Check::B1)), "{bad:?}");
        }
    }
}
