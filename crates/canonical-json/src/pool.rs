//! Buffers that a thread keeps from one reading to the next, so that reading allocates nothing in steady state.
//!
//! A thread keeps the buffers of at most four values and of one digest, each of at most 1 MiB, and one set of stacks, of
//! at most 64 KiB, until the thread ends. They are cleared and not wiped: a text that is read later overwrites them. Memory
//! that goes back to the allocator is not wiped either, and a process whose memory can be read reveals the arguments of its
//! calls anyway. Keys do not pass through this reader.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::OnceLock;

use countersign_core::Digest;

use crate::builder::Stacks;
use crate::tape::Tape;

/// Number of values whose buffers a thread keeps.
const KEPT_VALUES: usize = 4;

/// Size above which a value's buffers are not kept.
const LARGEST_VALUE: usize = 1 << 20;

/// Size above which stacks are not kept.
const LARGEST_STACKS: usize = 64 << 10;

/// Length of a text, in bytes, up to which no buffer grows beyond these sizes: a name takes at least five bytes and a
/// value two, and buffers grow to twice of what they need.
///
/// why: adding up the sizes takes a tenth of the digest of a short text.
pub(crate) const SHORT_TEXT: usize = 4 << 10;

thread_local! {
    static POOL: RefCell<BufferPool> = const { RefCell::new(BufferPool::new()) };
}

/// A value that was read: its buffers, and the digest of its text once it is computed.
#[derive(Debug, Default)]
pub(crate) struct ReadValue {
    pub(crate) tape: Tape,
    /// The canonical text.
    pub(crate) text: String,
    pub(crate) digest: OnceLock<Digest>,
}

impl ReadValue {
    pub(crate) const fn new() -> Self {
        Self { tape: Tape::new(), text: String::new(), digest: OnceLock::new() }
    }

    fn with_room_for(bytes: usize) -> Self {
        let (tape, text) = (Tape::with_room_for(bytes), String::with_capacity(bytes));
        Self { tape, text, digest: OnceLock::new() }
    }

    fn clear(&mut self) {
        self.tape.clear();
        self.text.clear();
        self.digest = OnceLock::new();
    }

    /// Bytes of memory.
    const fn footprint(&self) -> usize {
        self.tape.footprint().saturating_add(self.text.capacity())
    }
}

/// Buffers of one thread.
#[derive(Debug)]
pub(crate) struct BufferPool {
    values: [Option<Box<ReadValue>>; KEPT_VALUES],
    /// The value that is replaced if all places are taken.
    next: usize,
    digested: ReadValue,
    stacks: Stacks,
}

impl BufferPool {
    const fn new() -> Self {
        let values = [const { None }; KEPT_VALUES];
        Self { values, next: 0, digested: ReadValue::new(), stacks: Stacks::new() }
    }

    /// Runs a reading of a text of that many bytes, and returns its buffers.
    pub(crate) fn read<E>(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut ReadValue, &mut Stacks) -> Result<(), E>,
    ) -> Result<Box<ReadValue>, E> {
        let mut value = self.take(bytes);
        let done = read(&mut value, &mut self.stacks);
        self.trim(bytes);
        if let Err(refused) = done {
            self.put(value);
            return Err(refused);
        }
        Ok(value)
    }

    /// The buffers for a value that is not kept, and the stacks.
    pub(crate) const fn digested(&mut self) -> (&mut ReadValue, &mut Stacks) {
        (&mut self.digested, &mut self.stacks)
    }

    /// Frees buffers that have grown too large. Takes the number of bytes of the text that was read.
    pub(crate) fn trim(&mut self, bytes: usize) {
        if bytes > SHORT_TEXT {
            if self.stacks.footprint() > LARGEST_STACKS {
                self.stacks = Stacks::new();
            }
            if self.digested.footprint() > LARGEST_VALUE {
                self.digested = ReadValue::new();
            }
        }
    }

    /// Bytes of memory that the thread keeps.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        let values = self.values.iter().flatten().map(|value| value.footprint());
        values.chain([self.digested.footprint(), self.stacks.footprint()]).sum()
    }

    /// Bytes of memory of the stacks alone.
    #[cfg(test)]
    pub(crate) const fn stacks_footprint(&self) -> usize {
        self.stacks.footprint()
    }

    /// Takes buffers that are not far too large for a text of that many bytes. A value can be kept for long, and keeps
    /// them.
    fn take(&mut self, bytes: usize) -> Box<ReadValue> {
        let limit = bytes.saturating_mul(32).saturating_add(4 << 10);
        let mut places = self.values.iter_mut();
        let place = places.find(|place| place.as_deref().is_some_and(|kept| kept.footprint() <= limit));
        let kept = place.and_then(Option::take);
        kept.unwrap_or_else(|| Box::new(ReadValue::with_room_for(bytes)))
    }

    fn put(&mut self, mut value: Box<ReadValue>) {
        value.clear();
        if !(1..=LARGEST_VALUE).contains(&value.footprint()) {
            return;
        }
        if let Some(free) = self.values.iter_mut().find(|place| place.is_none()) {
            *free = Some(value);
        } else if let Some(oldest) = self.values.get_mut(self.next) {
            *oldest = Some(value);
            self.next = self.next.wrapping_add(1) % KEPT_VALUES;
        }
    }
}

/// Reads with the buffers of this thread, or with new ones if it is ending. `read` must not use the pool otherwise.
pub(crate) fn with_pool<T>(read: impl Fn(&mut BufferPool) -> T) -> T {
    let kept = POOL.try_with(|pool| read(&mut pool.borrow_mut()));
    kept.unwrap_or_else(|_| read(&mut BufferPool::new()))
}

/// A value that goes back to the thread's buffers when it is dropped. Moving it moves a pointer.
///
/// INVARIANT: it is `None` only while it is dropped.
#[derive(Debug)]
pub(crate) struct PooledValue(Option<Box<ReadValue>>);

static NO_VALUE: ReadValue = ReadValue::new();

impl PooledValue {
    /// Takes buffers for a value whose text has about that many bytes.
    pub(crate) fn with_room_for(bytes: usize) -> Self {
        with_pool(|pool| pool.take(bytes)).into()
    }

    /// The value, to be changed.
    pub(crate) fn get_mut(&mut self) -> &mut ReadValue {
        self.0.get_or_insert_default()
    }
}

impl From<Box<ReadValue>> for PooledValue {
    fn from(value: Box<ReadValue>) -> Self {
        Self(Some(value))
    }
}

impl Deref for PooledValue {
    type Target = ReadValue;

    fn deref(&self) -> &ReadValue {
        self.0.as_deref().unwrap_or(&NO_VALUE)
    }
}

impl Drop for PooledValue {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            // A thread that is ending has no pool any more, and the buffers are freed.
            let _ = POOL.try_with(|pool| pool.borrow_mut().put(value));
        }
    }
}
