//! The identity that an enrolment or renewal gave: certificate, trust bundle, and the times that rule its life.

mod chain;

use std::time::Duration;

use der::{DecodePem as _, Encode as _};
use jiff::Timestamp;
use protocol::{EnrollResponse, Mode};
use serde::{Deserialize, Serialize};
use x509_cert::Certificate;

use crate::clock::Moment;
use crate::control_plane::Answer;
use crate::key::{Key, sha256_b64};

/// Version of the stored form.
pub const VERSION: u32 = 1;

/// Everything about the present certificate; the content of `identity.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`VERSION`].
    pub version: u32,
    /// Who issued it.
    pub control_plane_url: String,
    /// Mode of the attestation behind it.
    pub mode: Mode,
    /// Runner id.
    pub runner_id: String,
    /// Tenant.
    pub tenant: String,
    /// SPIFFE id.
    pub spiffe_id: String,
    /// Serial number, 32 lower-case hex digits.
    pub serial: String,
    /// Start of the certificate.
    pub not_before: Timestamp,
    /// End of the certificate.
    pub not_after: Timestamp,
    /// When to renew, by the control plane's clock.
    pub renew_after: Timestamp,
    /// When a full attestation is due, or null.
    pub reattest_before: Option<Timestamp>,
    /// The control plane's clock when it answered.
    pub server_time: Timestamp,
    /// This machine's clock when the answer arrived.
    pub received_at: Timestamp,
    /// base64url SHA-256 of the SubjectPublicKeyInfo.
    pub key_sha256: String,
    /// Leaf and intermediates, PEM.
    pub certificate: String,
    /// Roots, PEM.
    pub trust_bundle: String,
}

