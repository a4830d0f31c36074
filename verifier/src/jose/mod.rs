//! JSON Web Signatures and key sets, as far as ServiceAccount tokens need them (RFC 7515, 7517, 7518, 8725).
//!
//! Out of scope: encryption, symmetric keys, key discovery, and every way in which a token could name its own key.

pub mod jwk;

pub use jwk::{Jwk, JwkSet, JwkSetError};
