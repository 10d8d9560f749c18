use std::collections::{BTreeMap, VecDeque};

use crate::fault::Fault;

/// How many cancelled requests are remembered, so that their late answers go without a record.
const MAX_CANCELLED: usize = 1_024;

/// The requests of one peer that the other has yet to answer, by the key that an answer names.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    entries: BTreeMap<K, State<T>>,
    cancelled: VecDeque<K>,
    limit: usize,
    ended: bool,
}

#[derive(Debug)]
enum State<T> {
    /// Not on its way: nothing can answer it.
    Held(T),
    /// About to be written, so that a quick answer finds it.
    Sending(T),
    Sent(T),
    /// Cancelled while it was about to be written; the cancellation goes out after it.
    Overtaken(Vec<u8>),
}

/// What an answer was found to belong to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered<T> {
    Open(T),
    /// Cancelled before; the answer is late, as it may be.
    Late,
    Unknown,
}

/// What a cancellation was found to belong to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancel<T> {
    /// Pass it on.
    Pass(T),
    /// The request never left. There is nobody to tell.
    Held(T),
    /// It will be passed on after the request.
    Later(T),
    /// No such request, or none that may be cancelled.
    Nothing,
}

impl<K: Ord + Clone, T> Table<K, T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), cancelled: VecDeque::new(), limit, ended: false }
    }

    /// Enters a request that is written at once.
    pub(crate) fn open(&mut self, key: K, what: T) -> Result<(), Fault> {
        self.enter(key, State::Sent(what))
    }

    /// Enters a request that waits for a decision.
    pub(crate) fn hold(&mut self, key: K, what: T) -> Result<(), Fault> {
        self.enter(key, State::Held(what))
    }

    fn enter(&mut self, key: K, state: State<T>) -> Result<(), Fault> {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Says whether the request still waits for its decision.
    pub(crate) fn is_held(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|state| matches!(state, State::Held(_)))
    }

    /// The held request may be written: from here on it can be answered. Gives `what` back when it was cancelled or
    /// the peer ended in the meantime.
    pub(crate) fn release(&mut self, key: &K, what: T) -> Result<(), T> {
        match self.entries.get_mut(key) {
            Some(state @ State::Held(_)) => {
                *state = State::Sending(what);
                Ok(())
            }
            _ => Err(what),
        }
    }

    /// The released request was written. Gives the cancellation that overtook it.
    pub(crate) fn sent(&mut self, key: &K) -> Option<Vec<u8>> {
        let state = match self.entries.remove(key)? {
            State::Overtaken(line) => {
                self.remember(key.clone());
                return Some(line);
            }
            State::Sending(what) => State::Sent(what),
            state @ (State::Held(_) | State::Sent(_)) => state,
        };
        self.entries.insert(key.clone(), state);
        None
    }

    /// Takes a request out, whatever its state: it is answered by the gateway itself. Nothing when it is gone.
    pub(crate) fn withdraw(&mut self, key: &K) -> Option<T> {
        self.entries.remove(key).and_then(State::into_what)
    }

    /// Takes out what an answer belongs to.
    pub(crate) fn answer(&mut self, key: &K) -> Answered<T> {
        match self.entries.get(key) {
            Some(State::Sending(_) | State::Sent(_)) => {
                self.entries.remove(key).and_then(State::into_what).map_or(Answered::Unknown, Answered::Open)
            }
            Some(State::Overtaken(_)) => Answered::Late,
            Some(State::Held(_)) => Answered::Unknown,
            None => match self.cancelled.iter().position(|gone| gone == key) {
                Some(at) => {
                    self.cancelled.remove(at);
                    Answered::Late
                }
                None => Answered::Unknown,
            },
        }
    }

    /// Takes out what a cancellation belongs to, if `may` lets it be cancelled. `line` is kept when it has to wait.
    pub(crate) fn cancel(&mut self, key: &K, line: &[u8], may: impl Fn(&T) -> bool) -> Cancel<T> {
        let Some(state) = self.entries.remove(key) else {
            return Cancel::Nothing;
        };
        let keep = match state {
            State::Held(what) if may(&what) => return Cancel::Held(what),
            State::Sent(what) if may(&what) => {
                self.remember(key.clone());
                return Cancel::Pass(what);
            }
            State::Sending(what) if may(&what) => {
                self.entries.insert(key.clone(), State::Overtaken(line.to_vec()));
                return Cancel::Later(what);
            }
            state @ (State::Held(_) | State::Sending(_) | State::Sent(_) | State::Overtaken(_)) => state,
        };
        self.entries.insert(key.clone(), keep);
        Cancel::Nothing
    }

    /// The peer that was to answer is gone: takes everything out and lets nothing more in.
    pub(crate) fn end(&mut self) -> Vec<T> {
        self.ended = true;
        let entries = std::mem::take(&mut self.entries);
        entries.into_values().filter_map(State::into_what).collect()
    }

    fn remember(&mut self, key: K) {
        if self.cancelled.len() >= MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(key);
    }
}

impl<T> State<T> {
    fn into_what(self) -> Option<T> {
        match self {
            Self::Held(what) | Self::Sending(what) | Self::Sent(what) => Some(what),
            Self::Overtaken(_) => None,
        }
    }
}
