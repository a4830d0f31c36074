//! Error codes, reasons and the problem document (PROTOCOL, Errors; RFC 9457).

use serde::{Deserialize, Serialize};

/// Media type of [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the documents.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::UnknownText;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = |value: &&Self| value.as_str() == text;
                Self::ALL.iter().find(named).copied().ok_or($crate::error::UnknownText)
            }
        }

        // By hand, since there are many of these: what serde derives has code for each value, and also takes an object of the text and null.
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextVisitor;
                impl serde::de::Visitor<'_> for TextVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a text of ", stringify!($name)))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(|_| E::unknown_variant(text, &[$($text),+]))
                    }
                }
                deserializer.deserialize_str(TextVisitor)
            }
        }
    };
}
pub(crate) use text_enum;

/// The text names no value of the enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownText;

impl std::fmt::Display for UnknownText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a value of the protocol")
    }
}

impl std::error::Error for UnknownText {}

text_enum! {
    /// What kind of failure a call ended in.
    Code {
        /// Not the documented form.
        MalformedRequest = "malformed_request",
        /// The certificate signing request is refused.
        CsrInvalid = "csr_invalid",
        /// The evidence does not prove an identity; the reason names the check.
        AttestationInvalid = "attestation_invalid",
        /// An identity was proven, but no rule of the policy maps it to a tenant.
        IdentityNotMapped = "identity_not_mapped",
        /// The runner or the instance behind it is banned.
        RunnerBanned = "runner_banned",
        /// Renewal is over: attest fully again.
        MustReattest = "must_reattest",
        /// The presented certificate was replaced and the replacement used.
        CertificateSuperseded = "certificate_superseded",
        /// The instance already has an active runner under another key.
        IdentityInUse = "identity_in_use",
        /// No or an unknown bearer token on an admin or service route.
        Unauthorized = "unauthorized",
        /// The bearer's role or the policy does not allow it.
        Forbidden = "forbidden",
        /// No such route, token, runner or tenant.
        NotFound = "not_found",
        /// The route exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// `If-Match` names another version.
        EtagMismatch = "etag_mismatch",
        /// The body is larger than 64 KiB.
        PayloadTooLarge = "payload_too_large",
        /// The body is not `application/json`.
        UnsupportedMediaType = "unsupported_media_type",
        /// The policy has problems; `errors` lists all of them.
        PolicyInvalid = "policy_invalid",
        /// A policy exists: `If-Match` is needed.
        EtagRequired = "etag_required",
        /// Too many calls or refused attestations from this address.
        RateLimited = "rate_limited",
        /// STS or the JWKS host is down or slow.
        UpstreamUnavailable = "upstream_unavailable",
        /// STS throttles.
        UpstreamThrottled = "upstream_throttled",
        /// The verifier has no secrets or no policy yet.
        NotConfigured = "not_configured",
        /// A fault of the verifier.
        Internal = "internal",
    }
}

impl Code {
    /// HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::MalformedRequest | Self::CsrInvalid => 400,
            Self::AttestationInvalid | Self::Unauthorized => 401,
            Self::IdentityNotMapped
            | Self::RunnerBanned
            | Self::MustReattest
            | Self::CertificateSuperseded
            | Self::IdentityInUse
            | Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::EtagMismatch => 412,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::PolicyInvalid => 422,
            Self::EtagRequired => 428,
            Self::RateLimited => 429,
            Self::Internal => 500,
            Self::UpstreamUnavailable | Self::UpstreamThrottled | Self::NotConfigured => 503,
        }
    }

    /// Whether the same call may succeed later without a change by its sender.
    pub const fn retryable(self) -> bool {
        matches!(self.status(), 429 | 503)
    }

    /// Short human title, the same for every problem of this code.
    pub const fn title(self) -> &'static str {
        match self {
            Self::MalformedRequest => "The request does not have the documented form",
            Self::CsrInvalid => "The certificate signing request is refused",
            Self::AttestationInvalid => "The evidence does not prove an identity",
            Self::IdentityNotMapped => "The identity is proven but belongs to no tenant",
            Self::RunnerBanned => "This runner is banned",
            Self::MustReattest => "The runner must attest again",
            Self::CertificateSuperseded => "The certificate has been replaced",
            Self::IdentityInUse => "Another key is active for this instance",
            Self::Unauthorized => "A valid bearer token is required",
            Self::Forbidden => "Not allowed",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::EtagMismatch => "The document has changed",
            Self::PayloadTooLarge => "The request body is too large",
            Self::UnsupportedMediaType => "The request body must be application/json",
            Self::PolicyInvalid => "The policy is not valid",
            Self::EtagRequired => "If-Match is required",
            Self::RateLimited => "Too many requests",
            Self::UpstreamUnavailable => "A service the verifier depends on is not available",
            Self::UpstreamThrottled => "A service the verifier depends on is throttling",
            Self::NotConfigured => "The verifier is not configured yet",
            Self::Internal => "Internal error",
        }
    }
}

