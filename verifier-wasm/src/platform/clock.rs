//! The platform's clock. It stands still between I/O: read once per request, at the door.

use verifier::UnixTime;

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds of any date fit in 53 bits")]
    let ms = js_sys::Date::now() as i64;
    ms
}

/// Now.
pub fn now() -> UnixTime {
    UnixTime::from_secs(now_ms().div_euclid(1000))
}
