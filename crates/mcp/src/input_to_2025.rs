//! A server of the stateless era that asks for input, in front of a client of the handshake era.
//!
//! The gateway asks the client with requests of its own, and keeps the client's request until they are answered. Then it makes
//! that request once more, with the input: another call, decided and recorded anew.
//!
//! Source: MCP 2026-07-28, *Multi Round-Trip Requests*; MCP 2025-11-25, *Elicitation*, *Sampling*, *Roots*.

use countersign_audit_log::Direction;
use countersign_canonical_json::{Canonical, Limits, Recipe, ValueRef, read};

use crate::compose::Object;
use crate::era_2026::{INPUT_METHODS, INPUT_REQUESTS};
use crate::fault::Fault;
use crate::input_rounds::NextRound;
use crate::link::Link;
use crate::message::{Body, RpcId, error_line};
use crate::older_client::{ClientRound, InputQuestion, KeptRequest, RoundReply};
use crate::passing::pass;
use crate::request_purpose::RequestPurpose;

/// Most rounds of one request.
const MAX_ROUNDS: u8 = 16;
/// Most requests for input in one round.
const MAX_QUESTIONS: usize = 16;

/// Keeps a request that is about to be passed on, if its answer may ask the client for input. Too many bytes are not kept: the
/// server then may not ask.
pub(crate) fn keep(link: &Link, message: &Canonical, id: &RpcId, method: &str) {
    if INPUT_METHODS.contains(&method)
        && link.modern_server.is_on()
        && !link.to_client.modern.is_on()
        && link.to_client.modern.rounds.may_be_asked()
        && !link.older_client.pass_next(id)
        && !link.asked.lock().is_in_use(id)
    {
        let request = KeptRequest { message: message.clone(), rounds: 0, is_next: false };
        keep_for(link, id, method, request, None);
    }
}

fn keep_for(link: &Link, id: &RpcId, method: &str, request: KeptRequest, next: Option<NextRound>) {
    let room = link.settings.limits.client_line.saturating_mul(2);
    if link.older_client.keep(id, request, room) {
        link.to_client.modern.rounds.begin_older(id, method, next);
    }
}

/// Asks the client for the input that the server's answer to its request asks for. `state` is the server's own.
pub(crate) fn ask(link: &Link, client: &RpcId, result: ValueRef<'_>, state: Option<String>) {
    if begin(link, client, result, state).is_none() {
        link.record(Direction::ToClient, None, Fault::Unfinished);
        link.answer(client, error_line(Some(client), Fault::ServerAnswer));
    }
}

fn begin(link: &Link, client: &RpcId, result: ValueRef<'_>, state: Option<String>) -> Option<()> {
    let requests = result.get(INPUT_REQUESTS);
    let asked = || requests.into_iter().flat_map(ValueRef::members);
    let request = link.older_client.take_kept(client)?;
    if request.rounds >= MAX_ROUNDS || asked().count() > MAX_QUESTIONS {
        return None;
    }
    let mut questions = Vec::new();
    let mut lines = Vec::new();
    for (name, asked) in asked() {
        // The server must not be able to send a request under this id before.
        let id = format!("input-{:016x}{:016x}", getrandom::u64().ok()?, getrandom::u64().ok()?);
        let id = RpcId::text(&id)?;
        lines.push(line_of(&id, asked)?);
        questions.push(InputQuestion { id, name: name.to_owned(), answer: None });
    }
    let serial = {
        let mut table = link.asked.lock();
        let serial = table.hold(client.clone(), RequestPurpose::Held).ok()?;
        // The client's id is in use again, so the answers that wait for it go on waiting.
        table.take_behind(client);
        serial
    };
    let expires = link.to_client.modern.rounds.ends(link.now());
    let round = ClientRound { client: client.clone(), serial, request, state, questions, expires };
    if !link.older_client.add(round) {
        link.asked.lock().withdraw(serial);
        return None;
    }
    for line in lines {
        if let Ok(message) = read(line.as_bytes(), Recipe::Rfc8785, &Limits::hard_caps()) {
            let method = message.value().get("method").and_then(ValueRef::as_str);
            pass(link, line.as_bytes(), message.value(), method, |_, _| {});
        }
    }
    Some(())
}

fn line_of(id: &RpcId, asked: ValueRef<'_>) -> Option<String> {
    let line = Object::new()
        .raw("id", &id.json())
        .string("jsonrpc", "2.0")
        .string("method", asked.get("method")?.as_str()?);
    let line = match asked.get("params") {
        Some(params) => line.value("params", params),
        None => line,
    };
    Some(line.finish())
}

/// Takes the client's answer to a request for input. An error ends the round.
pub(crate) fn reply(link: &Link, id: &RpcId, body: Body<'_>) -> RoundReply {
    let answer = match body {
        Body::Result(result) => Some(result.canonical_text()),
        Body::Error => None,
    };
    match link.older_client.reply(id, answer) {
        RoundReply::Refused(round) => {
            link.record(Direction::ToServer, None, Fault::InputRefused);
            link.end_round(round, Fault::InputRefused);
            RoundReply::Taken
        }
        reply @ (RoundReply::Unknown | RoundReply::Taken | RoundReply::Whole(_)) => reply,
    }
}

/// Prepares the request of a round to be made again, with the input. Returns its id and its message; `None` if the client has cancelled it.
pub(crate) fn next(link: &Link, round: ClientRound) -> Option<(RpcId, Canonical)> {
    let ClientRound {
        client, serial, request: KeptRequest { message, rounds, .. }, state, questions, ..
    } = round;
    link.asked.lock().withdraw(serial)?;
    let responses = questions.iter().fold(Object::new(), |object, question| {
        object.raw(&question.name, question.answer.as_deref().unwrap_or("null"))
    });
    let responses = (!questions.is_empty()).then(|| responses.finish());
    let method = message.value().get("method").and_then(ValueRef::as_str).unwrap_or_default();
    let request = KeptRequest { message: message.clone(), rounds: rounds.saturating_add(1), is_next: true };
    keep_for(link, &client, method, request, Some(NextRound { responses, state }));
    Some((client, message))
}

/// Ends the rounds whose time is over. Returns those whose requests need no input.
pub(crate) fn look_at_rounds(link: &Link) -> Vec<ClientRound> {
    let now = link.now();
    let is_over = |round: &ClientRound| now >= round.expires || !link.asked.lock().is_held(round.serial);
    for round in link.older_client.take(is_over) {
        link.end_round(round, Fault::InputExpired);
    }
    link.older_client.take(|round| round.questions.is_empty())
}
