//! Requests for input in place of a result, towards a client of the stateless era.
//!
//! A server may answer a request by asking for input; the client then sends the request once more with the input. The gateway
//! passes such an answer only with methods that the operator allows and the client declared. The gateway itself asks so for the
//! approval of a call. The client gets a state of the gateway's, bound to the session and the request. It can be used once,
//! until it expires. What the server needs for its own retry stays here.
//!
//! Source: MCP 2026-07-28, *Multi Round-Trip Requests*.

use std::collections::{BTreeMap, BTreeSet};

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{CallId, Digest, Millis, Timestamp};
use parking_lot::Mutex;

use crate::capabilities::{self, TASKS_EXTENSION};
use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2025;
use crate::era_2026::{
    self, CAPABILITIES, INPUT_METHODS, INPUT_REQUESTS, INPUT_RESPONSES, META, REQUEST_STATE, RETRY,
};
use crate::fault::Fault;
use crate::forms::FormReply;
use crate::message::{RpcId, result_line};

/// Methods that ask the client for input, each with the capability that the client declares for it.
const INPUT_CAPABILITIES: [(&str, &str); 3] =
    [("elicitation/create", "elicitation"), ("sampling/createMessage", "sampling"), ("roots/list", "roots")];
/// Most requests, and most states, that are kept.
const MAX_KEPT: usize = 1_024;
/// Name of the gateway's own request for input.
const APPROVAL: &str = "countersign.approval";
/// Name of a request for input that a server of the handshake era sent as a request.
const ASKED: &str = "request";
/// Longest state of a server, in bytes.
const MAX_STATE: usize = 64 << 10;

/// The rounds of one session.
#[derive(Debug)]
pub(crate) struct InputRounds {
    /// Whether the gateway asks for approvals.
    asks_approval: bool,
    /// Methods that the server may ask a client for; empty if its requests do not pass.
    allowed: BTreeSet<Box<str>>,
    lifetime: Millis,
    kept: Mutex<KeptRounds>,
}

/// A request for input of a server of the handshake era, with the client's answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AnsweredRequest {
    /// The suspended call of the client.
    pub(crate) serial: u64,
    /// The server's id of its request.
    pub(crate) request: RpcId,
    /// The client's answer, as JSON.
    pub(crate) answer: String,
}

/// What a server of the stateless era needs for another round of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct NextRound {
    /// The input, as JSON.
    pub(crate) responses: Option<String>,
    /// The server's own state, as JSON.
    pub(crate) state: Option<String>,
}

#[derive(Debug, Default)]
struct KeptRounds {
    /// The capabilities of a client of the handshake era that the server may use, as JSON.
    older_client: Option<String>,
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
    /// Whether the client shows forms.
    shows_forms: bool,
    /// Whether the client takes a task in place of a result.
    takes_tasks: bool,
    input: Option<CarriedInput>,
    /// What the client answered to the gateway's own question.
    reply: Option<(CallId, FormReply)>,
    /// Whether the gateway has asked for an approval of this request.
    was_asked: bool,
    was_sent: bool,
}

/// The input that the server asked for.
#[derive(Debug)]
struct CarriedInput {
    /// Members of the request, as JSON.
    members: Vec<(&'static str, String)>,
    /// The state that the client used for it.
    state: String,
}

/// An answer that asked for input.
#[derive(Debug)]
struct OpenRound {
    method: String,
    params: Digest,
    asked: AskedFor,
    expires: Timestamp,
    is_used: bool,
}

/// Who asked the client, and for what.
#[derive(Debug)]
enum AskedFor {
    /// The server, with its own state as JSON.
    Server(Option<String>),
    /// The gateway, for the answer to a question. The server's input of the same request waits for it.
    Approval(CallId, Option<CarriedInput>),
    /// A server of the handshake era, by a request of its own during this suspended call.
    OlderServer { serial: u64, request: RpcId },
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
    /// `allowed` has the methods that the server may ask for.
    pub(crate) fn new(asks_approval: bool, allowed: BTreeSet<Box<str>>, lifetime: Millis) -> Self {
        Self { asks_approval, allowed, lifetime, kept: Mutex::default() }
    }