/// Why an answer cannot become an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A time is not RFC 3339.
    #[error("`{0}` is not a time")]
    Time(&'static str),
    /// The certificate cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Certificate(der::Error),
    /// The certificate is for another key.
    #[error("the certificate is for another key than the one that was sent")]
    AnotherKey,
    /// The certificate ends before it begins to serve.
    #[error("the certificate has already ended by the control plane's own clock")]
    Ended,
    /// The certificate itself ends before the time that the answer states.
    #[error("the certificate ends at {0}, before the time that the answer states")]
    EndsEarlier(Timestamp),
    /// A server that trusts the roots that came with it would not take it.
    #[error("the certificate does not lead to the trust bundle that came with it: {0}")]
    Chain(String),
    /// A name that could not be shown or handed on as it is.
    #[error("`{0}` is not visible ASCII")]
    Name(&'static str),
}

impl Identity {
    /// Checks an answer against the key that was sent.
    pub fn from_answer(answer: &Answer, key: &Key, control_plane_url: &str, mode: Mode) -> Result<Self, IdentityError> {
        let EnrollResponse { runner_id, tenant, spiffe_id, certificate, trust_bundle, .. } = answer.response.clone();
        let response = &answer.response;
        let time = |name: &'static str, text: &str| text.parse::<Timestamp>().map_err(|_| IdentityError::Time(name));
        let leaf = Leaf::from_pem(&certificate).map_err(IdentityError::Certificate)?;
        if leaf.key_sha256 != key.spki_sha256() {
            return Err(IdentityError::AnotherKey);
        }
        for (name, text) in [("runner_id", &runner_id), ("tenant", &tenant), ("spiffe_id", &spiffe_id)] {
            if !text.bytes().all(|octet| octet.is_ascii_graphic()) {
                return Err(IdentityError::Name(name));
            }
        }
        let identity = Self {
            version: VERSION,
            control_plane_url: control_plane_url.to_owned(),
            mode,
            runner_id,
            tenant,
            spiffe_id,
            serial: leaf.serial,
            not_before: time("not_before", &response.not_before)?,
            not_after: time("not_after", &response.not_after)?,
            renew_after: time("renew_after", &response.renew_after)?,
            reattest_before: response
                .reattest_before
                .as_deref()
                .map(|text| time("reattest_before", text))
                .transpose()?,
            server_time: time("server_time", &response.server_time)?,
            received_at: answer.received.wall,
            key_sha256: leaf.key_sha256,
            certificate,
            trust_bundle,
        };
        if identity.not_after <= identity.server_time {
            return Err(IdentityError::Ended);
        }
        if leaf.not_after < identity.not_after.as_second() {
            return Err(IdentityError::EndsEarlier(Timestamp::from_second(leaf.not_after).unwrap_or_default()));
        }
        chain::verify(&identity.certificate, &identity.trust_bundle, identity.server_time)
            .map_err(|error| IdentityError::Chain(error.to_string()))?;
        Ok(identity)
    }

    /// From the answer to the end of the certificate, by the control plane's clock.
    pub fn lifetime(&self) -> Duration {
        after(self.not_after, self.server_time)
    }

    /// From the answer to the time to renew, by the control plane's clock.
    pub fn renewal_delay(&self) -> Duration {
        after(self.renew_after, self.server_time).min(self.lifetime())
    }

    /// PROTOCOL, Enroll: a renewal could not reach beyond this certificate, so a full attestation takes its place.
    pub fn must_attest_instead_of_renewing(&self) -> bool {
        self.reattest_before.is_some_and(|due| due <= self.not_after)
    }

    /// Age at a wall-clock time; `None` when the clock says that it arrives in the future.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(now.duration_since(self.received_at)).ok()
    }

    /// Time left at a wall-clock time, zero when it has ended. A clock before the arrival is taken for the arrival.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        self.lifetime().saturating_sub(self.age(now).unwrap_or_default())
    }

    /// Whether the certificate lives at a wall-clock time.
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.time_left(now).is_zero()
    }

    /// This machine's clock against the control plane's when the answer arrived: positive when it was fast.
    pub fn clock_skew(&self) -> jiff::SignedDuration {
        self.received_at.duration_since(self.server_time)
    }

    /// The leaf alone, PEM and DER.
    pub fn leaf(&self) -> Result<Leaf, IdentityError> {
        Leaf::from_pem(&self.certificate).map_err(IdentityError::Certificate)
    }

    /// The control plane's time now, as far as this machine can tell from the last answer.
    pub fn server_time_at(&self, received: &Moment, now: &Moment) -> Timestamp {
        self.server_time
            .checked_add(jiff::SignedDuration::try_from(now.since(received)).unwrap_or_default())
            .unwrap_or(now.wall)
    }
}

fn after(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// 32 lower-case digits at least, as the control plane writes serials.
fn hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    let text: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    format!("{text:0>32}")
}

/// The first certificate of a chain.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// PEM of the leaf alone.
    pub pem: String,
    /// DER.
    pub der: Vec<u8>,
    /// Serial number, hex.
    pub serial: String,
    /// base64url SHA-256 of its SubjectPublicKeyInfo.
    pub key_sha256: String,
    /// Its end, Unix seconds.
    pub not_after: i64,
}

impl Leaf {
    /// Reads the first certificate of a PEM chain.
    pub fn from_pem(chain: &str) -> Result<Self, der::Error> {
        const END: &str = "-----END CERTIFICATE-----";
        let chain = chain.trim_start();
        let end = chain.find(END).map_or(chain.len(), |at| at + END.len());
        let pem = format!("{}\n", chain.get(..end).unwrap_or(chain));
        let certificate = Certificate::from_pem(pem.as_bytes())?;
        let tbs = certificate.tbs_certificate();
        let serial = tbs.serial_number().as_bytes();
        let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
        Ok(Self {
            der: certificate.to_der()?,
            serial: hex(serial),
            key_sha256: sha256_b64(&tbs.subject_public_key_info().to_der()?),
            not_after: tbs.validity().not_after.to_unix_duration().as_secs().cast_signed(),
            pem,
        })
    }
}
