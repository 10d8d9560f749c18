use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::time::{Millis, TimeError, Timestamp};

/// The clock is unavailable. A check that needs the time then refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clock unavailable")]
#[non_exhaustive]
pub struct ClockError;

/// Source of the current time. Countersign's checks read the time through this trait alone.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time.
    ///
    /// # Errors
    /// [`ClockError`] if the clock is unavailable; the caller then refuses.
    fn now(&self) -> Result<Timestamp, ClockError>;
}

/// The operating system's wall clock. `wasm32-unknown-unknown` has no such clock: [`now`](Clock::now) always fails
/// there.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl SystemClock {
    /// Creates the clock.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    fn now(&self) -> Result<Timestamp, ClockError> {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
        let since = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .map_err(|_| ClockError)?;
        let millis = u64::try_from(since.as_millis()).map_err(|_| ClockError)?;
        Timestamp::from_millis(millis).map_err(|_| ClockError)
    }

    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    fn now(&self) -> Result<Timestamp, ClockError> {
        Err(ClockError)
    }
}

/// A clock that returns the time it was last set to. For tests and for hosts that replay.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicU64,
    broken: AtomicBool,
}

impl ManualClock {
    /// Creates a clock that is set to `now`.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self { millis: AtomicU64::new(now.as_millis()), broken: AtomicBool::new(false) }
    }

    /// Sets the clock, forwards or back, and repairs it after [`break_down`](Self::break_down).
    pub fn set(&self, now: Timestamp) {
        self.millis.store(now.as_millis(), Ordering::SeqCst);
        self.broken.store(false, Ordering::SeqCst);
    }

    /// Moves the clock forwards.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] if the result is above 2^53 - 1; the clock then stays unchanged.
    pub fn advance(&self, span: Millis) -> Result<(), TimeError> {
        let now = Timestamp::from_millis(self.millis.load(Ordering::SeqCst))?.checked_add(span)?;
        self.millis.store(now.as_millis(), Ordering::SeqCst);
        Ok(())
    }

    /// Makes [`now`](Clock::now) fail until the clock is set.
    pub fn break_down(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Result<Timestamp, ClockError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(ClockError);
        }
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst)).map_err(|_| ClockError)
    }
}
