//! Requests for input in place of a result, between a client and a server of the stateless era.
//!
//! A server may answer a request by asking for input; the client then sends the request once more with the input. The gateway
//! passes such an answer only with methods that the operator allows and the client declared. The client gets a state of the
//! gateway's in place of the server's, bound to the session and the request. It can be used once, until it expires.
//!
//! Source: MCP 2026-07-28, *Multi Round-Trip Requests*.

use std::collections::{BTreeMap, BTreeSet};

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{Digest, Millis, Timestamp};
use parking_lot::Mutex;

use crate::capabilities;
use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2026::{
    CAPABILITIES, INPUT_METHODS, INPUT_REQUESTS, INPUT_RESPONSES, META, REQUEST_STATE, RETRY,
};
use crate::fault::Fault;
use crate::message::RpcId;

/// Most requests, and most states, that are kept.
const MAX_KEPT: usize = 1_024;
/// Longest state of a server, in bytes.
const MAX_STATE: usize = 64 << 10;

/// The rounds of one session.
#[derive(Debug)]
pub(crate) struct InputRounds {
    is_on: bool,
    /// Methods that a server may ask a client for.
    allowed: BTreeSet<Box<str>>,
    lifetime: Millis,
    kept: Mutex<KeptRounds>,
}

#[derive(Debug, Default)]
struct KeptRounds {
    /// Requests of the client that the server has yet to answer.
    asked: BTreeMap<RpcId, AskedRequest>,
    /// Answers that ask for input, by the state that the client got.
    open: BTreeMap<String, OpenRound>,
}

