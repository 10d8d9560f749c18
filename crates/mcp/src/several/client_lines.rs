//! The client's lines, each to the gateway of its server or to all.

use countersign_canonical_json::{Recipe, ValueRef, read};

use super::group::{ClientLine, Group};
use super::merged::{cursors, merged};
use super::table::{RequestKind, SharedRequest};
use crate::cut::replaced;
use crate::era_2025;
use crate::era_2026::{self, modern_request};
use crate::fault::Fault;
use crate::line::{PeerLine, PeerLines};
use crate::listing::Deadline;
use crate::message::{Message, RpcId, error_line};
use crate::reads::{ReadList, ReadMethod, ReadScope};
use crate::shown_names::ShownNames;
use crate::tasks::{TASK_ID, TaskMethod};

/// Servers that get a request, each with the line for it.
struct Route {
    kind: RequestKind,
    lines: Vec<(usize, Vec<u8>)>,
}

impl Group {
    /// Reads the client's lines until the stream ends.
    pub(super) fn read_client(&self, mut lines: impl PeerLines) {
        let mut line = Vec::new();
        // A read error ends the stream.
        while let Ok(next) = lines.next(&mut line) {
            match next {
                PeerLine::Whole => self.client_line(&line),
                PeerLine::TooLong(gleaned) => self.give_any(ClientLine::TooLong(gleaned), 1),
                PeerLine::End => break,
            }
        }
        self.close();
    }

    fn client_line(&self, line: &[u8]) {
        let whole = || ClientLine::Whole(line.to_vec());
        let Ok(message) = read(line, Recipe::Jcs1, &self.limits) else {
            return self.give_any(whole(), line.len());
        };
        match Message::read(message.value()) {
            Ok(Message::Request { id, method, params }) => self.request(line, &id, method, params),
            Ok(Message::Notification { method, params }) => self.notification(line, method, params),
            Ok(Message::Answer { id, .. }) => {
                let asked = self.table.lock().take_asked(&id);
                match asked {
                    Some((at, id)) => {
                        self.give(at, replaced(line, &["id"], &id.json()));
                    }
                    None => self.give_any(whole(), line.len()),
                }
            }
            Err(_) => self.give_any(whole(), line.len()),
        }
    }

    fn request(&self, line: &[u8], id: &RpcId, method: &str, params: Option<ValueRef<'_>>) {
        let in_use = self.table.lock().server_of(id);
        if let Some(at) = in_use {
            // The id is in use, so its gateway refuses the request.
            self.give(at, line.to_vec());
            return;
        }
        let Some(Route { kind, lines }) = self.route(line, method, params) else {
            // A client that has stopped reading ends its input.
            let _ = self.send(error_line(Some(id), Fault::BadParams).as_bytes());
            return;
        };
        let asked: Vec<_> = lines.iter().map(|(at, _)| *at).collect();
        let mut request = SharedRequest::new(kind, self.servers.len(), &asked);
        request.progress = params.and_then(|params| params.get("_meta")).and_then(era_2025::progress_token);
        request.deadline = match kind {
            RequestKind::Single | RequestKind::Any | RequestKind::Joining | RequestKind::Listen(_) => None,
            RequestKind::Initialize | RequestKind::Discover | RequestKind::List(_) | RequestKind::Alike => {
                Some(Deadline::within(self.wait))
            }
        };
        self.table.lock().open(id, request);
        self.changed.notify_all();
        for (at, line) in lines {
            if !self.give(at, line) {
                self.refuse(at, id, method);
            }
        }
    }

    /// Returns the servers of a request; `None` if it has a cursor of another list.
    fn route(&self, line: &[u8], method: &str, params: Option<ValueRef<'_>>) -> Option<Route> {
        let is_modern = modern_request(method, params).is_some();
        let table = self.table.lock();
        let to_all = |kind, servers: Vec<usize>| {
            (!servers.is_empty())
                .then(|| Route { kind, lines: servers.into_iter().map(|at| (at, line.to_vec())).collect() })
        };
        let named = || params.and_then(|params| params.get("name")).and_then(ValueRef::as_str);
        let route = match method {
            era_2025::CALL => named()
                .and_then(|name| self.servers.iter().position(|server| server.shown.has(name)))
                .and_then(|at| to_all(RequestKind::Single, vec![at])),
            _ if TaskMethod::of(method).is_some() => params
                .and_then(|params| params.get(TASK_ID)?.as_str())
                .and_then(|task| self.servers.iter().position(|server| server.shown.has(task)))
                .and_then(|at| to_all(RequestKind::Single, vec![at])),
            era_2025::INITIALIZE => to_all(RequestKind::Initialize, table.to_greet()),
            era_2025::PING if !is_modern => to_all(RequestKind::Any, table.alive()),
            era_2025::SET_LEVEL if !is_modern => to_all(RequestKind::Alike, table.ready(false)),
            era_2026::DISCOVER => to_all(RequestKind::Discover, table.alive()),
            era_2026::LISTEN if is_modern => to_all(RequestKind::Listen(false), table.alive()),
            era_2025::LIST_TOOLS => {
                self.list(line, params, RequestKind::List("tools"), table.ready(is_modern))?
            }
            _ => match (ReadList::of(method), ReadMethod::of(method)) {
                (Some(list), _) => {
                    let servers = self.with_reads(list.read(), table.ready(is_modern));
                    self.list(line, params, RequestKind::List(list.member()), servers)?
                }
                (None, Some(read)) => self
                    .server_of_read(read, params, table.ready(is_modern))
                    .and_then(|at| to_all(RequestKind::Single, vec![at])),
                (None, None) => None,
            },
        };
        let single =
            || Route { kind: RequestKind::Single, lines: vec![(table.any(is_modern), line.to_vec())] };
        Some(route.unwrap_or_else(single))
    }

