//! Evidence as it travels (PROTOCOL, Enroll and Renew).

use std::borrow::Cow;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::text_enum;
use crate::object::Object;

text_enum! {
    /// How a runner proves who it is.
    Mode {
        /// A secret minted per tenant.
        BootstrapToken = "bootstrap-token",
        /// A pre-signed `GetCallerIdentity` request.
        AwsSts = "aws-sts",
        /// A projected ServiceAccount token of GKE.
        GkeOidc = "gke-oidc",
        /// A projected ServiceAccount token of EKS.
        EksOidc = "eks-oidc",
        /// The certificate to be renewed; no configurable mode.
        MtlsRenewal = "mtls-renewal",
    }
}

/// The `attestation` object of a request. Fields of another mode are refused like unknown ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", try_from = "Object<RawAttestation<'a>>", bound(deserialize = "'de: 'a"))]
pub enum Attestation<'a> {
    /// See [`Mode::BootstrapToken`].
    #[serde(rename = "bootstrap-token")]
    BootstrapToken {
        /// `rpbt_<tenant>_<id>_<secret>`.
        token: Cow<'a, str>,
    },
    /// See [`Mode::AwsSts`].
    #[serde(rename = "aws-sts")]
    AwsSts(AwsStsEvidence<'a>),
    /// See [`Mode::GkeOidc`].
    #[serde(rename = "gke-oidc")]
    GkeOidc {
        /// Compact JWS.
        token: Cow<'a, str>,
    },
    /// See [`Mode::EksOidc`].
    #[serde(rename = "eks-oidc")]
    EksOidc {
        /// Compact JWS.
        token: Cow<'a, str>,
    },
    /// See [`Mode::MtlsRenewal`]. Without fields where the edge terminates mutual TLS.
    #[serde(rename = "mtls-renewal")]
    MtlsRenewal(MtlsRenewalEvidence<'a>),
}

/// Parts of a signed `GetCallerIdentity` request: never a URL, method, path or query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwsStsEvidence<'a> {
    /// AWS region whose STS endpoint was signed for.
    pub region: Cow<'a, str>,
    /// Header name → value, in the order sent; no two names equal (names equal but for case are told apart later).
    #[serde(serialize_with = "serialize_headers")]
    pub headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Request body.
    pub body: Cow<'a, str>,
}

/// Proof of possession of the key of a certificate (PROTOCOL, Renew). All fields or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MtlsRenewalEvidence<'a> {
    /// Certificate, fields of the signed text and signature, where the body carries them.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub proof: Option<RenewalProof<'a>>,
}

/// The body form of [`MtlsRenewalEvidence`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenewalProof<'a> {
    /// PEM of the leaf.
    pub certificate: Cow<'a, str>,
    /// Unix seconds.
    pub timestamp: i64,
    /// base64url of the signature over [`crate::renewal_text`].
    pub signature: Cow<'a, str>,
}

impl Attestation<'_> {
    /// The mode.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::BootstrapToken { .. } => Mode::BootstrapToken,
            Self::AwsSts(_) => Mode::AwsSts,
            Self::GkeOidc { .. } => Mode::GkeOidc,
            Self::EksOidc { .. } => Mode::EksOidc,
            Self::MtlsRenewal(_) => Mode::MtlsRenewal,
        }
    }
}

/// Every field of every mode, so that one pass over the text decides, borrowing from it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAttestation<'a> {
    mode: Mode,
    #[serde(borrow, default)]
    token: Option<Text<'a>>,
    #[serde(borrow, default)]
    region: Option<Text<'a>>,
    #[serde(borrow, default)]
    headers: Option<Headers<'a>>,
    #[serde(borrow, default)]
    body: Option<Text<'a>>,
    #[serde(borrow, default)]
    certificate: Option<Text<'a>>,
    #[serde(default)]
    timestamp: Option<i64>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
}

impl RawAttestation<'_> {
    /// The first field present that `mode` does not have.
    fn foreign_field(&self) -> Option<&'static str> {
        let token = matches!(self.mode, Mode::BootstrapToken | Mode::GkeOidc | Mode::EksOidc);
        let sts = self.mode == Mode::AwsSts;
        let renewal = self.mode == Mode::MtlsRenewal;
        [
            ("token", self.token.is_some(), token),
            ("region", self.region.is_some(), sts),
            ("headers", self.headers.is_some(), sts),
            ("body", self.body.is_some(), sts),
            ("certificate", self.certificate.is_some(), renewal),
            ("timestamp", self.timestamp.is_some(), renewal),
            ("signature", self.signature.is_some(), renewal),
        ]
        .into_iter()
        .find_map(|(name, present, allowed)| (present && !allowed).then_some(name))
    }
}

