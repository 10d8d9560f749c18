//! Requests that a server goes on with while their client is asked in place of their results ([`crate::input_from_2025`]).

use std::collections::{BTreeMap, VecDeque};

use countersign_core::Timestamp;
use parking_lot::Mutex;

use crate::edited::EditNotice;
use crate::fault::Fault;
use crate::message::RpcId;
use crate::requests::Requests;

/// Most suspended requests.
const MAX_SUSPENDED: usize = 64;
/// Most questions of the server that wait behind that of a suspended request.
const MAX_BEHIND: usize = 16;

/// WaitingQuestions of the server, each with its id and its line.
pub(crate) type WaitingQuestions = VecDeque<(RpcId, Vec<u8>)>;

/// The suspended requests of the client, by their numbers towards the server.
///
/// Lock order: this one, then [`Requests`].
#[derive(Debug, Default)]
pub(crate) struct SuspendedRequests {
    state: Mutex<BTreeMap<u64, SuspendedRequest>>,
}

#[derive(Debug)]
pub(crate) struct SuspendedRequest {
    expires: Timestamp,
    /// The server's id of its question to the client.
    asked: RpcId,
    /// Further questions of the server, for after the retry.
    behind: WaitingQuestions,
    answer: Option<KeptAnswer>,
    /// The client's id of its retry, if the server's answer is being kept at this moment.
    client: Option<RpcId>,
}

/// The server's answer to a suspended request.
#[derive(Debug)]
pub(crate) enum KeptAnswer {
    Whole {
        line: Vec<u8>,
        is_call: bool,
        notice: Option<EditNotice>,
    },
    /// The answer cannot be forwarded.
    Failed(Fault),
}

/// What becomes of a suspended request at the client's retry.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// The server goes on with it.
    Running,
    Answered(KeptAnswer),
    /// The server's answer is about to be kept, and is delivered then.
    Arriving,
    Unknown,
}

impl SuspendedRequest {
    pub(crate) fn new(asked: &RpcId, expires: Timestamp) -> Self {
        Self { expires, asked: asked.clone(), behind: WaitingQuestions::new(), answer: None, client: None }
    }
}

impl SuspendedRequests {
    /// Suspends a request of the client. Returns `false` if it is answered or cancelled by now, or if too many are suspended.
    pub(crate) fn add<T>(
        &self,
        serial: u64,
        client: &RpcId,
        suspended: SuspendedRequest,
        table: &Mutex<Requests<T>>,
    ) -> bool {
        let mut state = self.state.lock();
        let is_suspended =
            state.len() < MAX_SUSPENDED && table.lock().suspend(client).is_some_and(|it| it == serial);
        if is_suspended {
            state.insert(serial, suspended);
        }
        is_suspended
    }

    /// Keeps the server's answer to a request. Returns it with the client's id if the client's retry waits for it already. Other
    /// requests are not suspended: their answers belong to no one.
    pub(crate) fn keep(&self, serial: u64, answer: KeptAnswer, room: usize) -> Option<(RpcId, KeptAnswer)> {
        let mut state = self.state.lock();
        if let Some(client) = state.get_mut(&serial)?.client.take() {
            state.remove(&serial);
            return Some((client, answer));
        }
        let size = |answer: &KeptAnswer| match answer {
            KeptAnswer::Whole { line, .. } => line.len(),
            KeptAnswer::Failed(_) => 0,
        };
        let kept: usize = state.values().filter_map(|it| it.answer.as_ref()).map(size).sum();
        let fits = kept.saturating_add(size(&answer)) <= room;
        let answer = if fits { answer } else { KeptAnswer::Failed(Fault::TooMany) };
        state.get_mut(&serial)?.answer = Some(answer);
        None
    }

    pub(crate) fn has(&self, serial: u64) -> bool {
        self.state.lock().contains_key(&serial)
    }

    /// Notes that the server will answer nothing more. Returns the retries that wait for an answer.
    pub(crate) fn fail(&self, fault: Fault) -> Vec<RpcId> {
        let mut state = self.state.lock();
        let mut waiting = Vec::new();
        for suspended in state.values_mut().filter(|suspended| suspended.answer.is_none()) {
            waiting.extend(suspended.client.take());
            suspended.answer = Some(KeptAnswer::Failed(fault));
        }
        waiting
    }

    /// Gives a suspended request to the client's retry. Returns also the questions of the server that waited for it.
    pub(crate) fn resume<T>(
        &self,
        serial: u64,
        client: &RpcId,
        table: &Mutex<Requests<T>>,
    ) -> (Resumed, WaitingQuestions) {
        let mut state = self.state.lock();
        let Some(suspended) = state.get_mut(&serial) else {
            return (Resumed::Unknown, WaitingQuestions::new());
        };
        let behind = std::mem::take(&mut suspended.behind);
        if suspended.answer.is_none() && !table.lock().resume(serial, client) {
            suspended.client = Some(client.clone());
            return (Resumed::Arriving, behind);
        }
        let answer = state.remove(&serial).and_then(|suspended| suspended.answer);
        (answer.map_or(Resumed::Running, Resumed::Answered), behind)
    }

    /// Queues a question of the server behind that of a suspended request.
    pub(crate) fn wait_behind(&self, id: &RpcId, line: &[u8]) -> bool {
        let mut state = self.state.lock();
        let is_free = |suspended: &&mut SuspendedRequest| {
            suspended.answer.is_none() && suspended.behind.len() < MAX_BEHIND
        };
        let Some(suspended) = state.values_mut().find(is_free) else { return false };
        suspended.behind.push_back((id.clone(), line.to_vec()));
        true
    }

    /// Removes the requests whose client has not come back in time. Returns the server's ids of their questions.
    pub(crate) fn take_expired(&self, now: Timestamp) -> Vec<RpcId> {
        let mut state = self.state.lock();
        let expired = state.extract_if(.., |_, suspended| now >= suspended.expires);
        expired
            .flat_map(|(_, it)| std::iter::once(it.asked).chain(it.behind.into_iter().map(|(id, _)| id)))
            .collect()
    }
}
