//! Buffers that a thread keeps from one reading to the next, so that reading allocates nothing in steady state.
//!
//! A thread keeps the buffers of at most four values, each of at most 1 MiB, and one set of stacks, of at most 64 KiB,
//! until the thread ends. They are cleared and not wiped: a text that is read later overwrites them. Memory that goes
//! back to the allocator is not wiped either, and a process whose memory can be read reveals the arguments of its calls
//! anyway. Keys do not pass through this reader.

use std::cell::RefCell;
use std::mem;

use crate::builder::Stacks;
use crate::tape::Tape;

/// Number of values whose buffers a thread keeps.
const KEPT_VALUES: usize = 4;

/// Size above which a value's buffers are not kept.
const LARGEST_VALUE: usize = 1 << 20;

/// Size above which stacks are not kept.
const LARGEST_STACKS: usize = 64 << 10;

thread_local! {
    static POOL: RefCell<BufferPool> = const { RefCell::new(BufferPool::new()) };
}

/// Buffers of a value: its tape and its canonical text.
pub(crate) type ValueBuffers = (Tape, String);

#[derive(Debug)]
struct BufferPool {
    values: [Option<ValueBuffers>; KEPT_VALUES],
    /// The value that is replaced if all places are taken.
    next: usize,
    stacks: Stacks,
}

impl BufferPool {
    const fn new() -> Self {
        Self { values: [const { None }; KEPT_VALUES], next: 0, stacks: Stacks::new() }
    }

    /// Takes buffers that are not far too large. A value can be kept for long, and keeps them.
    fn take(&mut self, bytes: usize) -> Option<ValueBuffers> {
        let limit = bytes.saturating_mul(32).saturating_add(4 << 10);
        let fits = |kept: &ValueBuffers| footprint(kept) <= limit;
        self.values.iter_mut().find(|place| place.as_ref().is_some_and(fits))?.take()
    }

    fn put(&mut self, kept: ValueBuffers) {
        if let Some(free) = self.values.iter_mut().find(|place| place.is_none()) {
            *free = Some(kept);
        } else if let Some(oldest) = self.values.get_mut(self.next) {
            *oldest = Some(kept);
            self.next = self.next.wrapping_add(1) % KEPT_VALUES;
        }
    }
}

const fn footprint(kept: &ValueBuffers) -> usize {
    kept.0.footprint().saturating_add(kept.1.capacity())
}

/// Takes buffers for a value whose text has about that many bytes.
pub(crate) fn take_value(bytes: usize) -> ValueBuffers {
    let kept = POOL.try_with(|pool| pool.borrow_mut().take(bytes));
    kept.ok().flatten().unwrap_or_else(|| (Tape::with_room_for(bytes), String::with_capacity(bytes)))
}

/// Gives back the buffers of a value.
pub(crate) fn give_value(mut tape: Tape, mut text: String) {
    tape.clear();
    text.clear();
    let kept = (tape, text);
    if (1..=LARGEST_VALUE).contains(&footprint(&kept)) {
        // A thread that is ending has no pool any more, and the buffers are freed.
        let _ = POOL.try_with(|pool| pool.borrow_mut().put(kept));
    }
}

/// Takes the stacks of a reading.
pub(crate) fn take_stacks() -> Stacks {
    POOL.try_with(|pool| mem::take(&mut pool.borrow_mut().stacks)).unwrap_or_default()
}

/// Gives back the stacks of a reading.
pub(crate) fn give_stacks(stacks: Stacks) {
    if stacks.footprint() <= LARGEST_STACKS {
        let _ = POOL.try_with(|pool| pool.borrow_mut().stacks = stacks);
    }
}