impl<'a> TryFrom<Object<RawAttestation<'a>>> for Attestation<'a> {
    type Error = ShapeError;

    fn try_from(Object(raw): Object<RawAttestation<'a>>) -> Result<Self, ShapeError> {
        if let Some(field) = raw.foreign_field() {
            return Err(ShapeError { mode: raw.mode, field, problem: "is not a field of" });
        }
        let missing = |field| ShapeError { mode: raw.mode, field, problem: "is required by" };
        Ok(match raw.mode {
            Mode::BootstrapToken => Self::BootstrapToken { token: raw.token.ok_or_else(|| missing("token"))?.0 },
            Mode::GkeOidc => Self::GkeOidc { token: raw.token.ok_or_else(|| missing("token"))?.0 },
            Mode::EksOidc => Self::EksOidc { token: raw.token.ok_or_else(|| missing("token"))?.0 },
            Mode::AwsSts => Self::AwsSts(AwsStsEvidence {
                region: raw.region.ok_or_else(|| missing("region"))?.0,
                headers: raw.headers.ok_or_else(|| missing("headers"))?.0,
                body: raw.body.ok_or_else(|| missing("body"))?.0,
            }),
            Mode::MtlsRenewal => {
                let proof = match (raw.certificate, raw.timestamp, raw.signature) {
                    (None, None, None) => None,
                    (Some(Text(certificate)), Some(timestamp), Some(Text(signature))) => {
                        Some(RenewalProof { certificate, timestamp, signature })
                    }
                    (None, ..) => return Err(missing("certificate")),
                    (_, None, _) => return Err(missing("timestamp")),
                    (.., None) => return Err(missing("signature")),
                };
                Self::MtlsRenewal(MtlsRenewalEvidence { proof })
            }
        })
    }
}

/// A field that does not belong to, or is missing from, the evidence of a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    mode: Mode,
    field: &'static str,
    problem: &'static str,
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`attestation.{}` {} mode {}", self.field, self.problem, self.mode)
    }
}

impl std::error::Error for ShapeError {}

/// JSON object of text values in the order sent, equal names refused.
struct Headers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Borrows where the JSON text has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeadersVisitor;
        impl<'de> Visitor<'de> for HeadersVisitor {
            type Value = Headers<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of header names and values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut headers: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::with_capacity(8);
                while let Some((Text(name), Text(value))) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    if headers.len() >= crate::limits::HEADERS {
                        return Err(de::Error::custom("more than 16 headers"));
                    }
                    if headers.iter().any(|(seen, _)| *seen == name) {
                        return Err(de::Error::custom("duplicate header name"));
                    }
                    headers.push((name, value));
                }
                Ok(Headers(headers))
            }
        }
        deserializer.deserialize_map(HeadersVisitor)
    }
}

fn serialize_headers<S: serde::Serializer>(
    headers: &[(Cow<'_, str>, Cow<'_, str>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Attestation<'_>, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_mode_round_trips_and_borrows() {
        for json in [
            r#"{"mode":"bootstrap-token","token":"rpbt_a_b_c"}"#,
            r#"{"mode":"aws-sts","region":"eu-west-1","headers":{"host":"h","Host":"i"},"body":"b"}"#,
            r#"{"mode":"gke-oidc","token":"a.b.c"}"#,
            r#"{"mode":"eks-oidc","token":"a.b.c"}"#,
            r#"{"mode":"mtls-renewal","certificate":"c","timestamp":1,"signature":"s"}"#,
            r#"{"mode":"mtls-renewal"}"#,
        ] {
            let attestation = read(json).unwrap();
            assert_eq!(serde_json::to_string(&attestation).unwrap(), json);
        }
        assert!(matches!(
            read(r#"{"mode":"gke-oidc","token":"a.b.c"}"#).unwrap(),
            Attestation::GkeOidc { token: Cow::Borrowed("a.b.c") }
        ));
    }

    #[test]
    fn shape_faults_are_refused_by_name() {
        for (json, message) in [
            (r#"{"token":"t"}"#, "missing field `mode`"),
            (r#"{"mode":"saml","token":"t"}"#, "unknown variant `saml`"),
            (r#"{"mode":"gke-oidc"}"#, "`attestation.token` is required by mode gke-oidc"),
            (r#"{"mode":"gke-oidc","token":null}"#, "`attestation.token` is required by mode gke-oidc"),
            (r#"{"mode":"gke-oidc","token":"t","region":"r"}"#, "`attestation.region` is not a field of mode gke-oidc"),
            (r#"{"mode":"gke-oidc","token":"t","url":"u"}"#, "unknown field `url`"),
            (r#"{"mode":"gke-oidc","mode":"gke-oidc","token":"t"}"#, "duplicate field `mode`"),
            (r#"{"mode":"gke-oidc","token":"t","token":"t"}"#, "duplicate field `token`"),
            (r#"{"mode":"aws-sts","region":"r","headers":{"host":"a","host":"b"},"body":""}"#, "duplicate header name"),
            (r#"{"mode":"aws-sts","region":"r","headers":{"host":["a"]},"body":""}"#, "invalid type: sequence"),
            (r#"{"mode":"mtls-renewal","certificate":"c","signature":"s"}"#, "`attestation.timestamp` is required"),
            (r#"{"mode":"mtls-renewal","certificate":"c","timestamp":1.5,"signature":"s"}"#, "invalid type"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(message), "{json}: {error}");
        }
    }

    #[test]
    fn seventeenth_header_is_refused() {
        let headers: Vec<String> = (0..17).map(|n| format!("\"h{n}\":\"v\"")).collect();
        let json = format!(r#"{{"mode":"aws-sts","region":"r","headers":{{{}}},"body":""}}"#, headers.join(","));
        assert!(read(&json).unwrap_err().contains("more than 16 headers"));
    }
}
