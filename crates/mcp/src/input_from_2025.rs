//! A server of the handshake era that asks for input with requests of its own, in front of a client of the stateless era.
//!
//! The client gets the server's question in place of the result of one of its requests. That request is suspended: the server
//! goes on with it, and the client's retry brings the answer and takes the result. The retry is no other call. A question does
//! not name the request that it belongs to, so it goes to the oldest one that declared the capability.
//!
//! Source: MCP 2026-07-28, *Multi Round-Trip Requests*; MCP 2025-11-25, *Elicitation*, *Sampling*, *Roots*.

use countersign_audit_log::Direction;
use countersign_canonical_json::{Limits, Recipe, ValueRef, read};

use crate::fault::Fault;
use crate::input_rounds::{AnsweredRequest, older_server_line};
use crate::link::Link;
use crate::message::{RpcId, error_line, result_line};
use crate::passing::{MAX_REFUSALS, pass, pass_finished};
use crate::suspended::{KeptAnswer, Resumed, SuspendedRequest};

/// Asks the client a question of the server, in place of the result of one of its requests. Returns `false` if no request can carry it.
pub(crate) fn ask(link: &Link, line: &[u8], message: ValueRef<'_>, id: &RpcId) -> bool {
    let carriers = link.to_client.modern.rounds.carriers(message);
    let oldest = {
        let table = link.asked.lock();
        carriers.into_iter().filter_map(|client| Some((table.of_client(&client)?, client))).min()
    };
    let Some((serial, client)) = oldest else { return link.suspended.wait_behind(id, line) };
    let rounds = &link.to_client.modern.rounds;
    let Some((state, expires)) = rounds.ask_for_server(&client, serial, id, link.now()) else { return false };
    if !link.suspended.add(serial, &client, SuspendedRequest::new(id, expires), &link.asked) {
        return false;
    }
    let method = message.get("method").and_then(ValueRef::as_str).unwrap_or_default();
    let params = message.get("params").map_or_else(|| String::from("{}"), ValueRef::canonical_text);
    let line = older_server_line(&client, &state, method, &params);
    if let Ok(message) = read(line.as_bytes(), Recipe::Rfc8785, &Limits::hard_caps()) {
        pass(link, line.as_bytes(), message.value(), None, |_, _| {});
    }
    link.answer_behind(&client);
    link.settled();
    true
}

/// Goes on with a suspended request: the server gets the client's answer, and the client the result under the id of its retry.
pub(crate) fn resume(link: &Link, client: &RpcId, answered: &AnsweredRequest) {
    let AnsweredRequest { serial, request, answer } = answered;
    let (resumed, questions) = link.suspended.resume(*serial, client, &link.asked);
    let is_open = link.server_asked.lock().is_open(request);
    if is_open {
        link.server_asked.lock().answer(request);
        link.send_to_server(result_line(request, answer));
    }
    match resumed {
        Resumed::Running | Resumed::Arriving => {}
        Resumed::Unknown => link.answer_fault(Some(client), Fault::InputExpired),
        Resumed::Answered(answer) => give(link, client, answer),
    }
    for (id, line) in questions {
        ask_next(link, &id, &line);
    }
}

/// Asks the client a question that waited for its retry, unless the server has withdrawn it.
fn ask_next(link: &Link, id: &RpcId, line: &[u8]) {
    if !link.server_asked.lock().is_open(id) {
        return;
    }
    let message = read(line, Recipe::Rfc8785, &Limits::hard_caps());
    if !message.is_ok_and(|message| ask(link, line, message.value(), id)) {
        refuse(link, id, Fault::NotAllowed);
    }
}

/// Delivers the answer to a request that was suspended.
pub(crate) fn give(link: &Link, client: &RpcId, answer: KeptAnswer) {
    match answer {
        KeptAnswer::Whole { line, is_call, notice } => {
            if let Ok(message) = read(&line, Recipe::Rfc8785, &Limits::hard_caps()) {
                pass_finished(link, &line, message.value(), client, is_call, notice.as_ref());
            }
        }
        KeptAnswer::Failed(fault) => link.answer(client, error_line(Some(client), fault)),
    }
}

/// Ends the suspended requests whose client has not come back in time. The server learns that it gets no answer; the outcome of its call
/// is still recorded.
pub(crate) fn look_at_suspended(link: &Link) {
    for id in link.suspended.take_expired(link.now()) {
        refuse(link, &id, Fault::InputExpired);
    }
}

/// Answers a request of the server that is still open with a fault.
fn refuse(link: &Link, id: &RpcId, fault: Fault) {
    let is_open = link.server_asked.lock().is_open(id);
    if is_open {
        link.server_asked.lock().answer(id);
        link.record(Direction::ToClient, None, fault);
        link.to_server.offer(error_line(Some(id), fault), MAX_REFUSALS);
    }
}
