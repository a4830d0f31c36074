//! JSON Web Signatures and key sets, as far as ServiceAccount tokens need them (RFC 7515, 7517, 7518, 8725).
//!
//! Out of scope: encryption, symmetric keys, key discovery, and every way in which a token could name its own key.

mod json;
pub mod jwk;
pub mod jwks_cache;
pub mod jwks_fetch;
pub mod jws;

pub(crate) use json::{Claim, FromJson, Value, members};
pub use jwk::{Jwk, JwkSet, JwkSetError};
pub use jwks_cache::{JwksCache, KeySetRef, NoKeys, Origin};
pub use jwks_fetch::{KeySources, key_set, refresh};
pub use jws::{Jws, JwsError};
