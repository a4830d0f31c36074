//! PEM as people and JSON carry it, in terms of RFC 7468 and nothing looser.

use der::pem::{Decoder, LineEnding, encode_string};

/// The DER of exactly one PEM block with this label, from its first octet to the end of the text (white space may follow). Lines may have
/// any one width and end in LF or CRLF.
pub(crate) fn decode_one(label: &str, text: &str) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    if !text.starts_with("-----BEGIN ") {
        return None;
    }
    let mut decoder = Decoder::new_detect_wrap(text.as_bytes()).ok()?;
    if decoder.type_label() != label {
        return None;
    }
    let mut der = Vec::new();
    decoder.decode_to_end(&mut der).ok()?;
    Some(der)
}

/// Every `CERTIFICATE` block of an operator's file, in order. Text between blocks is passed over, as OpenSSL and RFC 7468 section 2 do;
/// a block of another kind or a broken one is `None`.
pub(crate) fn certificates(text: &str) -> Option<Vec<Vec<u8>>> {
    const END: &str = "-----END CERTIFICATE-----";
    let mut ders = Vec::new();
    let mut rest = text;
    while let Some((_, from_label)) = rest.split_once("-----BEGIN ") {
        let (block, after) = from_label.split_once(END)?;
        let whole = ["-----BEGIN ", block, END].concat();
        ders.push(decode_one("CERTIFICATE", &whole)?);
        rest = after;
    }
    Some(ders)
}

/// One PEM block.
pub(crate) fn encode(label: &str, der: &[u8]) -> Option<String> {
    encode_string(label, LineEnding::LF, der).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_and_nothing_else() {
        let pem = encode("CERTIFICATE", &[7; 100]).unwrap();
        let both = [pem.as_str(), pem.as_str()].concat();
        assert_eq!(decode_one("CERTIFICATE", &pem), Some(vec![7; 100]));
        assert_eq!(decode_one("CERTIFICATE", &pem.replace('\n', "\r\n")), Some(vec![7; 100]));
        for bad in [
            both.clone(),
            [" ", &pem].concat(),
            [&pem, "x"].concat(),
            pem.replace("CERTIFICATE", "X509 CRL"),
            pem.replace("-----END", "-----ENT"),
            pem.replace("Bwc", "Bw_"),
            pem.replace('\n', "\\n"),
            pem.replace('\n', ""),
            String::new(),
        ] {
            assert_eq!(decode_one("CERTIFICATE", &bad), None, "{bad}");
        }
        let spaced = ["subject=CN\n", &pem, "\n\n", &pem, "end"].concat();
        assert_eq!(certificates(&spaced).map(|ders| ders.len()), Some(2));
        assert_eq!(certificates(""), Some(Vec::new()));
        assert_eq!(certificates(&[&pem, "-----BEGIN PRIVATE KEY-----\n"].concat()), None);
    }
}