/// A request whose answer may ask for input.
#[derive(Debug)]
struct AskedRequest {
    method: String,
    params: Digest,
    /// Capabilities of the client that the server may use, as JSON.
    capabilities: String,
    /// Members of the request with the input, as JSON, and the state that the client used for it.
    input: Option<(Vec<(&'static str, String)>, String)>,
    was_sent: bool,
}

/// An answer that asked for input.
#[derive(Debug)]
struct OpenRound {
    method: String,
    params: Digest,
    /// The server's own state, as JSON.
    state: Option<String>,
    expires: Timestamp,
    is_used: bool,
}

/// What the server gets with a request.
#[derive(Debug)]
pub(crate) struct RequestExtras {
    pub(crate) capabilities: String,
    pub(crate) input: Vec<(&'static str, String)>,
}

impl Default for RequestExtras {
    fn default() -> Self {
        Self { capabilities: String::from("{}"), input: Vec::new() }
    }
}

impl InputRounds {
    pub(crate) fn new(is_on: bool, allowed: BTreeSet<Box<str>>, lifetime: Millis) -> Self {
        Self { is_on: is_on && !allowed.is_empty(), allowed, lifetime, kept: Mutex::default() }
    }

    /// Notes a request of the client that is passed on. With input, it has to be the request that the state belongs to.
    pub(crate) fn begin(
        &self,
        id: &RpcId,
        method: &str,
        params: Option<ValueRef<'_>>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let member = |name| params.and_then(|params| params.get(name));
        let is_retry = RETRY.iter().any(|name| member(name).is_some());
        if !self.is_on {
            return if is_retry { Err(Fault::BadParams) } else { Ok(()) };
        }
        let digest = digest_of(params);
        let mut kept = self.kept.lock();
        let KeptRounds { asked, open } = &mut *kept;
        let input = if is_retry {
            let state = member(REQUEST_STATE).and_then(ValueRef::as_str).ok_or(Fault::BadParams)?;
            let responses = member(INPUT_RESPONSES);
            if responses.is_some_and(|it| it.kind() != Kind::Object) {
                return Err(Fault::BadParams);
            }
            let round = open.get_mut(state).ok_or(Fault::InputUnknown)?;
            if round.method != method || round.params != digest {
                return Err(Fault::InputOfAnother);
            }
            if round.is_used {
                return Err(Fault::InputUsed);
            }
            if now >= round.expires {
                return Err(Fault::InputExpired);
            }
            round.is_used = true;
            let responses = responses.map(|it| (INPUT_RESPONSES, it.canonical_text()));
            let own = round.state.clone().map(|state| (REQUEST_STATE, state));
            Some((responses.into_iter().chain(own).collect(), state.to_owned()))
        } else {
            None
        };
        if asked.len() >= MAX_KEPT {
            asked.pop_first();
        }
        let declared = member(META).and_then(|meta| meta.get(CAPABILITIES));
        let capabilities =
            declared.map_or_else(|| String::from("{}"), |it| capabilities::of_client(it, &self.allowed));
        let request =
            AskedRequest { method: method.to_owned(), params: digest, capabilities, input, was_sent: false };
        asked.insert(id.clone(), request);
        Ok(())
    }

    /// Returns what the server gets with a request, which is about to be sent.
    pub(crate) fn extras(&self, id: &RpcId) -> Option<RequestExtras> {
        let mut kept = self.kept.lock();
        let request = kept.asked.get_mut(id)?;
        request.was_sent = true;
        let input = request.input.as_ref().map(|(members, _)| members.clone()).unwrap_or_default();
        Some(RequestExtras { capabilities: request.capabilities.clone(), input })
    }

    /// Ends the wait for a request. If it was not sent, its state can be used again.
    pub(crate) fn forget(&self, id: &RpcId) {
        let mut kept = self.kept.lock();
        let Some(request) = kept.asked.remove(id).filter(|request| !request.was_sent) else { return };
        if let Some(round) = request.input.and_then(|(_, state)| kept.open.get_mut(&state)) {
            round.is_used = false;
        }
    }

    /// Returns the state for the client, if a server's answer asks for input that it may ask for.
    pub(crate) fn asks(&self, id: &RpcId, result: ValueRef<'_>, now: Timestamp) -> Option<String> {
        if !self.is_on {
            return None;
        }
        let mut kept = self.kept.lock();
        let request = kept.asked.get(id).filter(|request| INPUT_METHODS.contains(&&*request.method))?;
        let state = result.get(REQUEST_STATE);
        let state = match state {
            Some(state) => Some(state.as_str().filter(|text| text.len() <= MAX_STATE).and(Some(state))?),
            None => None,
        };
        let requests = result.get(INPUT_REQUESTS);
        let may_ask = |(_, asked): (&str, ValueRef<'_>)| self.may_ask(asked, &request.capabilities);
        if requests.is_none() && state.is_none()
            || requests.is_some_and(|it| it.kind() != Kind::Object || !it.members().all(may_ask))
        {
            return None;
        }
        let handle = format!("{:016x}{:016x}", getrandom::u64().ok()?, getrandom::u64().ok()?);
        let round = OpenRound {
            method: request.method.clone(),
            params: request.params,
            state: state.map(ValueRef::canonical_text),
            expires: now.saturating_add(self.lifetime),
            is_used: false,
        };
        if kept.open.len() >= MAX_KEPT {
            let oldest = kept.open.iter().min_by_key(|(_, round)| round.expires).map(|(it, _)| it.clone());
            oldest.and_then(|oldest| kept.open.remove(&oldest));
        }
        kept.open.insert(handle.clone(), round);
        Some(handle)
    }

    /// Returns whether the operator allows the method, and the client declared it.
    fn may_ask(&self, asked: ValueRef<'_>, capabilities: &str) -> bool {
        let Some(method) = asked.get("method").and_then(ValueRef::as_str) else { return false };
        let capability = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => return false,
        };
        let place = ValuePosition::new(capabilities.as_bytes());
        let is_url = asked.get("params").and_then(|params| params.get("mode")?.as_str()) == Some("url");
        let declared = if is_url { place.find(&[capability, "url"]) } else { place.get(capability) };
        self.allowed.contains(method) && declared.is_some()
    }
}

/// Replaces the server's state in the line of an answer by the client's.
pub(crate) fn with_state(edits: &mut Edits<'_>, line: &ValuePosition<'_>, handle: &str) {
    if let Some(result) = line.get("result") {
        edits.set_member(&result, REQUEST_STATE, &format!("\"{handle}\""));
    }
}

/// Digest of a request's params without its metadata and input.
fn digest_of(params: Option<ValueRef<'_>>) -> Digest {
    let members = params.into_iter().flat_map(ValueRef::members);
    let own = members.filter(|(name, _)| *name != META && !RETRY.contains(name));
    let text = own.fold(Object::new(), |object, (name, value)| object.value(name, value)).finish();
    Digest::of(text.as_bytes())
}
