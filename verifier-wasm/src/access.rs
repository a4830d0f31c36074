//! Bearer tokens of the admin and service roles, by SHA-256 in constant time (CHECKS A1).

use protocol::Code;
use subtle::{Choice, ConstantTimeEq as _};
use verifier::Denial;
use verifier::encoding::{hex, sha256};

use crate::config::Secrets;
use crate::request::Request;

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Operators: `/v1/admin/…`.
    Admin,
    /// Other control planes: `/v1/verify`.
    Service,
}

/// A caller whose token is known. Made by [`authorize`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// First 8 hex digits of the token's SHA-256, for audit and log.
    pub fn id(&self) -> &str {
        &self.0
    }
}

/// Holds the bearer of `request` against the hashes of `role`: none or unknown 401, the other role's 403.
pub fn authorize(request: &Request, secrets: &Secrets, role: Role) -> Result<Actor, Denial> {
    let header = request.header("authorization");
    let Some(token) = header.as_deref().and_then(bearer) else {
        return Err(Denial::new(Code::Unauthorized, "this route needs `Authorization: Bearer <token>`"));
    };
    let digest = sha256(token.as_bytes());
    let admin = matches(&digest, &secrets.admin_tokens);
    let service = matches(&digest, &secrets.service_tokens);
    let (wanted, other) = match role {
        Role::Admin => (admin, service),
        Role::Service => (service, admin),
    };
    if wanted {
        Ok(Actor(hex(&digest).chars().take(8).collect()))
    } else if other {
        Err(Denial::new(
            Code::Forbidden,
            "this token is of the other role: admin and service tokens are not interchangeable",
        ))
    } else {
        Err(Denial::new(Code::Unauthorized, "the bearer token is not known"))
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.trim())
}

fn matches(digest: &[u8; 32], hashes: &[[u8; 32]]) -> bool {
    hashes.iter().fold(Choice::from(0), |found, hash| found | hash.ct_eq(digest)).into()
}
