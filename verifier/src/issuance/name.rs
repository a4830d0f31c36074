//! Distinguished names as people read them (RFC 4514).
//!
//! By hand, since `Name`'s own `Display` brings a table of every object identifier there is into the worker.

use der::asn1::ObjectIdentifier;
use der::oid::db::rfc4519;
use der::{Encode as _, Tag, Tagged as _};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::name::Name;

use crate::encoding::{hex, shown};

/// The attribute types with a short name in RFC 4514 section 3.
const SHORT: [(ObjectIdentifier, &str); 9] = [
    (rfc4519::COMMON_NAME, "CN"),
    (rfc4519::ORGANIZATION_NAME, "O"),
    (rfc4519::ORGANIZATIONAL_UNIT_NAME, "OU"),
    (rfc4519::COUNTRY_NAME, "C"),
    (rfc4519::LOCALITY_NAME, "L"),
    (rfc4519::ST, "ST"),
    (rfc4519::STREET, "STREET"),
    (rfc4519::DOMAIN_COMPONENT, "DC"),
    (rfc4519::UID, "UID"),
];

/// Most specific part first, safe to print.
pub(super) fn readable(name: &Name) -> String {
    let mut parts: Vec<String> =
        name.iter_rdn().map(|rdn| rdn.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.reverse();
    shown(&parts.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let short = SHORT.iter().find(|(oid, _)| *oid == attribute.oid).map(|(_, short)| *short);
    match (short, text(attribute)) {
        (Some(short), Some(text)) => [short, "=", &escaped(text)].concat(),
        (short, _) => {
            let oid = short.map_or_else(|| attribute.oid.to_string(), str::to_owned);
            // The whole value's DER, as RFC 4514 section 2.4 has it; what was read can be written.
            [&oid, "=#", &hex(&attribute.value.to_der().unwrap_or_default())].concat()
        }
    }
}

fn text(attribute: &AttributeTypeAndValue) -> Option<&str> {
    let is_text = matches!(attribute.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    is_text.then(|| std::str::from_utf8(attribute.value.value()).ok()).flatten()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let (first, last) = (at == 0, at.saturating_add(1) == text.len());
        let special = match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            '#' => first,
            ' ' => first || last,
            _ => false,
        };
        if special {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_x509_cert_writes_them() {
        for text in [
            "CN=RootPilot Edge Issuing CA 01234567,O=Example\\, Inc.",
            "CN=a+OU=b,DC=example,DC=com,C=DE",
            "CN=\\#x \\\"y\\\" \\<z\\>,O=\\ a\\ ,ST=é,STREET=s,L=l,UID=u",
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(readable(&name), shown(&name.to_string()), "{text}");
        }
    }

    #[test]
    fn unknown_attributes_are_numbers() {
        let name: Name = "2.5.4.5=#130178,CN=a".parse().unwrap();
        assert_eq!(readable(&name), "2.5.4.5=#130178,CN=a");
    }
}
