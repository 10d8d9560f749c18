use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Bounded queue from several threads to one, in order.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
    /// Notified when an item was processed.
    idled: Condvar,
    room: usize,
}

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<(usize, T)>,
    weight: usize,
    /// The consumer is processing an item.
    busy: bool,
    /// A producer is processing its own item.
    lent: bool,
    /// Accepts no more items; the queued ones are still taken.
    closed: bool,
    /// Returns no more items.
    dead: bool,
}

/// Turn of a producer that processes its own item. The consumer waits until it is dropped.
#[must_use]
pub(crate) struct LentTurn<'a, T>(&'a Queue<T>);

impl<T> Drop for LentTurn<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.lent = false;
        // why: only then does the consumer wait for the turn, so otherwise no thread is woken.
        let is_awaited = state.closed || !state.items.is_empty();
        drop(state);
        if is_awaited {
            self.0.changed.notify_all();
        }
        self.0.idled.notify_all();
    }
}

impl<T> Queue<T> {
    /// Creates a queue with capacity `room`, the sum of the items' weights. A single item always fits, however heavy.
    pub(crate) fn new(room: usize) -> Self {
        let state = QueueState {
            items: VecDeque::new(),
            weight: 0,
            busy: false,
            lent: false,
            closed: false,
            dead: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), idled: Condvar::new(), room }
    }

    /// Waits for room and adds an item. Returns `false` if the queue is closed.
    pub(crate) fn push(&self, weight: usize, item: T) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |s| !s.closed && !s.fits(weight, self.room));
        self.put(state, weight, item).is_ok()
    }

    /// Adds an item if there is room.
    ///
    /// # Errors
    /// The item, if there is no room or the queue is closed.
    pub(crate) fn try_push(&self, weight: usize, item: T) -> Result<(), T> {
        let state = self.state.lock();
        if !state.fits(weight, self.room) {
            return Err(item);
        }
        self.put(state, weight, item)
    }

    /// Adds an item without waiting for room. The caller must ensure that such items are few and small.
    ///
    /// # Errors
    /// The item, if the queue is closed or has `most` items already.
    pub(crate) fn offer(&self, weight: usize, item: T, most: usize) -> Result<(), T> {
        let state = self.state.lock();
        if state.items.len() >= most {
            return Err(item);
        }
        self.put(state, weight, item)
    }

    fn put(&self, mut state: MutexGuard<'_, QueueState<T>>, weight: usize, item: T) -> Result<(), T> {
        if state.closed {
            return Err(item);
        }
        state.weight = state.weight.saturating_add(weight);
        state.items.push_back((weight, item));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Lends a producer the consumer's turn, if the queue is open and no item waits or is processed.
    pub(crate) fn turn(&self) -> Option<LentTurn<'_, T>> {
        let mut state = self.state.lock();
        let is_free = state.items.is_empty() && !state.busy && !state.lent && !state.closed;
        state.lent |= is_free;
        drop(state);
        is_free.then(|| LentTurn(self))
    }

    /// Waits for the oldest item and removes it; returns `None` at the end of the queue. For one thread only.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.busy = false;
        self.idled.notify_all();
        self.changed.wait_while(&mut state, |s| s.lent || s.items.is_empty() && !s.closed);
        let (weight, item) = state.items.pop_front()?;
        state.weight = state.weight.saturating_sub(weight);
        state.busy = true;
        drop(state);
        self.changed.notify_all();
        Some(item)
    }

    /// Returns whether no item waits, so that the next one is added at once.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().items.is_empty()
    }

    /// Returns whether all items were taken and processed.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        !state.busy && !state.lent && state.items.is_empty()
    }

    /// Closes the queue to new items.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes the queue and discards its items.
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.dead = true;
        state.weight = 0;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        self.idled.notify_all();
        drop(items);
    }

    /// Removes and returns all remaining items.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.weight = 0;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        self.idled.notify_all();
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Waits until all items were taken and processed, for at most `limit`.
    pub(crate) fn wait_idle(&self, limit: Duration) {
        let mut state = self.state.lock();
        let busy = |s: &mut QueueState<T>| !s.dead && (s.busy || s.lent || !s.items.is_empty());
        let _ = self.idled.wait_while_for(&mut state, busy, limit);
    }
}

impl<T> QueueState<T> {
    fn fits(&self, weight: usize, room: usize) -> bool {
        self.items.is_empty() || self.weight.saturating_add(weight) <= room
    }
}
