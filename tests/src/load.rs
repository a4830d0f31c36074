//! How much a load test does: little by default, the figures of a full run where they are asked for (`cargo xtask test --full`).

/// Whether a full run is asked for: it takes its time on a small machine.
pub fn is_full() -> bool {
    std::env::var_os("ROOTPILOT_FULL_LOAD").is_some()
}

/// `full` in a full run, else `reduced`.
pub fn size<T>(reduced: T, full: T) -> T {
    if is_full() { full } else { reduced }
}
