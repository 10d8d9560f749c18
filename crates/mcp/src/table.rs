use std::collections::{BTreeMap, VecDeque};

use crate::fault::Fault;

/// Maximum number of remembered cancelled requests. A late answer to one of them is not recorded.
const MAX_CANCELLED: usize = 1_024;

/// The requests of one peer that the other has yet to answer, by the key that an answer names.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    entries: BTreeMap<K, EntryState<T>>,
    cancelled: VecDeque<K>,
    limit: usize,
    ended: bool,
}

#[derive(Debug)]
enum EntryState<T> {
    /// Not yet sent: no answer can match it.
    Held(T),
    /// About to be written, so that a quick answer matches it.
    Sending(T),
    Sent(T),
    /// Cancelled while it was about to be written; the cancellation is sent after it.
    Overtaken(Vec<u8>),
}

/// The request that an answer matches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered<T> {
    Open(T),
    /// Cancelled earlier; a late answer to it is legitimate.
    Late,
    Unknown,
}

/// The request that a cancellation matches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancel<T> {
    /// Forward the cancellation.
    Pass(T),
    /// The request was never sent, so there is no one to notify.
    Held(T),
    /// The cancellation is forwarded after the request.
    Later(T),
    /// No such request, or one that may not be cancelled.
    Nothing,
}

impl<K: Ord + Clone, T> Table<K, T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), cancelled: VecDeque::new(), limit, ended: false }
    }

    /// Adds a request that is written at once.
    pub(crate) fn open(&mut self, key: K, what: T) -> Result<(), Fault> {
        self.enter(key, EntryState::Sent(what))
    }

    /// Adds a request that waits for a decision.
    pub(crate) fn hold(&mut self, key: K, what: T) -> Result<(), Fault> {
        self.enter(key, EntryState::Held(what))
    }

    fn enter(&mut self, key: K, state: EntryState<T>) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::ServerEnded);
        }
        if self.entries.contains_key(&key) || self.cancelled.contains(&key) {
            return Err(Fault::IdInUse);
        }
        if self.entries.len() >= self.limit {
            return Err(Fault::TooMany);
        }
        self.entries.insert(key, state);
        Ok(())
    }

    /// Returns whether the request still waits for its decision.
    pub(crate) fn is_held(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|state| matches!(state, EntryState::Held(_)))
    }

    /// Changes a request that the peer has or is about to get. Returns `None` without such a request.
    pub(crate) fn change<R>(&mut self, key: &K, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        match self.entries.get_mut(key)? {
            EntryState::Sending(what) | EntryState::Sent(what) => Some(change(what)),
            EntryState::Held(_) | EntryState::Overtaken(_) => None,
        }
    }

    /// Returns whether the peer has a request under this key, or is about to get it.
    pub(crate) fn is_open(&self, key: &K) -> bool {
        matches!(self.entries.get(key), Some(EntryState::Sending(_) | EntryState::Sent(_)))
    }

    /// Allows the held request to be written; from here on it can be answered. Returns `what` as the error if the request was
    /// cancelled or the peer ended in the meantime.
    pub(crate) fn release(&mut self, key: &K, what: T) -> Result<(), T> {
        match self.entries.get_mut(key) {
            Some(state @ EntryState::Held(_)) => {
                *state = EntryState::Sending(what);
                Ok(())
            }
            _ => Err(what),
        }
    }

    /// Marks the released request as written. Returns the cancellation that overtook it.
    pub(crate) fn sent(&mut self, key: &K) -> Option<Vec<u8>> {
        let state = match self.entries.remove(key)? {
            EntryState::Overtaken(line) => {
                self.remember(key.clone());
                return Some(line);
            }
            EntryState::Sending(what) => EntryState::Sent(what),
            state @ (EntryState::Held(_) | EntryState::Sent(_)) => state,
        };
        self.entries.insert(key.clone(), state);
        None
    }

    /// Removes a request in any state, so that the gateway can answer it. Returns `None` if it is already gone.
    pub(crate) fn withdraw(&mut self, key: &K) -> Option<T> {
        self.entries.remove(key).and_then(EntryState::into_what)
    }

    /// Removes the request that an answer matches.
    pub(crate) fn answer(&mut self, key: &K) -> Answered<T> {
        match self.entries.get(key) {
            Some(EntryState::Sending(_) | EntryState::Sent(_)) => self
                .entries
                .remove(key)
                .and_then(EntryState::into_what)
                .map_or(Answered::Unknown, Answered::Open),
            Some(EntryState::Overtaken(_)) => Answered::Late,
            Some(EntryState::Held(_)) => Answered::Unknown,
            None => match self.cancelled.iter().position(|gone| gone == key) {
                Some(at) => {
                    self.cancelled.remove(at);
                    Answered::Late
                }
                None => Answered::Unknown,
            },
        }
    }

    /// Removes the request that a cancellation matches, if `may` allows it. `line` is kept if it has to wait.
    pub(crate) fn cancel(&mut self, key: &K, line: &[u8], may: impl Fn(&T) -> bool) -> Cancel<T> {
        let Some(state) = self.entries.remove(key) else {
            return Cancel::Nothing;
        };
        let keep = match state {
            EntryState::Held(what) if may(&what) => return Cancel::Held(what),
            EntryState::Sent(what) if may(&what) => {
                self.remember(key.clone());
                return Cancel::Pass(what);
            }
            EntryState::Sending(what) if may(&what) => {
                self.entries.insert(key.clone(), EntryState::Overtaken(line.to_vec()));
                return Cancel::Later(what);
            }
            state @ (EntryState::Held(_)
            | EntryState::Sending(_)
            | EntryState::Sent(_)
            | EntryState::Overtaken(_)) => state,
        };
        self.entries.insert(key.clone(), keep);
        Cancel::Nothing
    }

    /// Ends the table, because the answering peer is gone: removes and returns all requests and accepts no more.
    pub(crate) fn end(&mut self) -> Vec<T> {
        self.ended = true;
        let entries = std::mem::take(&mut self.entries);
        entries.into_values().filter_map(EntryState::into_what).collect()
    }

    fn remember(&mut self, key: K) {
        if self.cancelled.len() >= MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(key);
    }
}

impl<T> EntryState<T> {
    fn into_what(self) -> Option<T> {
        match self {
            Self::Held(what) | Self::Sending(what) | Self::Sent(what) => Some(what),
            Self::Overtaken(_) => None,
        }
    }
}
