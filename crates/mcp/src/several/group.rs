//! The state that the threads of a group of gateways share.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use countersign_canonical_json::Limits;
use countersign_core::ServerName;
use countersign_tool_gate::ToolGate;
use parking_lot::{Condvar, Mutex};

use super::table::GroupTable;
use crate::from_client::line_limits;
use crate::gateway::Gateway;
use crate::glean::Gleaned;
use crate::line::{PeerLine, PeerLines};
use crate::link::NewCallId;
use crate::listing::Deadline;
use crate::output::PeerOutput;
use crate::queue::Queue;
use crate::shown_names::ShownNames;

/// Time between two looks at requests that wait for several servers.
const LOOK: Duration = Duration::from_millis(250);

/// State that the threads of a group share.
pub(super) struct Group {
    pub(super) servers: Vec<GroupServer>,
    pub(super) table: Mutex<GroupTable>,
    pub(super) changed: Condvar,
    pub(super) to_client: PeerOutput,
    pub(super) gate: ToolGate,
    pub(super) new_call_id: NewCallId,
    pub(super) limits: Limits,
    /// Time for all servers to answer one request.
    pub(super) wait: Duration,
    /// Time for the client to read its last lines.
    pub(super) drain: Duration,
}

pub(super) struct GroupServer {
    pub(super) name: ServerName,
    pub(super) shown: ShownNames,
    /// The client's lines to its gateway.
    pub(super) lines: Arc<Queue<ClientLine>>,
}

pub(super) enum ClientLine {
    Whole(Vec<u8>),
    TooLong(Gleaned),
}

/// The client's lines to one gateway.
pub(super) struct GatewayInput(Arc<Queue<ClientLine>>);

impl PeerLines for GatewayInput {
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<PeerLine> {
        line.clear();
        Ok(match self.0.take() {
            Some(ClientLine::Whole(whole)) => {
                *line = whole;
                PeerLine::Whole
            }
            Some(ClientLine::TooLong(gleaned)) => PeerLine::TooLong(gleaned),
            None => PeerLine::End,
        })
    }
}

impl Group {
    pub(super) fn of(members: &[&Gateway]) -> Option<Self> {
        let first = members.first()?;
        let settings = || members.iter().map(|gateway| gateway.settings());
        let most = settings().map(|settings| settings.limits.client_line).max()?;
        let wait = settings().map(|settings| settings.limits.list_wait.as_millis()).max()?;
        let drain = settings().map(|settings| settings.limits.drain.as_millis()).max()?;
        let servers = settings().filter_map(|settings| {
            Some(GroupServer {
                name: settings.server().clone(),
                shown: settings.shown.clone()?,
                lines: Arc::new(Queue::new(most.saturating_mul(2))),
            })
        });
        let servers: Vec<_> = servers.collect();
        Some(Self {
            table: Mutex::new(GroupTable::new(servers.len())),
            servers,
            changed: Condvar::new(),
            to_client: PeerOutput::new(),
            gate: first.gate().clone(),
            new_call_id: first.new_call_id(),
            limits: line_limits(most).ok()?,
            wait: Duration::from_millis(wait),
            drain: Duration::from_millis(drain),
        })
    }

    /// The client's lines to each gateway.
    pub(super) fn inputs(&self) -> Vec<GatewayInput> {
        self.servers.iter().map(|server| GatewayInput(Arc::clone(&server.lines))).collect()
    }

    /// Waits until all gateways have ended, and answers requests for which some servers take too long.
    pub(super) fn watch(&self, running: usize) {
        loop {
            let mut table = self.table.lock();
            if table.ended() >= running {
                return;
            }
            if table.waits() {
                self.changed.wait_for(&mut table, LOOK);
            } else {
                self.changed.wait(&mut table);
            }
            let late = table.take_late(Deadline::is_over);
            drop(table);
            for (id, request, left) in late {
                self.answer_merged(&id, &request, &left);
            }
        }
    }

    pub(super) fn server_ended(&self, at: usize) {
        self.table.lock().end(at);
        self.changed.notify_all();
    }

    /// Gives no gateway another line.
    pub(super) fn close(&self) {
        self.servers.iter().for_each(|server| server.lines.close());
    }

    /// Sends one line to the client, as soon as there is room.
    pub(super) fn send(&self, line: &[u8]) -> io::Result<()> {
        if self.to_client.send(line) { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
    }
}
