//! The gateways' lines to the client.

use std::io::{self, Write};
use std::sync::Arc;

use countersign_canonical_json::{Limits, Recipe, ValueRef, read};

use super::group::Group;
use super::table::AnswerStep;
use crate::cut::replaced;
use crate::era_2025;
use crate::era_2026;
use crate::message::{Body, Message, RpcId};

/// The lines of one gateway to the client.
pub(super) struct GatewayOutput {
    group: Arc<Group>,
    at: usize,
    line: Vec<u8>,
}

impl GatewayOutput {
    pub(super) const fn new(group: Arc<Group>, at: usize) -> Self {
        Self { group, at, line: Vec::new() }
    }
}

impl Write for GatewayOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
        self.line.extend_from_slice(part);
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.group.gateway_line(self.at, &line)?;
        }
        Ok(part.len().saturating_add(usize::from(end.is_some())))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Group {
    fn gateway_line(&self, at: usize, line: &[u8]) -> io::Result<()> {
        let Ok(message) = read(line, Recipe::Rfc8785, &Limits::hard_caps()) else {
            return self.send(line);
        };
        match Message::read(message.value()) {
            Ok(Message::Answer { id, body }) => self.answer(at, &id, line, matches!(body, Body::Result(_))),
            Ok(Message::Request { id, .. }) => {
                let asked = self.table.lock().ask(at, id);
                self.send_with(line, &["id"], asked)
            }
            Ok(Message::Notification { method, params }) => self.pass(at, line, method, params),
            Err(_) => self.send(line),
        }
    }

    /// Takes the answer of one gateway.
    pub(super) fn answer(&self, at: usize, id: &RpcId, line: &[u8], is_result: bool) -> io::Result<()> {
        let step = self.table.lock().answer(at, id, line, is_result);
        match step {
            AnswerStep::Pass => self.send(line),
            AnswerStep::Keep => Ok(()),
            AnswerStep::Complete(request, left) => {
                self.answer_merged(id, &request, &left);
                Ok(())
            }
            AnswerStep::Joined(greeting) => {
                if let Some(greeting) = greeting {
                    self.give(at, greeting);
                }
                self.send(era_2025::tools_changed_line().as_bytes())
            }
        }
    }

    fn pass(&self, at: usize, line: &[u8], method: &str, params: Option<ValueRef<'_>>) -> io::Result<()> {
        match method {
            era_2025::CANCELLED => {
                let id = era_2025::cancelled_request(params);
                let asked = id.and_then(|id| self.table.lock().withdraw(at, &id));
                self.send_with(line, &["params", "requestId"], asked)
            }
            era_2025::PROGRESS => {
                let token = params.and_then(era_2025::progress_token);
                let is_own = token.is_some_and(|token| self.table.lock().reports(at, &token));
                if is_own { self.send(line) } else { Ok(()) }
            }
            _ if era_2026::is_acknowledgement(method) => {
                let stream = era_2026::subscription(params).and_then(RpcId::read);
                let begins = stream.is_some_and(|id| self.table.lock().begins(&id));
                if begins { self.send(line) } else { Ok(()) }
            }
            _ => self.send(line),
        }
    }

    /// Passes a line on with another id. Without one, the line belongs to nothing that the client knows.
    fn send_with(&self, line: &[u8], path: &[&str], id: Option<RpcId>) -> io::Result<()> {
        id.map_or(Ok(()), |id| self.send(&replaced(line, path, &id.json())))
    }
}
