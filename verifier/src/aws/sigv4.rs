//! Grammar of a SigV4 `Authorization` header (CHECKS S5). Out of scope: the signature's value, which only STS can judge.
//!
//! One form is accepted, the one every AWS SDK writes. A twin of it with the same meaning to AWS is refused, so that evidence has one
//! Signature text and is remembered under it.

use thiserror::Error;

/// The only algorithm: neither SigV4A nor SigV2.
const ALGORITHM: &str = "AWS4-HMAC-SHA256 ";

/// Last part of every credential scope.
const TERMINATOR: &str = "aws4_request";

/// The parts of an `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization<'a> {
    /// `YYYYMMDD`, not yet looked at.
    pub day: &'a str,
    /// Region of the credential scope, not yet looked at.
    pub region: &'a str,
    /// Service of the credential scope, not yet looked at.
    pub service: &'a str,
    /// Lower-case names, ascending, no two equal.
    pub signed_headers: Vec<&'a str>,
    /// 64 lower-case hex digits.
    pub signature: &'a str,
}

/// Why a text is no such header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AuthorizationError {
    /// Another algorithm, or none.
    #[error("the algorithm must be AWS4-HMAC-SHA256")]
    Algorithm,
    /// Not these three, once each and in this order.
    #[error("it must be one Credential, SignedHeaders and Signature, in this order, separated by commas")]
    Parameters,
    /// Not `<access key>/<day>/<region>/<service>/aws4_request`.
    #[error("Credential must have the five parts <access key>/<day>/<region>/<service>/aws4_request")]
    Credential,
    /// Not a list of header names.
    #[error("SignedHeaders must be lower-case header names in ascending order, separated by semicolons")]
    SignedHeaders,
    /// Not 64 lower-case hex digits.
    #[error("Signature must be 64 lower-case hex digits")]
    Signature,
}

impl<'a> Authorization<'a> {
    /// From the value of the header.
    pub fn parse(value: &'a str) -> Result<Self, AuthorizationError> {
        let parameters = value.strip_prefix(ALGORITHM).ok_or(AuthorizationError::Algorithm)?;
        let mut parameters = parameters.split(',').map(|parameter| parameter.trim_start_matches(' '));
        let mut next = |name: &str| {
            parameters.next().and_then(|parameter| parameter.strip_prefix(name)).ok_or(AuthorizationError::Parameters)
        };
        let credential = next("Credential=")?;
        let signed_headers = next("SignedHeaders=")?;
        let signature = next("Signature=")?;
        if parameters.next().is_some() {
            return Err(AuthorizationError::Parameters);
        }
        let [day, region, service] = scope(credential).ok_or(AuthorizationError::Credential)?;
        Ok(Self {
            day,
            region,
            service,
            signed_headers: header_names(signed_headers).ok_or(AuthorizationError::SignedHeaders)?,
            signature: is_signature(signature).then_some(signature).ok_or(AuthorizationError::Signature)?,
        })
    }

    /// Whether the signature covers a header.
    pub fn signs(&self, name: &str) -> bool {
        self.signed_headers.contains(&name)
    }
}

/// Day, region and service of a credential of five parts.
fn scope(credential: &str) -> Option<[&str; 3]> {
    let mut parts = credential.split('/');
    let access_key = parts.next()?;
    let scope = [parts.next()?, parts.next()?, parts.next()?];
    let ends = parts.next()? == TERMINATOR && parts.next().is_none();
    let key = (1..=128).contains(&access_key.len())
        && access_key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (key && ends && scope.iter().all(|part| !part.is_empty())).then_some(scope)
}

