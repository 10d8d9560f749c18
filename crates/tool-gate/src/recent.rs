use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::Timestamp;

/// Number of recent decisions that the sliding windows cover.
pub(crate) const WINDOW_CAPACITY: u64 = 1 << PLACE_BITS;

const PLACE_BITS: u32 = 10;

/// A slot holds, from the lowest bit up: accepted or not, the time, and the lap around the ring. Laps repeat after 500
/// million decisions, so a thread would have to be delayed for half of that to do harm.
const TIME_BITS: u32 = 44;
const LAP_MASK: u64 = (1 << (u64::BITS - TIME_BITS - 1)) - 1;

/// The last time that a slot can hold, in the year 2527; later times are stored as this one.
const LAST: u64 = (1 << TIME_BITS) - 1;

/// Times and verdicts of the last 1,024 decisions, in 8 KiB and without a lock.
///
/// A decision that another thread is adding at this moment may still be missing. A decision that was added is present
/// until 1,024 later ones have been added.
#[derive(Debug)]
pub(crate) struct Recent {
    /// Number of decisions ever added.
    added: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Default for Recent {
    fn default() -> Self {
        // Marks an empty slot: written on the lap before the first.
        let empty = entry(LAP_MASK, Timestamp::EPOCH, false);
        Self {
            added: AtomicU64::new(0),
            slots: (0..WINDOW_CAPACITY).map(|_| AtomicU64::new(empty)).collect(),
        }
    }
}

impl Recent {
    pub(crate) fn add(&self, time: Timestamp, accepted: bool) {
        self.put(self.take(), time, accepted);
    }

    /// Returns the number of the next decision.
    pub(crate) fn take(&self) -> u64 {
        self.added.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes the decision with that number, unless it is too late.
    pub(crate) fn put(&self, number: u64, time: Timestamp, accepted: bool) {
        let Some(slot) = self.slot(number) else { return };
        let lap = lap_of(number);
        // A thread that was delayed for a whole lap must not overwrite newer entries.
        let newer = |held: u64| {
            let ahead = lap.wrapping_sub(held >> (TIME_BITS + 1)) & LAP_MASK;
            (1..=LAP_MASK / 2).contains(&ahead).then_some(entry(lap, time, accepted))
        };
        let _ = slot.fetch_update(Ordering::Release, Ordering::Relaxed, newer);
    }

    /// Returns the decisions, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (Timestamp, bool)> {
        let added = self.added.load(Ordering::Acquire);
        (added.saturating_sub(WINDOW_CAPACITY)..added).rev().filter_map(|number| {
            let held = self.slot(number)?.load(Ordering::Acquire);
            let time = Timestamp::from_millis((held >> 1) & LAST).ok()?;
            (held >> (TIME_BITS + 1) == lap_of(number)).then_some((time, held & 1 == 1))
        })
    }

    fn slot(&self, number: u64) -> Option<&AtomicU64> {
        let place = usize::try_from(number & (WINDOW_CAPACITY - 1)).ok()?;
        self.slots.get(place)
    }
}

const fn lap_of(number: u64) -> u64 {
    (number >> PLACE_BITS) & LAP_MASK
}

/// Returns the time as a slot stores it.
pub(crate) fn told(time: Timestamp) -> Timestamp {
    Timestamp::from_millis(time.as_millis().min(LAST)).unwrap_or(time)
}

/// INVARIANT: `lap` is within its mask.
fn entry(lap: u64, time: Timestamp, accepted: bool) -> u64 {
    (lap << (TIME_BITS + 1)) | (told(time).as_millis() << 1) | u64::from(accepted)
}
