//! The checks of CHECKS.md by number, so that code, trace and tests name the same thing.

use protocol::Mode;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! checks {
    ($($(#[$meta:meta])* $id:ident = $name:literal,)+) => {
        /// A check of CHECKS.md, or (M) one of ours that stands between them. Those of [`Check::of_mode`] show in traces.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $(#[doc = $name] $id,)+ }

        impl Check {
            /// Every check, in the order of CHECKS.md.
            pub const ALL: &'static [Self] = &[$(Self::$id,)+];

            /// Number in CHECKS.md, such as `S7`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$id => stringify!($id),)+ }
            }

            /// Name for people.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }
        }
    };
}

checks! {
    S1 = "request body",
    S2 = "region allowlist",
    S3 = "host allowlist",
    S4 = "header allowlist",
    S5 = "authorization grammar",
    S6 = "credential scope",
    S7 = "signed headers",
    S8 = "binding to audience and key",
    S9 = "request date",
    S10 = "call to STS",
    S11 = "answer of STS",
    S12 = "ARN grammar",
    S13 = "identity",
    S14 = "failures of STS",
    K1 = "token form",
    K2 = "algorithm and header",
    K3 = "issuer",
    K4 = "key and signature",
    K5 = "audience and times",
    K6 = "service account",
    K7 = "replay",
    K8 = "key sets and their cache",
    K9 = "unknown keys and issuers",
    B1 = "token form and tenant",
    B2 = "tenant of the token's record",
    B3 = "token state",
    B4 = "everything else before the token",
    B5 = "one message",
    I1 = "certificate signing request",
    I2 = "certificate profile",
    I3 = "allotment before signing",
    I4 = "renewal",
    I5 = "re-attestation",
    I6 = "ban and eviction",
    I7 = "revocation list",
    I8 = "mutual TLS at the edge",
    A1 = "bearers and rate limits",
    A2 = "no panic",
    A3 = "logs",
    A4 = "verify first, empty expectations refuse",
    M1 = "mapping to a tenant",
    M2 = "ban and state",
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::ALL.iter().copied().find(|check| check.id() == id).ok_or_else(|| de::Error::custom("no check"))
    }
}

impl Check {
    /// The checks an appraisal of `mode` goes through, in order.
    pub const fn of_mode(mode: Mode) -> &'static [Self] {
        match mode {
            Mode::AwsSts => &[
                Self::S1,
                Self::S2,
                Self::S3,
                Self::S4,
                Self::S5,
                Self::S6,
                Self::S7,
                Self::S8,
                Self::S9,
                Self::S10,
                Self::S11,
                Self::S12,
                Self::S13,
                Self::M1,
                Self::K7,
                Self::M2,
            ],
            Mode::GkeOidc | Mode::EksOidc => {
                &[Self::K1, Self::K2, Self::K3, Self::K4, Self::K5, Self::K6, Self::M1, Self::K7, Self::M2]
            }
            Mode::BootstrapToken => &[Self::B1, Self::B3, Self::M2],
            Mode::MtlsRenewal => &[],
        }
    }
}