    /// Routes a request for a list to these servers, or to those that its cursor names. Returns `None` if the cursor is of another
    /// list.
    fn list(
        &self,
        line: &[u8],
        params: Option<ValueRef<'_>>,
        kind: RequestKind,
        servers: Vec<usize>,
    ) -> Option<Option<Route>> {
        let lines: Vec<_> = match params.and_then(|params| params.get("cursor")) {
            None => servers.into_iter().map(|at| (at, line.to_vec())).collect(),
            Some(cursor) => {
                let cursors = cursors(cursor.as_str()?, &self.names())?.into_iter();
                let page = |cursor: String| replaced(line, &["params", "cursor"], &cursor);
                cursors
                    .filter(|(at, _)| servers.contains(at))
                    .map(|(at, cursor)| (at, page(cursor)))
                    .collect()
            }
        };
        Some((!lines.is_empty()).then_some(Route { kind, lines }))
    }

    /// The servers of these that the session can read from with this method.
    fn with_reads(&self, method: ReadMethod, servers: Vec<usize>) -> Vec<usize> {
        servers.into_iter().filter(|at| self.scope(*at).is_some_and(|of| method.is_listed(of))).collect()
    }

    /// The server for a read: the one whose name a prompt has, or else the first that the session can read this from. A read that no
    /// entry allows goes to the first server that has entries, whose gate refuses it.
    fn server_of_read(
        &self,
        method: ReadMethod,
        params: Option<ValueRef<'_>>,
        servers: Vec<usize>,
    ) -> Option<usize> {
        let servers = self.with_reads(method, servers);
        let params = params?;
        let found = match method.prompt_of(params) {
            Some(name) => servers.iter().find(|at| self.shown(**at).is_some_and(|shown| shown.has(name))),
            None => {
                servers.iter().find(|at| self.scope(**at).is_some_and(|of| method.is_allowed(of, params)))
            }
        };
        found.or(servers.first()).copied()
    }

    fn shown(&self, at: usize) -> Option<&ShownNames> {
        self.servers.get(at).map(|server| &server.shown)
    }

    fn scope(&self, at: usize) -> Option<ReadScope<'_>> {
        self.servers.get(at).map(|server| ReadScope { gate: &self.gate, server: &server.name })
    }

    fn notification(&self, line: &[u8], method: &str, params: Option<ValueRef<'_>>) {
        let is_modern = modern_request(method, params).is_some();
        let mut table = self.table.lock();
        let servers = match method {
            era_2025::CANCELLED => match era_2025::cancelled_request(params) {
                Some(id) => table.cancel(&id),
                None => vec![table.any(is_modern)],
            },
            era_2025::INITIALIZED if !is_modern => {
                table.greet(line);
                table.ready(false)
            }
            era_2025::ROOTS_CHANGED | era_2025::PROGRESS => table.ready(is_modern),
            _ => vec![table.any(is_modern)],
        };
        drop(table);
        for at in servers {
            self.give(at, line.to_vec());
        }
    }

    /// Gives a line to a server's gateway. Returns `false` if too many bytes wait there: that server holds up no other.
    pub(super) fn give(&self, at: usize, line: Vec<u8>) -> bool {
        let queue = self.servers.get(at).map(|server| &server.lines);
        queue.is_some_and(|queue| queue.try_push(line.len(), ClientLine::Whole(line)).is_ok())
    }

    /// Gives a line that is no message to a gateway, which refuses it, as soon as there is room.
    fn give_any(&self, line: ClientLine, weight: usize) {
        let at = self.table.lock().any(false);
        if let Some(server) = self.servers.get(at) {
            server.lines.push(weight, line);
        }
    }

    /// Refuses a request for which there is no room.
    fn refuse(&self, at: usize, id: &RpcId, method: &str) {
        if era_2025::is_call(method)
            && let Ok(call_id) = (self.new_call_id)()
        {
            let _ = self.gate.refuse_too_many(call_id.as_str(), Fault::TooMany.reason());
        }
        // A client that has stopped reading ends its input.
        let _ = self.answer(at, id, error_line(Some(id), Fault::TooMany).as_bytes(), false);
    }

    /// Answers a request with what its servers gave, and cancels it at those that have not answered.
    pub(super) fn answer_merged(&self, id: &RpcId, request: &SharedRequest, left: &[usize]) {
        for at in left {
            self.give(*at, era_2025::cancelled_line(id).into_bytes());
        }
        // A client that has stopped reading ends its input.
        let _ = self.send(&merged(id, request, &self.names()));
    }

    fn names(&self) -> Vec<&str> {
        self.servers.iter().map(|server| server.name.as_str()).collect()
    }
}
