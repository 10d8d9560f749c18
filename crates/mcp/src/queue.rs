use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Hands items from several threads to one, in order, and holds only so much at a time.
///
/// Each peer's output goes through one of these and one writing thread, so that lines stay whole and a thread that
/// reads from a peer never blocks on writing to the same peer.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    room: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(usize, T)>,
    weight: usize,
    /// The taker has an item in hand.
    busy: bool,
    /// Nothing more comes in; what is in still goes out.
    closed: bool,
    /// Nothing goes out any more.
    dead: bool,
}

impl<T> Queue<T> {
    /// Makes a queue that takes items until their weights reach `room`. One item is always taken, however heavy.
    pub(crate) fn new(room: usize) -> Self {
        let state = State { items: VecDeque::new(), weight: 0, busy: false, closed: false, dead: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), room }
    }

    /// Puts an item in, and waits for room first. Says whether it went in: not into a closed queue.
    pub(crate) fn push(&self, weight: usize, item: T) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |s| !s.closed && !s.fits(weight, self.room));
        self.put(state, weight, item)
    }

    /// Puts an item in without waiting, whether there is room or not, unless `most` items are in already. Says whether
    /// it went in. The caller sees to it that such items are few and small.
    pub(crate) fn offer(&self, weight: usize, item: T, most: usize) -> bool {
        let state = self.state.lock();
        if state.items.len() >= most {
            return false;
        }
        self.put(state, weight, item)
    }

    fn put(&self, mut state: MutexGuard<'_, State<T>>, weight: usize, item: T) -> bool {
        if state.closed {
            return false;
        }
        state.weight = state.weight.saturating_add(weight);
        state.items.push_back((weight, item));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Takes the oldest item out, and waits for one; `None` when there will be no more. For one thread only.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.busy = false;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |s| s.items.is_empty() && !s.closed);
        let (weight, item) = state.items.pop_front()?;
        state.weight = state.weight.saturating_sub(weight);
        state.busy = true;
        drop(state);
        self.changed.notify_all();
        Some(item)
    }

    /// Says whether all that went in was taken and dealt with.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        !state.busy && state.items.is_empty()
    }

    /// Lets nothing more in.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Lets nothing more in and throws away what is in.
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.dead = true;
        state.weight = 0;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        drop(items);
    }

    /// Takes out all that is left.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.weight = 0;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Waits until all that went in was taken and dealt with, for at most `limit`.
    pub(crate) fn wait_idle(&self, limit: Duration) {
        let mut state = self.state.lock();
        let busy = |s: &mut State<T>| !s.dead && (s.busy || !s.items.is_empty());
        let _ = self.changed.wait_while_for(&mut state, busy, limit);
    }
}

impl<T> State<T> {
    fn fits(&self, weight: usize, room: usize) -> bool {
        self.items.is_empty() || self.weight.saturating_add(weight) <= room
    }
}
