//! Points in time as whole Unix seconds, and the two text forms the protocol knows.

use std::time::Duration;

use der::DateTime;
use serde::{Deserialize, Serialize};

/// Whole seconds since 1970-01-01T00:00:00Z. Read once per request at the door; never before 1970 nor after 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(i64);

impl UnixTime {
    /// 9999-12-31T23:59:59Z, the last time that X.509 and RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799);

    /// From Unix seconds, clamped to 1970 … 9999.
    pub const fn from_secs(secs: i64) -> Self {
        if secs < 0 {
            Self(0)
        } else if secs > Self::MAX.0 {
            Self::MAX
        } else {
            Self(secs)
        }
    }

    /// Unix seconds.
    pub const fn secs(self) -> i64 {
        self.0
    }

    /// Later by whole seconds, at most [`Self::MAX`].
    #[must_use]
    pub const fn plus(self, secs: i64) -> Self {
        Self::from_secs(self.0.saturating_add(secs))
    }

    /// Seconds from `earlier` to `self`; negative when `self` is the earlier one.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `2026-11-30T01:06:00Z`.
    pub fn to_rfc3339(self) -> String {
        self.to_der().map_or_else(String::new, |time| time.to_string())
    }

    /// The same second for certificates; `None` never happens within the range of this type.
    pub fn to_der(self) -> Option<DateTime> {
        DateTime::from_unix_duration(Duration::from_secs(u64::try_from(self.0).ok()?)).ok()
    }

    /// From a certificate's time.
    pub fn from_der(time: DateTime) -> Self {
        Self::from_secs(i64::try_from(time.unix_duration().as_secs()).unwrap_or(i64::MAX))
    }

    /// AWS basic format `YYYYMMDDThhmmssZ` (CHECKS S9); anything else is `None`.
    pub fn from_amz_date(text: &str) -> Option<Self> {
        let bytes: &[u8; 16] = text.as_bytes().try_into().ok()?;
        let [y1, y2, y3, y4, o1, o2, d1, d2, b'T', h1, h2, m1, m2, s1, s2, b'Z'] = *bytes else { return None };
        let pair = |high: u8, low: u8| -> Option<u8> {
            let digit = |byte: u8| byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'));
            digit(high)?.checked_mul(10)?.checked_add(digit(low)?)
        };
        let year = u16::from(pair(y1, y2)?).checked_mul(100)?.checked_add(u16::from(pair(y3, y4)?))?;
        let time =
            DateTime::new(year, pair(o1, o2)?, pair(d1, d2)?, pair(h1, h2)?, pair(m1, m2)?, pair(s1, s2)?).ok()?;
        Some(Self::from_der(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(UnixTime::from_secs(1_790_000_000).to_rfc3339(), "2026-09-21T14:13:20Z");
        assert_eq!(UnixTime::from_amz_date("20260921T141320Z"), Some(UnixTime::from_secs(1_790_000_000)));
        assert_eq!(UnixTime::MAX.to_rfc3339(), "9999-12-31T23:59:59Z");
        assert_eq!(UnixTime::from_secs(i64::MIN).to_rfc3339(), "1970-01-01T00:00:00Z");
        for bad in [
            "",
            "20260921T141320",
            "20260921t141320Z",
            "20261321T141320Z",
            "20260230T000000Z",
            "2026092１T1413Z",
            "+0260921T141320Z",
        ] {
            assert_eq!(UnixTime::from_amz_date(bad), None, "{bad}");
        }
    }
}