    /// Notes a request of the client that is passed on. With input, it has to be the request that the state belongs to. Returns
    /// the input if it is for a request of the server: then the client's request is not passed on.
    pub(crate) fn begin(
        &self,
        id: &RpcId,
        method: &str,
        params: Option<ValueRef<'_>>,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, Fault> {
        let member = |name| params.and_then(|params| params.get(name));
        let is_retry = era_2026::is_retry(method, params);
        if is_retry && !self.asks_approval && self.allowed.is_empty() {
            return Err(Fault::BadParams);
        }
        let declared = member(META).and_then(|meta| meta.get(CAPABILITIES));
        let mut request = AskedRequest {
            method: method.to_owned(),
            params: digest_of(params),
            capabilities: match declared.filter(|_| !self.allowed.is_empty()) {
                Some(declared) => capabilities::of_client(declared, &self.allowed),
                None => String::from("{}"),
            },
            takes_tasks: declared
                .and_then(|it| it.get("extensions")?.get(TASKS_EXTENSION))
                .is_some_and(|it| it.kind() == Kind::Object),
            shows_forms: declared.is_some_and(era_2025::has_forms),
            input: None,
            reply: None,
            was_asked: false,
            was_sent: false,
        };
        let mut kept = self.kept.lock();
        let open = &mut kept.open;
        let mut answered = None;
        if is_retry {
            let state = member(REQUEST_STATE).and_then(ValueRef::as_str).ok_or(Fault::BadParams)?;
            let responses = member(INPUT_RESPONSES);
            if responses.is_some_and(|it| it.kind() != Kind::Object) {
                return Err(Fault::BadParams);
            }
            let round = open.get_mut(state).ok_or(Fault::InputUnknown)?;
            answered = round.take(&mut request, state, responses, now)?;
        }
        kept.note(id, request);
        Ok(answered)
    }

    /// Notes the capabilities of a client of the handshake era.
    pub(crate) fn note_older_client(&self, capabilities: Option<ValueRef<'_>>) {
        self.kept.lock().older_client =
            capabilities.map(|declared| capabilities::of_client(declared, &self.allowed));
    }

