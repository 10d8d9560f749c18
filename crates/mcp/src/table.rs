use std::collections::{BTreeMap, VecDeque};

use crate::fault::Fault;
use crate::message::RpcId;

/// How many cancelled requests are remembered, so that their late answers are not taken for anything else.
const MAX_CANCELLED: usize = 1_024;

/// The requests of one peer that the other has yet to answer.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: BTreeMap<RpcId, Entry<T>>,
    cancelled: VecDeque<RpcId>,
    limit: usize,
    serial: u64,
    ended: bool,
}

#[derive(Debug)]
struct Entry<T> {
    /// Tells apart two requests that use one id after another.
    serial: u64,
    state: State<T>,
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

impl<T> Table<T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), cancelled: VecDeque::new(), limit, serial: 0, ended: false }
    }

    /// Enters a request that is written at once.
    pub(crate) fn open(&mut self, id: RpcId, what: T) -> Result<u64, Fault> {
        self.enter(id, State::Sent(what))
    }

    /// Enters a request that waits for a decision.
    pub(crate) fn hold(&mut self, id: RpcId, what: T) -> Result<u64, Fault> {
        self.enter(id, State::Held(what))
    }

    fn enter(&mut self, id: RpcId, state: State<T>) -> Result<u64, Fault> {
        if self.ended {
            return Err(Fault::ServerEnded);
        }
        if self.is_in_use(&id) {
            return Err(Fault::IdInUse);
        }
        if self.entries.len() >= self.limit {
            return Err(Fault::TooMany);
        }
        self.serial = self.serial.wrapping_add(1);
        self.entries.insert(id, Entry { serial: self.serial, state });
        Ok(self.serial)
    }

    /// Says whether an answer under this id would be taken for another request's.
    pub(crate) fn is_in_use(&self, id: &RpcId) -> bool {
        self.entries.contains_key(id) || self.cancelled.contains(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Says whether the request still waits for its decision.
    pub(crate) fn is_held(&self, id: &RpcId, serial: u64) -> bool {
        self.entries.get(id).is_some_and(|e| e.serial == serial && matches!(e.state, State::Held(_)))
    }

    /// The held request may be written: from here on it can be answered. Gives `what` back when it was cancelled or
    /// the peer ended in the meantime.
    pub(crate) fn release(&mut self, id: &RpcId, serial: u64, what: T) -> Result<(), T> {
        match self.entries.get_mut(id) {
            Some(entry) if entry.serial == serial && matches!(entry.state, State::Held(_)) => {
                entry.state = State::Sending(what);
                Ok(())
            }
            _ => Err(what),
        }
    }

    /// The released request was written. Gives the cancellation that overtook it.
    pub(crate) fn sent(&mut self, id: &RpcId, serial: u64) -> Option<Vec<u8>> {
        let entry = self.entries.remove(id)?;
        let state = match entry.state {
            State::Overtaken(line) if entry.serial == serial => {
                self.remember(id.clone());
                return Some(line);
            }
            State::Sending(what) if entry.serial == serial => State::Sent(what),
            state @ (State::Held(_) | State::Sending(_) | State::Sent(_) | State::Overtaken(_)) => state,
        };
        self.entries.insert(id.clone(), Entry { serial: entry.serial, state });
        None
    }

    /// Takes a request out, whatever its state: it is answered by the gateway itself. Nothing when it is gone.
    pub(crate) fn withdraw(&mut self, id: &RpcId, serial: u64) -> Option<T> {
        if self.entries.get(id)?.serial != serial {
            return None;
        }
        self.entries.remove(id).and_then(Entry::into_what)
    }

    /// Takes out what an answer belongs to.
    pub(crate) fn answer(&mut self, id: &RpcId) -> Answered<T> {
        match self.entries.get(id).map(|entry| &entry.state) {
            Some(State::Sending(_) | State::Sent(_)) => {
                self.entries.remove(id).and_then(Entry::into_what).map_or(Answered::Unknown, Answered::Open)
            }
            Some(State::Overtaken(_)) => Answered::Late,
            Some(State::Held(_)) => Answered::Unknown,
            None => match self.cancelled.iter().position(|gone| gone == id) {
                Some(at) => {
                    self.cancelled.remove(at);
                    Answered::Late
                }
                None => Answered::Unknown,
            },
        }
    }

    /// Takes out what a cancellation belongs to, if `may` lets it be cancelled. `line` is kept when it has to wait.
    pub(crate) fn cancel(&mut self, id: &RpcId, line: &[u8], may: impl Fn(&T) -> bool) -> Cancel<T> {
        let Some(Entry { serial, state }) = self.entries.remove(id) else {
            return Cancel::Nothing;
        };
        let keep = match state {
            State::Held(what) if may(&what) => return Cancel::Held(what),
            State::Sent(what) if may(&what) => {
                self.remember(id.clone());
                return Cancel::Pass(what);
            }
            State::Sending(what) if may(&what) => {
                let state = State::Overtaken(line.to_vec());
                self.entries.insert(id.clone(), Entry { serial, state });
                return Cancel::Later(what);
            }
            state @ (State::Held(_) | State::Sending(_) | State::Sent(_) | State::Overtaken(_)) => state,
        };
        self.entries.insert(id.clone(), Entry { serial, state: keep });
        Cancel::Nothing
    }

    /// Takes out every request that was written. Their answers, should they come, are late.
    pub(crate) fn take_sent(&mut self) -> Vec<(RpcId, T)> {
        let entries = std::mem::take(&mut self.entries);
        let mut sent = Vec::new();
        for (id, entry) in entries {
            if let Entry { state: State::Sent(what), .. } = entry {
                self.remember(id.clone());
                sent.push((id, what));
            } else {
                self.entries.insert(id, entry);
            }
        }
        sent
    }

    /// The peer that was to answer is gone: takes everything out and lets nothing more in.
    pub(crate) fn end(&mut self) -> Vec<(RpcId, T)> {
        self.ended = true;
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().filter_map(|(id, entry)| Some((id, entry.into_what()?))).collect()
    }

    fn remember(&mut self, id: RpcId) {
        if self.cancelled.len() >= MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(id);
    }
}

impl<T> Entry<T> {
    fn into_what(self) -> Option<T> {
        match self.state {
            State::Held(what) | State::Sending(what) | State::Sent(what) => Some(what),
            State::Overtaken(_) => None,
        }
    }
}
