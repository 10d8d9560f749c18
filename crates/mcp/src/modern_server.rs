//! A server of MCP's stateless era behind a gateway whose sessions begin with a handshake.
//!
//! A server that refuses `initialize` is asked for the era with `server/discover`. If it speaks it, its answer becomes that of
//! the handshake, each request to it gets the era's metadata, and the gateway opens the stream of its notifications.
//!
//! Source: MCP 2026-07-28, *Versioning and Compatibility*, *Overview: `_meta`*, *Discovery*, *Subscriptions*.

use std::sync::atomic::{AtomicBool, Ordering};

use countersign_canonical_json::{Limits, Recipe, ValueRef, read};
use parking_lot::Mutex;

use crate::cut::{Edits, ValuePosition};
use crate::era_2026;
use crate::input_rounds::RequestExtras;
use crate::message::{Message, RpcId};
use crate::settings::Era;

/// State of a server that may be of the stateless era.
#[derive(Debug)]
pub(crate) struct ModernServer {
    era: Era,
    /// Whether the server was asked for the era.
    was_asked: AtomicBool,
    is_on: AtomicBool,
    /// Name and version of the client, as JSON.
    client: Mutex<Option<String>>,
}

impl ModernServer {
    pub(crate) fn new(era: Era) -> Self {
        Self {
            era,
            was_asked: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            client: Mutex::default(),
        }
    }

    /// Returns whether the server gets no `initialize`.
    pub(crate) fn skips_handshake(&self) -> bool {
        self.era == Era::Stateless
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// Keeps the client's name and version out of its `initialize`.
    pub(crate) fn note_client(&self, params: Option<ValueRef<'_>>) {
        *self.client.lock() =
            params.and_then(|params| params.get("clientInfo")).map(ValueRef::canonical_text);
    }

    /// Returns whether the server is asked for the era, after it has refused `initialize` with this error: once.
    pub(crate) fn asks(&self, error: Option<ValueRef<'_>>) -> bool {
        self.era == Era::Auto
            && error.is_some_and(era_2026::may_be_modern)
            && !self.was_asked.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn discover_line(&self, id: &RpcId) -> String {
        era_2026::discover_line(id, self.client.lock().as_deref())
    }

    pub(crate) fn listen_line(&self, id: &RpcId) -> String {
        era_2026::listen_line(id, self.client.lock().as_deref())
    }

    /// Returns the line as a server of the era takes it; `None` if the era has no such message.
    pub(crate) fn translated(&self, line: Vec<u8>, extras: Option<RequestExtras>) -> Option<Vec<u8>> {
        let Ok(message) = read(&line, Recipe::Rfc8785, &Limits::hard_caps()) else {
            return Some(line);
        };
        match Message::read(message.value()) {
            Ok(Message::Notification { method, .. }) if era_2026::is_of_handshake(method) => None,
            Ok(Message::Request { .. }) => {
                let (mut edits, place) = (Edits::new(&line), ValuePosition::new(&line));
                let RequestExtras { capabilities, input } = extras.unwrap_or_default();
                era_2026::add_metadata(&mut edits, &place, self.client.lock().as_deref(), &capabilities);
                if let Some(params) = place.get("params") {
                    input.iter().for_each(|(name, json)| edits.add_member(&params, name, json));
                }
                Some(edits.finish())
            }
            Ok(Message::Notification { .. } | Message::Answer { .. }) | Err(_) => Some(line),
        }
    }
}