    /// Returns whether the server may ask the client for anything.
    pub(crate) fn may_be_asked(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Notes a request of a client of the handshake era, so that a server of the stateless era may ask for input. `next` has the input
    /// for the server, after the first round.
    pub(crate) fn begin_older(&self, id: &RpcId, method: &str, next: Option<NextRound>) {
        let mut kept = self.kept.lock();
        let input = next.map(|NextRound { responses, state }| {
            let members = [(INPUT_RESPONSES, responses), (REQUEST_STATE, state)];
            let members = members.into_iter().filter_map(|(name, json)| Some((name, json?))).collect();
            CarriedInput { members, state: String::new() }
        });
        let request = AskedRequest {
            method: method.to_owned(),
            params: digest_of(None),
            capabilities: kept.older_client.clone().unwrap_or_else(|| String::from("{}")),
            takes_tasks: false,
            shows_forms: false,
            input,
            reply: None,
            was_asked: false,
            was_sent: false,
        };
        kept.note(id, request);
    }

    /// Returns the capabilities of a client of the stateless era for the handshake with a server: those that the server may use.
    pub(crate) fn declared(&self, params: Option<ValueRef<'_>>) -> String {
        let declared = params.and_then(|params| params.get(META)?.get(CAPABILITIES));
        let kept = declared.into_iter().flat_map(ValueRef::members).filter(|(name, _)| {
            INPUT_CAPABILITIES.iter().any(|(method, it)| it == name && self.allowed.contains(*method))
        });
        kept.fold(Object::new(), |object, (name, value)| object.value(name, value)).finish()
    }

    /// Returns the client's requests that can carry a question of a server of the handshake era.
    pub(crate) fn carriers(&self, asked: ValueRef<'_>) -> Vec<RpcId> {
        let kept = self.kept.lock();
        let can_carry = |request: &AskedRequest| {
            request.was_sent
                && INPUT_METHODS.contains(&&*request.method)
                && self.may_ask(asked, &request.capabilities)
        };
        kept.asked.iter().filter(|(_, request)| can_carry(request)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the client's state for a question of a server of the handshake era during this request, and the end of its validity.
    pub(crate) fn ask_for_server(
        &self,
        id: &RpcId,
        serial: u64,
        request: &RpcId,
        now: Timestamp,
    ) -> Option<(String, Timestamp)> {
        let expires = now.saturating_add(self.lifetime);
        let asked = AskedFor::OlderServer { serial, request: request.clone() };
        Some((self.kept.lock().open(id, asked, expires)?, expires))
    }

    /// End of the validity of a question that is asked now.
    pub(crate) fn ends(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.lifetime)
    }

    /// Lets the server answer a request with a task, if its client takes one. Returns whether it does.
    pub(crate) fn allow_task(&self, id: &RpcId) -> bool {
        let mut kept = self.kept.lock();
        let Some(request) = kept.asked.get_mut(id).filter(|request| request.takes_tasks) else {
            return false;
        };
        let all = request.capabilities.strip_suffix('}').unwrap_or_default();
        let comma = if all == "{" { "" } else { "," };
        request.capabilities = format!(r#"{all}{comma}"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}"#);
        true
    }

    /// Returns whether the server may make these requests for input in answer to a request of the client.
    pub(crate) fn may_make(&self, id: &RpcId, requests: ValueRef<'_>) -> bool {
        let kept = self.kept.lock();
        kept.asked.get(id).is_some_and(|request| self.may_ask_all(requests, &request.capabilities))
    }

    /// Takes the client's answer to the gateway's own question, with which it sent this request.
    pub(crate) fn take_reply(&self, id: &RpcId) -> Option<(CallId, FormReply)> {
        self.kept.lock().asked.get_mut(id)?.reply.take()
    }

    /// Returns whether the client of a request can be asked for an approval in place of a result: once for each request.
    pub(crate) fn may_ask_approval(&self, id: &RpcId) -> bool {
        let kept = self.kept.lock();
        let request = kept.asked.get(id).filter(|request| INPUT_METHODS.contains(&&*request.method));
        self.asks_approval && request.is_some_and(|request| request.shows_forms && !request.was_asked)
    }

    /// Returns the state for a client that the gateway asks for an approval of its request.
    pub(crate) fn ask_approval(&self, id: &RpcId, question: &CallId, now: Timestamp) -> Option<String> {
        let mut kept = self.kept.lock();
        let request = kept.asked.get_mut(id)?;
        request.was_asked = true;
        let asked = AskedFor::Approval(question.clone(), request.input.take());
        kept.open(id, asked, now.saturating_add(self.lifetime))
    }

    /// Notes that a request is about to be sent. Returns what a server of the stateless era gets with it.
    pub(crate) fn extras(&self, id: &RpcId) -> Option<RequestExtras> {
        let mut kept = self.kept.lock();
        let request = kept.asked.get_mut(id)?;
        request.was_sent = true;
        let input = request.input.as_ref().map(|input| input.members.clone()).unwrap_or_default();
        Some(RequestExtras { capabilities: request.capabilities.clone(), input })
    }

    /// Ends the wait for a request. If it was not sent, its state can be used again.
    pub(crate) fn forget(&self, id: &RpcId) {
        let mut kept = self.kept.lock();
        let Some(request) = kept.asked.remove(id).filter(|request| !request.was_sent) else { return };
        if let Some(round) = request.input.and_then(|input| kept.open.get_mut(&input.state)) {
            round.is_used = false;
        }
    }

    /// Returns the server's own state, if its answer asks for input that it may ask for. The outer `None` is for one that may not.
    #[expect(clippy::option_option, reason = "a server may ask without a state")]
    pub(crate) fn asks(&self, id: &RpcId, result: ValueRef<'_>) -> Option<Option<String>> {
        let kept = self.kept.lock();
        let request = kept.asked.get(id).filter(|request| INPUT_METHODS.contains(&&*request.method))?;
        let state = result.get(REQUEST_STATE);
        let state = match state {
            Some(state) => Some(state.as_str().filter(|text| text.len() <= MAX_STATE).and(Some(state))?),
            None => None,
        };
        let requests = result.get(INPUT_REQUESTS);
        let may_ask = requests.is_none_or(|it| self.may_ask_all(it, &request.capabilities));
        if requests.is_none() && state.is_none() || !may_ask {
            return None;
        }
        Some(state.map(ValueRef::canonical_text))
    }

    /// Returns the state for a client whose request the server answers by asking for input, with the server's own state.
    pub(crate) fn open(&self, id: &RpcId, own: Option<String>, now: Timestamp) -> Option<String> {
        self.kept.lock().open(id, AskedFor::Server(own), now.saturating_add(self.lifetime))
    }

    fn may_ask_all(&self, requests: ValueRef<'_>, capabilities: &str) -> bool {
        requests.kind() == Kind::Object
            && requests.members().all(|(_, asked)| self.may_ask(asked, capabilities))
    }

    /// Returns whether the operator allows the method, and the client declared it.
    fn may_ask(&self, asked: ValueRef<'_>, capabilities: &str) -> bool {
        let Some(method) = asked.get("method").and_then(ValueRef::as_str) else { return false };
        let Some((_, capability)) = INPUT_CAPABILITIES.iter().find(|(it, _)| *it == method) else {
            return false;
        };
        let place = ValuePosition::new(capabilities.as_bytes());
        let is_url = asked.get("params").and_then(|params| params.get("mode")?.as_str()) == Some("url");
        let declared = if is_url { place.find(&[capability, "url"]) } else { place.get(capability) };
        self.allowed.contains(method) && declared.is_some()
    }
}

impl KeptRounds {
    fn note(&mut self, id: &RpcId, request: AskedRequest) {
        if self.asked.len() >= MAX_KEPT {
            self.asked.pop_first();
        }
        self.asked.insert(id.clone(), request);
    }

    /// Keeps a round of a request. Returns the client's state for it.
    fn open(&mut self, id: &RpcId, asked: AskedFor, expires: Timestamp) -> Option<String> {
        let request = self.asked.get(id)?;
        let (method, params) = (request.method.clone(), request.params);
        let round = OpenRound { method, params, asked, expires, is_used: false };
        let handle = format!("{:016x}{:016x}", getrandom::u64().ok()?, getrandom::u64().ok()?);
        if self.open.len() >= MAX_KEPT {
            let oldest = self.open.iter().min_by_key(|(_, round)| round.expires).map(|(it, _)| it.clone());
            oldest.and_then(|oldest| self.open.remove(&oldest));
        }
        self.open.insert(handle.clone(), round);
        Some(handle)
    }
}

impl OpenRound {
    /// Uses the round's state for a request with these answers.
    fn take(
        &mut self,
        request: &mut AskedRequest,
        state: &str,
        responses: Option<ValueRef<'_>>,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, Fault> {
        if self.method != request.method || self.params != request.params {
            return Err(Fault::InputOfAnother);
        }
        if self.is_used {
            return Err(Fault::InputUsed);
        }
        if now >= self.expires {
            return Err(Fault::InputExpired);
        }
        let mut answered = None;
        match &mut self.asked {
            AskedFor::Server(own) => {
                let responses = responses.map(|it| (INPUT_RESPONSES, it.canonical_text()));
                let own = own.clone().map(|own| (REQUEST_STATE, own));
                let members = responses.into_iter().chain(own).collect();
                request.input = Some(CarriedInput { members, state: state.to_owned() });
            }
            AskedFor::Approval(question, input) => {
                let answer = responses.and_then(|responses| responses.get(APPROVAL));
                request.reply = answer.map(|answer| (question.clone(), FormReply::of_result(answer)));
                request.input = input.take();
                request.was_asked = true;
            }
            AskedFor::OlderServer { serial, request: asked } => {
                let answer = responses.and_then(|responses| responses.get(ASKED)).ok_or(Fault::BadParams)?;
                // The server has it since the first round.
                request.was_sent = true;
                answered = Some(AnsweredRequest {
                    serial: *serial,
                    request: asked.clone(),
                    answer: answer.canonical_text(),
                });
            }
        }
        self.is_used = true;
        Ok(answered)
    }
}

/// Builds the answer that asks the client for an approval by a form.
pub(crate) fn ask_line(id: &RpcId, state: &str, text: &str) -> String {
    let form = Object::new().string("method", era_2025::ELICIT).raw("params", &era_2026::form(text)).finish();
    input_line(id, APPROVAL, &form, state)
}

/// Builds the answer that asks the client a question of a server of the handshake era.
pub(crate) fn older_server_line(id: &RpcId, state: &str, method: &str, params: &str) -> String {
    input_line(id, ASKED, &Object::new().string("method", method).raw("params", params).finish(), state)
}

fn input_line(id: &RpcId, name: &str, request: &str, state: &str) -> String {
    let result = Object::new()
        .raw(INPUT_REQUESTS, &Object::new().raw(name, request).finish())
        .string(REQUEST_STATE, state)
        .string("resultType", "input_required");
    result_line(id, &result.finish())
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
