use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::message::RpcId;
use crate::table::{Answered, Cancel, Table};

/// Maximum number of refusals that wait for an id in use.
const MAX_BEHIND: usize = 64;

/// The requests that the server has yet to answer: the client's and the gateway's own.
///
/// Each has an id of the gateway's towards the server: a random prefix and a number that is never reused. So a late answer
/// matches no other request, however many were cancelled, and no client's id collides with one of the gateway's.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    prefix: Box<str>,
    last: u64,
    table: Table<u64, Request<T>>,
    by_client: BTreeMap<RpcId, u64>,
    /// Ids of removed requests whose answers are not on their way to the client yet.
    answering: Vec<RpcId>,
    behind: Vec<(RpcId, String)>,
}

/// An outstanding request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<T> {
    /// The id that the client chose; `None` for the gateway's own request.
    pub(crate) client: Option<RpcId>,
    pub(crate) what: T,
}

/// When the answer to a refused request may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerTurn {
    Now(String),
    /// Once no other request uses the id.
    Later,
    /// Never: too many wait already.
    Never,
}

impl<T> Requests<T> {
    /// Creates a table whose ids begin with `prefix`, which the server must not be able to meet elsewhere.
    pub(crate) fn new(prefix: &str, limit: usize) -> Self {
        Self {
            prefix: prefix.into(),
            last: 0,
            table: Table::new(limit),
            by_client: BTreeMap::new(),
            answering: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// The id of a request towards the server.
    pub(crate) fn wire_id(&self, serial: u64) -> RpcId {
        RpcId::Text(format!("{}-{serial}", self.prefix).into())
    }

    /// Reserves the next number. Each is used once.
    pub(crate) const fn reserve(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Adds a client request that is written at once.
    pub(crate) fn open(&mut self, client: RpcId, what: T) -> Result<u64, Fault> {
        self.enter(client, what, Table::open)
    }

    /// Adds a client request that waits for a decision.
    pub(crate) fn hold(&mut self, client: RpcId, what: T) -> Result<u64, Fault> {
        self.enter(client, what, Table::hold)
    }

    /// Adds a request of the gateway's own, under a reserved number.
    pub(crate) fn open_own(&mut self, serial: u64, what: T) -> Result<(), Fault> {
        self.table.open(serial, Request { client: None, what })
    }

    fn enter(
        &mut self,
        client: RpcId,
        what: T,
        how: impl FnOnce(&mut Table<u64, Request<T>>, u64, Request<T>) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        // why: a client that has just read an answer may use its id again before this side notes that it was sent.
        if self.by_client.contains_key(&client) {
            return Err(Fault::IdInUse);
        }
        let serial = self.reserve();
        how(&mut self.table, serial, Request { client: Some(client.clone()), what })?;
        self.by_client.insert(client, serial);
        Ok(serial)
    }

    /// Returns whether an answer under this id would be taken for that of another request.
    pub(crate) fn is_in_use(&self, client: &RpcId) -> bool {
        self.by_client.contains_key(client) || self.answering.contains(client)
    }

    /// Returns whether no request of the client is open. The gateway's own delay no end, above all the stream of a server's
    /// notifications.
    pub(crate) fn is_settled(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Returns whether the request still waits for its decision.
    pub(crate) fn is_held(&self, serial: u64) -> bool {
        self.table.is_held(&serial)
    }

    /// Allows the held request to be written ([`Table::release`]).
    pub(crate) fn release(&mut self, client: &RpcId, serial: u64, what: T) -> Result<(), T> {
        let request = Request { client: Some(client.clone()), what };
        self.table.release(&serial, request).map_err(|request| request.what)
    }

    /// Marks the released request as written. Returns the cancellation that overtook it.
    pub(crate) fn sent(&mut self, serial: u64) -> Option<Vec<u8>> {
        self.table.sent(&serial)
    }

    /// Removes a request in any state, so that the gateway can answer it. Returns `None` if it is already gone.
    pub(crate) fn withdraw(&mut self, serial: u64) -> Option<T> {
        let request = self.table.withdraw(&serial)?;
        Some(self.gone(request).what)
    }

    /// Removes the request that an answer under this gateway id belongs to.
    pub(crate) fn answer(&mut self, wire: &RpcId) -> Answered<Request<T>> {
        match self.serial(wire).map(|serial| self.table.answer(&serial)) {
            Some(Answered::Open(request)) => Answered::Open(self.gone(request)),
            Some(Answered::Late) => Answered::Late,
            Some(Answered::Unknown) | None => Answered::Unknown,
        }
    }

    /// Takes the client's id off a request that the server goes on with: the client gets another answer under that id.
    pub(crate) fn suspend(&mut self, client: &RpcId) -> Option<u64> {
        let serial = self.of_client(client)?;
        self.table.change(&serial, |request| request.client = None)?;
        self.by_client.remove(client);
        self.answering.push(client.clone());
        Some(serial)
    }

    /// Gives a suspended request an id of the client's, which no other request uses. Returns `false` if the server has answered.
    pub(crate) fn resume(&mut self, serial: u64, client: &RpcId) -> bool {
        let resumed = self.table.change(&serial, |request| request.client = Some(client.clone()));
        if resumed.is_some() {
            self.by_client.insert(client.clone(), serial);
        }
        resumed.is_some()
    }

    /// The number of the client's request under this id.
    pub(crate) fn of_client(&self, client: &RpcId) -> Option<u64> {
        self.by_client.get(client).copied()
    }

    /// Removes the request that the client cancels, if `may` allows it. `line` cancels it at the server, under the gateway's id.
    pub(crate) fn cancel(&mut self, serial: u64, line: &[u8], may: impl Fn(&T) -> bool) -> Cancel<T> {
        match self.table.cancel(&serial, line, |request| may(&request.what)) {
            Cancel::Pass(request) => Cancel::Pass(self.gone(request).what),
            Cancel::Held(request) => Cancel::Held(self.gone(request).what),
            Cancel::Later(request) => Cancel::Later(self.gone(request).what),
            Cancel::Nothing => Cancel::Nothing,
        }
    }

    /// Queues the answer to a refused request behind the answer to the request that uses its id.
    pub(crate) fn answer_behind(&mut self, client: &RpcId, line: String) -> AnswerTurn {
        if !self.is_in_use(client) {
            return AnswerTurn::Now(line);
        }
        if self.behind.len() >= MAX_BEHIND {
            return AnswerTurn::Never;
        }
        self.behind.push((client.clone(), line));
        AnswerTurn::Later
    }

    /// Frees the id of a removed request, once its answer is on its way to the client or it gets none. Returns the answers
    /// that waited for the id, oldest first; if another request uses it by now, they wait for that one.
    pub(crate) fn take_behind(&mut self, client: &RpcId) -> Vec<String> {
        if let Some(place) = self.answering.iter().position(|id| id == client) {
            self.answering.swap_remove(place);
        }
        if self.is_in_use(client) {
            return Vec::new();
        }
        self.behind.extract_if(.., |(id, _)| id == client).map(|(_, line)| line).collect()
    }

    /// Ends the table, because the server is gone: removes and returns all requests and accepts no more.
    pub(crate) fn end(&mut self) -> Vec<Request<T>> {
        self.answering.extend(std::mem::take(&mut self.by_client).into_keys());
        self.table.end()
    }

    /// Keeps the client's id of a removed request in use until [`take_behind`](Self::take_behind).
    fn gone(&mut self, request: Request<T>) -> Request<T> {
        if let Some(client) = &request.client {
            self.by_client.remove(client);
            self.answering.push(client.clone());
        }
        request
    }

    /// The number of the request with this id towards the server.
    pub(crate) fn serial(&self, wire: &RpcId) -> Option<u64> {
        let RpcId::Text(text) = wire else { return None };
        let serial = text.strip_prefix(&*self.prefix)?.strip_prefix('-')?.parse().ok()?;
        (self.wire_id(serial) == *wire).then_some(serial)
    }
}
