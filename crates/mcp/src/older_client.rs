//! Requests of a client of the handshake era that a server of the stateless era asks for input ([`crate::input_to_2025`]).

use std::collections::{BTreeMap, VecDeque};

use countersign_canonical_json::Canonical;
use countersign_core::Timestamp;
use parking_lot::Mutex;

use crate::message::RpcId;

/// Most requests of the client that wait for its input.
const MAX_OPEN: usize = 64;
/// Most ended requests for input whose late answers are known.
const MAX_ENDED: usize = 1_024;

/// The requests of a client of the handshake era that the server may ask for input.
#[derive(Debug, Default)]
pub(crate) struct OlderClient {
    state: Mutex<OlderClientState>,
}

#[derive(Debug, Default)]
struct OlderClientState {
    /// Requests that the server has yet to answer.
    kept: BTreeMap<RpcId, KeptRequest>,
    open: Vec<ClientRound>,
    /// Ids of requests for input that count no longer.
    ended: VecDeque<RpcId>,
    is_closed: bool,
}

/// A request of the client that can be made again.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    pub(crate) message: Canonical,
    /// Number of rounds before.
    pub(crate) rounds: u8,
    /// The request is about to be made again, and not passed on yet.
    pub(crate) is_next: bool,
}

/// A request of the client that waits for its input.
#[derive(Debug)]
pub(crate) struct ClientRound {
    pub(crate) client: RpcId,
    /// Number of the request while it waits.
    pub(crate) serial: u64,
    pub(crate) request: KeptRequest,
    /// The server's own state, as JSON.
    pub(crate) state: Option<String>,
    pub(crate) questions: Vec<InputQuestion>,
    pub(crate) expires: Timestamp,
}

#[derive(Debug)]
pub(crate) struct InputQuestion {
    pub(crate) id: RpcId,
    /// The server's name for it.
    pub(crate) name: String,
    pub(crate) answer: Option<String>,
}

/// What the client's answer finishes.
#[derive(Debug)]
pub(crate) enum RoundReply {
    /// No request for input has this id.
    Unknown,
    /// Others are still open, or the answer is late.
    Taken,
    /// The request can be made again.
    Whole(ClientRound),
    /// The client answered with an error.
    Refused(ClientRound),
}

impl OlderClient {
    /// Keeps a request that is about to be passed on. Returns `false` if there is no room for so many bytes.
    pub(crate) fn keep(&self, client: &RpcId, request: KeptRequest, room: usize) -> bool {
        let mut state = self.state.lock();
        let kept: usize = state.kept.values().map(|kept| kept.message.bytes().len()).sum();
        let fits = kept.saturating_add(request.message.bytes().len()) <= room;
        if fits {
            state.kept.insert(client.clone(), request);
        }
        fits
    }

    /// Notes that a request that is made again is passed on. Returns whether it is one.
    pub(crate) fn pass_next(&self, client: &RpcId) -> bool {
        let mut state = self.state.lock();
        state.kept.get_mut(client).is_some_and(|kept| std::mem::take(&mut kept.is_next))
    }

    /// Ends the wait for an answer of the server.
    pub(crate) fn take_kept(&self, client: &RpcId) -> Option<KeptRequest> {
        self.state.lock().kept.remove(client)
    }

    /// Adds a round. Returns `false` if there are too many, or the gateway ends.
    pub(crate) fn add(&self, round: ClientRound) -> bool {
        let mut state = self.state.lock();
        let is_free = !state.is_closed && state.open.len() < MAX_OPEN;
        if is_free {
            state.open.push(round);
        }
        is_free
    }

    /// Takes the client's answer to a request for input: a result as JSON, or an error.
    pub(crate) fn reply(&self, id: &RpcId, answer: Option<String>) -> RoundReply {
        let mut state = self.state.lock();
        let asked =
            |round: &mut ClientRound| round.questions.iter_mut().position(|question| question.id == *id);
        let found = state.open.iter_mut().enumerate().find_map(|(at, round)| Some((at, asked(round)?)));
        let Some((at, of)) = found else {
            return if state.ended.contains(id) { RoundReply::Taken } else { RoundReply::Unknown };
        };
        let Some(answer) = answer else {
            let mut round = state.open.swap_remove(at);
            round.questions.remove(of);
            return RoundReply::Refused(round);
        };
        let Some(round) = state.open.get_mut(at) else { return RoundReply::Unknown };
        // The first answer counts.
        if let Some(question) = round.questions.get_mut(of) {
            question.answer.get_or_insert(answer);
        }
        if round.questions.iter().any(|question| question.answer.is_none()) {
            return RoundReply::Taken;
        }
        RoundReply::Whole(state.open.swap_remove(at))
    }

    /// Removes the rounds that fit.
    pub(crate) fn take(&self, fits: impl Fn(&ClientRound) -> bool) -> Vec<ClientRound> {
        self.state.lock().open.extract_if(.., |round| fits(round)).collect()
    }

    /// Ends all rounds, and accepts no more.
    pub(crate) fn close(&self) -> Vec<ClientRound> {
        let mut state = self.state.lock();
        state.is_closed = true;
        std::mem::take(&mut state.open)
    }

    /// Notes that these requests for input count no longer.
    pub(crate) fn note_ended(&self, questions: &[InputQuestion]) {
        let mut state = self.state.lock();
        for question in questions {
            if state.ended.len() >= MAX_ENDED {
                state.ended.pop_front();
            }
            state.ended.push_back(question.id.clone());
        }
    }
}
