//! Clocks that act when they are read, to simulate events during a verification.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{Clock, ClockError, ManualClock, Millis, Timestamp};

pub(super) use super::world::at;
use crate::EvidenceBudget;

/// A budget whose time never runs out.
pub(super) fn budget(file_bytes: u64, total_bytes: u64) -> EvidenceBudget<'static> {
    static STILL: std::sync::LazyLock<ManualClock> = std::sync::LazyLock::new(|| ManualClock::new(at(1_000)));
    EvidenceBudget::start(&*STILL, file_bytes, total_bytes, Millis::from_millis(500)).unwrap()
}

/// Calls `act` at every reading, with the number of earlier readings, and returns the result as the time in ms.
pub(super) struct ActingClock<F> {
    asked: AtomicU64,
    act: F,
}

impl<F: Fn(u64) -> u64 + Send + Sync> ActingClock<F> {
    pub(super) fn new(act: F) -> Self {
        Self { asked: AtomicU64::new(0), act }
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl<F> fmt::Debug for ActingClock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActingClock")
    }
}

impl<F: Fn(u64) -> u64 + Send + Sync> Clock for ActingClock<F> {
    fn now(&self) -> Result<Timestamp, ClockError> {
        Ok(at((self.act)(self.asked.fetch_add(1, Ordering::SeqCst))))
    }
}
