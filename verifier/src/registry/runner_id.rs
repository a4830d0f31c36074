//! The runner id: derived from the first key, so that it never changes and needs no counter (PROTOCOL, Enroll).

use base32ct::{Base32Unpadded, Encoding as _};

use super::{Fault, StoreError};
use crate::encoding::{from_hex, sha256};
use crate::evidence::Principal;

/// Characters of a runner id.
pub const LENGTH: usize = 26;

/// First 26 characters of lower-case base32 of
/// SHA-256(`rootpilot-runner-v1` ‖ 0 ‖ tenant ‖ 0 ‖ mode ‖ 0 ‖ canonical identity ‖ 0 ‖ SPKI hash, 32 raw octets).
pub fn derive(tenant: &str, principal: &Principal, spki_sha256: &str) -> Result<String, Fault> {
    let spki = from_hex(spki_sha256)
        .filter(|octets| octets.len() == 32)
        .ok_or_else(|| StoreError::Corrupt("SPKI hash of a command is not 64 hex digits".to_owned()))?;
    let identity = principal.identity();
    let mode = principal.mode().as_str();
    let mut input = Vec::with_capacity(256);
    for part in ["rootpilot-runner-v1", tenant, mode, &identity] {
        input.extend_from_slice(part.as_bytes());
        input.push(0);
    }
    input.extend_from_slice(&spki);
    let mut id = Base32Unpadded::encode_string(&sha256(&input));
    id.truncate(LENGTH);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_the_protocol_says() {
        let principal = Principal::Bootstrap { token_id: "aaaaaaaaaaaaaaaa".to_owned() };
        let id = derive("acme", &principal, &"00".repeat(32)).unwrap();
        // printf 'rootpilot-runner-v1\0acme\0bootstrap-token\0bootstrap-token:aaaaaaaaaaaaaaaa\0' | cat - <(head -c 32 /dev/zero) \
        //   | openssl dgst -sha256 -binary | base32 | tr A-Z a-z | cut -c1-26
        assert_eq!(id, "cuy3vz6l5tf3bl6ybbp4i3afnw");
        assert!(derive("acme", &principal, "00").is_err());
    }
}
