//! The few encodings every room needs: base64url, SHA-256, hex.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest as _, Sha256};

/// base64url, no padding made or taken, trailing bits must be zero (RFC 4648 section 3.5).
const B64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(false),
);

/// base64url without padding.
pub fn b64url(bytes: &[u8]) -> String {
    B64URL.encode(bytes)
}

/// Strict inverse of [`b64url`]: no padding, white space or stray bits.
pub fn from_b64url(text: &str) -> Option<Vec<u8>> {
    B64URL.decode(text).ok()
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Octets of an even number of hex digits of either case.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    base16ct::mixed::decode_vec(text).ok()
}

/// Attacker text for logs and details: control characters escaped, cut at 512 characters (CHECKS A3).
pub fn shown(text: &str) -> String {
    text.chars().take(512).flat_map(char::escape_debug).take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_canonical() {
        assert_eq!(from_b64url("_-8"), Some(vec![0xff, 0xef]));
        for bad in ["_-8=", "_-9", "/+8", "_-8\n", " _-8", "_"] {
            assert_eq!(from_b64url(bad), None, "{bad}");
        }
    }

    #[test]
    fn hex_round_trips() {
        assert_eq!(from_hex(&hex(&[0, 0x7f, 0xff])), Some(vec![0, 0x7f, 0xff]));
        for bad in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn hostile_text_is_escaped_and_cut() {
        assert_eq!(shown("a\n\u{1b}[31m\""), "a\\n\\u{1b}[31m\\\"");
        assert_eq!(shown(&"é\u{7}".repeat(1000)).chars().count(), 512);
    }
}
