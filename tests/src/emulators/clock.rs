//! The emulator's clock: the system's, moved by an offset that tests set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Wall clock with an adjustable offset. Clones share the offset.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    offset_seconds: Arc<AtomicI64>,
}

impl Clock {
    /// Unix seconds, offset included.
    pub fn now(&self) -> i64 {
        Timestamp::now().as_second().saturating_add(self.offset_seconds.load(Ordering::Relaxed))
    }

    /// Moves the clock to `seconds` ahead of (or, negative, behind) the system's.
    pub fn set_offset(&self, seconds: i64) {
        self.offset_seconds.store(seconds, Ordering::Relaxed);
    }
}