fn header_names(list: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = list.split(';').collect();
    let name = |name: &&str| {
        !name.is_empty()
            && *name != "authorization"
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    (names.iter().all(name) && names.is_sorted_by(|a, b| a < b)).then_some(names)
}

fn is_signature(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIGNATURE: &str = "87f051da84f49dd0e13337492ee7fc9030f9aff66374d2ce17af4884a747119d";

    fn header(credential: &str, signed: &str, signature: &str) -> String {
        format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={signature}")
    }

    #[test]
    fn accepted_forms() {
        let usual = header("AKIDEXAMPLE/20260921/eu-west-1/sts/aws4_request", "host;x-amz-date", SIGNATURE);
        let expected = Authorization {
            day: "20260921",
            region: "eu-west-1",
            service: "sts",
            signed_headers: vec!["host", "x-amz-date"],
            signature: SIGNATURE,
        };
        assert_eq!(Authorization::parse(&usual), Ok(expected.clone()));
        assert_eq!(Authorization::parse(&usual.replace(", ", ",")), Ok(expected));
    }

    /// CHECKS S5.
    #[test]
    fn refused_forms() {
        use AuthorizationError as E;
        let credential = "AKIDEXAMPLE/20260921/eu-west-1/sts/aws4_request";
        let good = header(credential, "host;x-amz-date", SIGNATURE);
        let upper = SIGNATURE.to_uppercase();
        for (text, error) in [
            (String::new(), E::Algorithm),
            (good.to_lowercase(), E::Algorithm),
            (format!(" {good}"), E::Algorithm),
            (good.replace("AWS4-HMAC-SHA256 ", "AWS4-ECDSA-P256-SHA256 "), E::Algorithm),
            (good.replace("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256\t"), E::Algorithm),
            ("AWS AKIDEXAMPLE:c2lnbmF0dXJl".into(), E::Algorithm),
            ("AWS4-HMAC-SHA256 ".into(), E::Parameters),
            (format!("{good}, {good}"), E::Parameters),
            (format!("{good},"), E::Parameters),
            (format!("{good}, SignedHeaders=host"), E::Parameters),
            (good.replace(", Signature=", " Signature="), E::Parameters),
            (good.replace(", SignedHeaders", ", SignedHeaders=host, SignedHeaders"), E::Parameters),
            (good.replace("Credential=", "credential="), E::Parameters),
            (good.replace("Credential=", "Credential ="), E::Parameters),
            (good.replace(", ", ",\t"), E::Parameters),
            (header("AKIDEXAMPLE/20260921/eu-west-1/sts", "host", SIGNATURE), E::Credential),
            (header("/20260921/eu-west-1/sts/aws4_request", "host", SIGNATURE), E::Credential),
            (header("AK ID/20260921/eu-west-1/sts/aws4_request", "host", SIGNATURE), E::Credential),
            (header("AKID//eu-west-1/sts/aws4_request", "host", SIGNATURE), E::Credential),
            (header("AKID/20260921//sts/aws4_request", "host", SIGNATURE), E::Credential),
            (header("AKID/20260921/eu-west-1//aws4_request", "host", SIGNATURE), E::Credential),
            (header("AKID/20260921/eu-west-1/sts/aws3_request", "host", SIGNATURE), E::Credential),
            (header("AKID/20260921/eu-west-1/sts/aws4_request/x", "host", SIGNATURE), E::Credential),
            (header(&format!("{}/d/r/s/aws4_request", "A".repeat(129)), "host", SIGNATURE), E::Credential),
            (header(credential, "", SIGNATURE), E::SignedHeaders),
            (header(credential, "Host", SIGNATURE), E::SignedHeaders),
            (header(credential, "host;", SIGNATURE), E::SignedHeaders),
            (header(credential, "host;host", SIGNATURE), E::SignedHeaders),
            (header(credential, "x-amz-date;host", SIGNATURE), E::SignedHeaders),
            (header(credential, "host x-amz-date", SIGNATURE), E::SignedHeaders),
            (header(credential, "authorization;host", SIGNATURE), E::SignedHeaders),
            (header(credential, "hoſt", SIGNATURE), E::SignedHeaders),
            (header(credential, "host", ""), E::Signature),
            (header(credential, "host", "00"), E::Signature),
            (header(credential, "host", &upper), E::Signature),
            (header(credential, "host", &format!("{SIGNATURE}0")), E::Signature),
            (header(credential, "host", &format!("{SIGNATURE} ")), E::Signature),
            (header(credential, "host", &"g".repeat(64)), E::Signature),
            (header(credential, "host", &"１".repeat(64)), E::Signature),
        ] {
            assert_eq!(Authorization::parse(&text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_mebibyte_is_refused() {
        assert!(Authorization::parse(&"A".repeat(1 << 20)).is_err());
        assert!(Authorization::parse(&header(&"/".repeat(1 << 20), &";".repeat(1 << 20), SIGNATURE)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_decided(text in "(AWS4-HMAC-SHA256 )?(Credential=|SignedHeaders=|Signature=|[,/; a-z0-9]|\\PC){0,40}") {
            let _ = Authorization::parse(&text);
        }

        /// What is accepted says the same when it is written again.
        #[test]
        fn accepted_text_reads_back(
            key in "[A-Za-z0-9_]{1,128}", day in "[!-.0-~&&[^,]]{1,8}", region in "[a-z0-9-]{1,12}",
            names in proptest::collection::btree_set("[a-z][a-z0-9-]{0,8}", 1..6), signature in "[0-9a-f]{64}",
        ) {
            let signed = names.iter().cloned().collect::<Vec<_>>().join(";");
            let text = header(&format!("{key}/{day}/{region}/sts/aws4_request"), &signed, &signature);
            let parsed = Authorization::parse(&text).unwrap();
            prop_assert_eq!((parsed.day, parsed.region, parsed.service), (day.as_str(), region.as_str(), "sts"));
            prop_assert_eq!(parsed.signed_headers.join(";"), signed);
            prop_assert_eq!(parsed.signature, signature);
        }
    }
}