text_enum! {
    /// Which check refused the evidence (PROTOCOL, Errors: Reasons).
    Reason {
        /// CHECKS S1.
        BodyNotAllowed = "body_not_allowed",
        /// CHECKS S2.
        RegionNotAllowed = "region_not_allowed",
        /// CHECKS S3.
        HostNotAllowed = "host_not_allowed",
        /// CHECKS S4.
        HeaderNotAllowed = "header_not_allowed",
        /// CHECKS S4, names equal but for case.
        DuplicateHeader = "duplicate_header",
        /// CHECKS S5, S6: grammar of `Authorization`.
        AuthorizationInvalid = "authorization_invalid",
        /// CHECKS S6: service or day.
        ScopeInvalid = "scope_invalid",
        /// CHECKS S6: region.
        RegionMismatch = "region_mismatch",
        /// CHECKS S7.
        HeaderNotSigned = "header_not_signed",
        /// CHECKS S8.
        BindingMismatch = "binding_mismatch",
        /// CHECKS S9.
        DateOutOfRange = "date_out_of_range",
        /// CHECKS S10, S14.
        StsRefused = "sts_refused",
        /// CHECKS S11.
        StsResponseInvalid = "sts_response_invalid",
        /// CHECKS S12.
        ArnUnsupported = "arn_unsupported",
        /// CHECKS K1.
        TokenMalformed = "token_malformed",
        /// CHECKS K2.
        AlgNotAllowed = "alg_not_allowed",
        /// CHECKS K3.
        IssuerUnknown = "issuer_unknown",
        /// CHECKS K4: no such key.
        KeyUnknown = "key_unknown",
        /// CHECKS K4: signature.
        SignatureInvalid = "signature_invalid",
        /// CHECKS K5: `aud`.
        AudienceMismatch = "audience_mismatch",
        /// CHECKS K5: `exp`.
        TokenExpired = "token_expired",
        /// CHECKS K5: `nbf`, `iat`.
        TokenNotYetValid = "token_not_yet_valid",
        /// CHECKS K5: `exp` − `iat`.
        TokenLifetime = "token_lifetime",
        /// CHECKS K5, K6: a claim is missing or has the wrong type or value.
        ClaimsInvalid = "claims_invalid",
        /// CHECKS K7.
        TokenReused = "token_reused",
        /// CHECKS B: one answer for every cause.
        BootstrapTokenRefused = "bootstrap_token_refused",
        /// CHECKS I4: the presented certificate.
        CertificateInvalid = "certificate_invalid",
        /// CHECKS I4: the proof of possession.
        ProofInvalid = "proof_invalid",
    }
}

/// Problem document of every failed call (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// URI reference of the code's description.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// [`Code::title`].
    pub title: String,
    /// HTTP status, repeated.
    pub status: u16,
    /// What kind of failure.
    pub code: Code,
    /// Which check refused, for `attestation_invalid` and others that have one.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// What was wrong with this very call, for a person.
    pub detail: String,
    /// The `x-request-id` of the answer.
    pub request_id: String,
    /// [`Code::retryable`].
    pub retryable: bool,
    /// The verifier's clock, RFC 3339.
    pub server_time: String,
    /// Error code of STS, matching `[A-Za-z.]{1,64}`; never its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_error_code: Option<String>,
    /// Every problem of a refused policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<crate::admin::PolicyProblem>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_codes_are_those_of_the_contract() {
        let retryable: Vec<&str> = Code::ALL.iter().filter(|code| code.retryable()).map(|code| code.as_str()).collect();
        assert_eq!(retryable, ["rate_limited", "upstream_unavailable", "upstream_throttled", "not_configured"]);
    }

    #[test]
    fn texts_round_trip() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
        }
        assert_eq!("nonsense".parse::<Code>(), Err(UnknownText));
        for bad in [r#""nonsense""#, r#"{"token_reused":null}"#, "[\"token_reused\"]", "0", "null"] {
            assert!(serde_json::from_str::<Reason>(bad).is_err(), "{bad}");
        }
    }
}
