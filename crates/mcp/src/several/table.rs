//! The requests that the client and the gateways of a group have in progress.

use std::collections::{BTreeMap, VecDeque};

use crate::listing::Deadline;
use crate::message::RpcId;

/// Maximum number of answers to remember that are not passed on.
const MAX_UNWANTED: usize = 1_024;

/// The requests in progress, and the state of the handshake with each server.
pub(super) struct GroupTable {
    servers: Vec<ServerState>,
    /// Requests of the client, by its ids.
    open: BTreeMap<RpcId, SharedRequest>,
    /// Answers that may still come, and that the client no longer awaits.
    unwanted: VecDeque<(usize, RpcId)>,
    /// Requests to the client, by the numbers in the group's ids: the gateway, and the id that it gave.
    asked: BTreeMap<u64, (usize, RpcId)>,
    next: u64,
    /// The client's `notifications/initialized`, for servers that answer the handshake later.
    greeting: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServerState {
    has_ended: bool,
    handshake: HandshakeStep,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HandshakeStep {
    #[default]
    NotBegun,
    Begun,
    Done,
}

/// A request of the client.
#[derive(Clone, Debug)]
pub(super) struct SharedRequest {
    pub(super) kind: RequestKind,
    /// The answers, by server.
    pub(super) parts: Vec<AnswerPart>,
    /// The client's token for progress notifications, as JSON.
    pub(super) progress: Option<String>,
    /// Time from which the answers that came are enough.
    pub(super) deadline: Option<Deadline>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// For one server. Its answer passes as it is.
    Single,
    Initialize,
    /// `initialize` that is answered, while some servers have not answered it.
    Joining,
    Discover,
    /// A list, in this member of the results.
    List(&'static str),
    /// The first result is the answer.
    Any,
    /// The stream of notifications, with whether its beginning was passed on.
    Listen(bool),
    /// The results are alike.
    Alike,
}

/// A server's part in the answer to one request.
#[derive(Clone, Debug)]
pub(super) enum AnswerPart {
    /// The server was not asked.
    Absent,
    Awaited,
    Given {
        line: Vec<u8>,
        is_result: bool,
    },
}

/// What becomes of an answer.
#[derive(Debug)]
pub(super) enum AnswerStep {
    Pass,
    Keep,
    /// It completes the answer to the client. The servers that have not answered get a cancellation.
    Complete(SharedRequest, Vec<usize>),
    /// The server has answered the handshake late. It gets the client's greeting.
    Joined(Option<Vec<u8>>),
}

impl SharedRequest {
    /// Creates a request to these servers.
    pub(super) fn new(kind: RequestKind, servers: usize, asked: &[usize]) -> Self {
        let part = |at| if asked.contains(&at) { AnswerPart::Awaited } else { AnswerPart::Absent };
        Self { kind, parts: (0..servers).map(part).collect(), progress: None, deadline: None }
    }

    fn awaited(&self) -> impl Iterator<Item = usize> {
        self.parts
            .iter()
            .enumerate()
            .filter(|(_, part)| matches!(part, AnswerPart::Awaited))
            .map(|(at, _)| at)
    }

    fn has_result(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, AnswerPart::Given { is_result: true, .. }))
    }

    fn is_complete(&self) -> bool {
        let is_any = self.kind == RequestKind::Any && self.has_result();
        is_any || self.awaited().next().is_none()
    }
}

impl GroupTable {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            servers: vec![ServerState::default(); servers],
            open: BTreeMap::new(),
            unwanted: VecDeque::new(),
            asked: BTreeMap::new(),
            next: 0,
            greeting: None,
        }
    }

    pub(super) fn end(&mut self, at: usize) {
        if let Some(server) = self.servers.get_mut(at) {
            server.has_ended = true;
        }
    }

    /// The number of gateways that have ended.
    pub(super) fn ended(&self) -> usize {
        self.servers.iter().filter(|server| server.has_ended).count()
    }

    /// The servers that take requests now. A client of the stateless era makes no handshake.
    pub(super) fn ready(&self, is_modern: bool) -> Vec<usize> {
        self.which(|server| !server.has_ended && (is_modern || server.handshake == HandshakeStep::Done))
    }

    /// The servers that run.
    pub(super) fn alive(&self) -> Vec<usize> {
        self.which(|server| !server.has_ended)
    }

    /// The servers for a handshake: all that run, or none once it has begun with one.
    pub(super) fn to_greet(&self) -> Vec<usize> {
        let has_begun = self.servers.iter().any(|server| server.handshake != HandshakeStep::NotBegun);
        self.which(|server| !server.has_ended && !has_begun)
    }

    /// The server for a message that belongs to none: its gateway refuses it, or answers for all.
    pub(super) fn any(&self, is_modern: bool) -> usize {
        let first = |servers: Vec<usize>| servers.first().copied();
        first(self.ready(is_modern)).or_else(|| first(self.alive())).unwrap_or_default()
    }

    fn which(&self, is: impl Fn(&ServerState) -> bool) -> Vec<usize> {
        self.servers.iter().enumerate().filter(|(_, server)| is(server)).map(|(at, _)| at).collect()
    }

    /// The server of the request that uses this id.
    pub(super) fn server_of(&self, id: &RpcId) -> Option<usize> {
        let open = self.open.get(id)?;
        open.awaited().next()
    }

    pub(super) fn open(&mut self, id: &RpcId, request: SharedRequest) {
        if request.kind == RequestKind::Initialize {
            for at in request.awaited() {
                if let Some(server) = self.servers.get_mut(at) {
                    server.handshake = HandshakeStep::Begun;
                }
            }
        }
        self.unwanted.retain(|(_, unwanted)| unwanted != id);
        self.open.insert(id.clone(), request);
    }

    /// Takes a gateway's answer.
    pub(super) fn answer(&mut self, at: usize, id: &RpcId, line: &[u8], is_result: bool) -> AnswerStep {
        if let Some(place) =
            self.unwanted.iter().position(|(server, unwanted)| *server == at && unwanted == id)
        {
            self.unwanted.remove(place);
            return AnswerStep::Keep;
        }
        let Some(request) = self.open.get_mut(id) else { return AnswerStep::Pass };
        let kind = request.kind;
        let Some(part @ AnswerPart::Awaited) = request.parts.get_mut(at) else { return AnswerStep::Pass };
        *part = if kind == RequestKind::Single {
            AnswerPart::Absent
        } else {
            AnswerPart::Given { line: line.to_vec(), is_result }
        };
        let is_complete = request.is_complete();
        if matches!(kind, RequestKind::Initialize | RequestKind::Joining)
            && let Some(server) = self.servers.get_mut(at)
        {
            server.handshake = if is_result { HandshakeStep::Done } else { HandshakeStep::NotBegun };
        }
        let request = if is_complete { self.open.remove(id) } else { None };
        match (kind, request) {
            (RequestKind::Single, _) => AnswerStep::Pass,
            (RequestKind::Joining, _) if is_result => AnswerStep::Joined(self.greeting.clone()),
            (RequestKind::Joining, _) | (_, None) => AnswerStep::Keep,
            (_, Some(request)) => {
                let left = self.leave(id, &request);
                AnswerStep::Complete(request, left)
            }
        }
    }

    /// Returns whether a request has a time by which it is answered.
    pub(super) fn waits(&self) -> bool {
        self.open.values().any(|request| request.deadline.is_some())
    }

    /// Takes the requests whose time is over, as far as a server has answered them. The handshake stays open for the others.
    pub(super) fn take_late(
        &mut self,
        is_over: impl Fn(&Deadline) -> bool,
    ) -> Vec<(RpcId, SharedRequest, Vec<usize>)> {
        let is_late =
            |request: &SharedRequest| request.has_result() && request.deadline.as_ref().is_some_and(&is_over);
        let late = self.open.iter().filter(|(_, request)| is_late(request)).map(|(id, _)| id.clone());
        let late: Vec<_> = late.collect();
        let mut taken = Vec::new();
        for id in late {
            let Some(mut request) = self.open.remove(&id) else { continue };
            request.deadline = None;
            let left = if request.kind == RequestKind::Initialize {
                self.open.insert(id.clone(), SharedRequest { kind: RequestKind::Joining, ..request.clone() });
                Vec::new()
            } else {
                self.leave(&id, &request)
            };
            taken.push((id, request, left));
        }
        taken
    }

    /// Takes the request that the client cancels, and returns its servers. The handshake cannot be cancelled.
    pub(super) fn cancel(&mut self, id: &RpcId) -> Vec<usize> {
        match self.open.get(id).map(|request| request.kind) {
            None | Some(RequestKind::Initialize | RequestKind::Joining) => Vec::new(),
            Some(_) => self.open.remove(id).map(|request| self.leave(id, &request)).unwrap_or_default(),
        }
    }

    /// Notes that the answers that a request still awaits are not wanted. Returns their servers.
    fn leave(&mut self, id: &RpcId, request: &SharedRequest) -> Vec<usize> {
        let left: Vec<_> = request.awaited().collect();
        for at in &left {
            if self.unwanted.len() >= MAX_UNWANTED {
                self.unwanted.pop_front();
            }
            self.unwanted.push_back((*at, id.clone()));
        }
        left
    }

    pub(super) fn greet(&mut self, line: &[u8]) {
        self.greeting = Some(line.to_vec());
    }

    /// Returns whether a server may report progress under this token: of a request that it has not answered.
    pub(super) fn reports(&self, at: usize, token: &str) -> bool {
        self.open.values().any(|request| {
            request.progress.as_deref() == Some(token)
                && matches!(request.parts.get(at), Some(AnswerPart::Awaited))
        })
    }

    /// Returns whether a stream of notifications begins, once for all servers.
    pub(super) fn begins(&mut self, id: &RpcId) -> bool {
        match self.open.get_mut(id).map(|request| &mut request.kind) {
            Some(RequestKind::Listen(has_begun)) => !std::mem::replace(has_begun, true),
            _ => false,
        }
    }

    /// Opens a gateway's request to the client. Returns its id towards the client.
    pub(super) fn ask(&mut self, at: usize, id: RpcId) -> Option<RpcId> {
        self.next = self.next.wrapping_add(1);
        self.asked.insert(self.next, (at, id));
        asked_id(self.next)
    }

    /// Takes the gateway's request that the client answers.
    pub(super) fn take_asked(&mut self, id: &RpcId) -> Option<(usize, RpcId)> {
        let RpcId::Text(text) = id else { return None };
        let number = text.strip_prefix(ASKED)?.parse().ok()?;
        if asked_id(number).as_ref() == Some(id) { self.asked.remove(&number) } else { None }
    }

    /// Takes the request that its gateway withdraws. Returns its id towards the client.
    pub(super) fn withdraw(&mut self, at: usize, id: &RpcId) -> Option<RpcId> {
        let is_it = |(_, asked): &(&u64, &(usize, RpcId))| asked.0 == at && asked.1 == *id;
        let number = *self.asked.iter().find(is_it)?.0;
        self.asked.remove(&number);
        asked_id(number)
    }
}

const ASKED: &str = "countersign-server-";

fn asked_id(number: u64) -> Option<RpcId> {
    RpcId::text(&format!("{ASKED}{number}"))
}
