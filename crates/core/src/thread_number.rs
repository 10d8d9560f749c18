use std::sync::atomic::{AtomicU64, Ordering};

/// Highest number, which threads share.
const LAST: usize = 63;

/// Numbers that threads have, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: ThreadNumber = ThreadNumber::take();
}

/// Returns a small number that no other running thread has: the lowest that was free when the calling thread first asked.
///
/// Shared state can have a part for each number, so that threads do not slow each other. From the 64th running thread on, and
/// while a thread is ending, the number is 63, which several threads may have.
#[must_use]
pub fn thread_number() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(LAST)
}

/// The number of one thread. Free again when the thread ends.
struct ThreadNumber(usize);

impl ThreadNumber {
    fn take() -> Self {
        let taken = TAKEN
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken | taken.wrapping_add(1)));
        let lowest = taken.unwrap_or_else(|taken| taken).trailing_ones();
        Self(usize::try_from(lowest).map_or(LAST, |lowest| lowest.min(LAST)))
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        if self.0 < LAST {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Relaxed);
        }
    }
}
