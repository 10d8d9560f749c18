use countersign_audit_log::Direction;
use countersign_canonical_json::{Canonical, Limits, LimitsError, Recipe, ValueRef, read};
use countersign_core::ToolId;
use countersign_registry::is_read_name;
use countersign_tool_gate::Rejection;

use crate::calls::decide_at_once;
use crate::compose::json_string;
use crate::cut::{Edits, ValuePosition, replaced};
use crate::era_2025::{self, ClientNotification, ClientRequest};
use crate::era_2026::{
    self, Listened, ModernMethod, ModernRequest, ResultKind, client_info, discovered_line, initialized_line,
    modern_method, modern_request,
};
use crate::fault::Fault;
use crate::glean::{Gleaned, glean};
use crate::handshake::HandshakeAttempt;
use crate::held_call::HeldCall;
use crate::input_from_2025;
use crate::input_to_2025::{self, keep};
use crate::line::{PeerLine, PeerLines};
use crate::link::Link;
use crate::members::strange;
use crate::message::{Body, Message, NotAMessage, RpcId, error_line, result_line};
use crate::modern_client::{hello_line, without_era};
use crate::older_client::{ClientRound, RoundReply};
use crate::reads::{ReadList, ReadMethod, ReadParams};
use crate::request_purpose::RequestPurpose;
use crate::results::{RefusalText, refusal_line};
use crate::settings::Era;
use crate::table::{Answered, Cancel};
use crate::tasks::TaskMethod;

/// Additional nesting depth of a message beyond its arguments: params, metadata, and the wrapping that clients add.
const ENVELOPE_DEPTH: usize = 16;

/// Reads the client's lines until the stream ends, and passes the allowed ones.
pub(crate) fn read_client(link: &Link, mut lines: impl PeerLines) {
    let Ok(limits) = line_limits(link.settings.limits.client_line) else {
        return;
    };
    let mut line = Vec::new();
    // A read error ends the stream.
    while let Ok(next) = lines.next(&mut line) {
        match next {
            PeerLine::Whole => client_line(link, &line, &limits),
            PeerLine::TooLong(gleaned) => refuse_line(link, &gleaned, Fault::LineTooLong),
            PeerLine::End => break,
        }
    }
}

pub(crate) fn line_limits(bytes: usize) -> Result<Limits, LimitsError> {
    let limits = Limits::default();
    let depth = limits.max_depth().saturating_add(ENVELOPE_DEPTH);
    limits.bytes(bytes)?.depth(depth)
}

fn client_line(link: &Link, line: &[u8], limits: &Limits) {
    if line.trim_ascii().is_empty() {
        return;
    }
    // The gateway forwards the canonical text of this one reading, never the line.
    let message = match read(line, Recipe::Jcs1, limits) {
        Ok(message) => message,
        Err(error) => return refuse_line(link, &glean(line), Fault::of_json(&error)),
    };
    match Message::read(message.value()) {
        Ok(Message::Request { id, method, params }) => request(link, &message, &id, method, params),
        Ok(Message::Notification { method, params }) => notification(link, &message, method, params),
        Ok(Message::Answer { id, body }) => answer(link, &message, &id, body),
        Err(NotAMessage { fault, id, method }) => refuse(link, id.as_ref(), method, fault),
    }
}

/// Refuses a line that is not a message.
fn refuse_line(link: &Link, line: &Gleaned, fault: Fault) {
    let id = line.id.as_ref().filter(|_| line.method.is_some());
    refuse(link, id, line.method.as_deref(), fault);
}

/// Refuses a message that expects an answer, and answers it. A call gets a result, which the model reads, once the refusal is
/// recorded. Any other message, and a call without an id, gets an error.
fn refuse(link: &Link, id: Option<&RpcId>, method: Option<&str>, fault: Fault) {
    if !method.is_some_and(era_2025::is_call) {
        link.record(Direction::ToServer, method, fault);
        return link.answer_fault(id, fault);
    }
    let id = id.cloned();
    link.refuse_later(fault, move |link| match (refuse_call(link, fault), id) {
        (Some(rejection), Some(id)) => answer_rejected(link, &id, &rejection),
        (_, id) => link.answer_fault(id.as_ref(), fault),
    });
}

/// Records a refused message that gets no answer.
fn record(link: &Link, method: &str, fault: Fault) {
    if !era_2025::is_call(method) {
        return link.record(Direction::ToServer, Some(method), fault);
    }
    link.refuse_later(fault, move |link| {
        refuse_call(link, fault);
    });
}

/// Refuses an attempted call through the gate, so that it counts as a call.
fn refuse_call(link: &Link, fault: Fault) -> Option<Rejection> {
    let Ok(call_id) = (link.new_call_id)() else {
        link.record(Direction::ToServer, Some(era_2025::CALL), fault);
        return None;
    };
    let (gate, call_id) = (&link.gate, call_id.as_str());
    let reason = format!("{} ({})", fault.reason(), fault.code());
    Some(if fault == Fault::TooMany {
        gate.refuse_too_many(call_id, &reason)
    } else if fault.is_over_limit() {
        gate.refuse_over_limit(call_id, &reason)
    } else {
        gate.refuse_malformed(call_id, &reason)
    })
}

fn request(link: &Link, message: &Canonical, id: &RpcId, method: &str, params: Option<ValueRef<'_>>) {
    if let Some(stated) = modern_request(method, params) {
        return modern(link, message, id, method, params, stated);
    }
    if link.to_client.modern.is_listening(id) {
        return refuse(link, Some(id), Some(method), Fault::IdInUse);
    }
    if link.is_too_early(method) {
        if link.settings.shown.is_some() && era_2025::is_call(method) {
            return call_too_early(link, id, params);
        }
        return refuse(link, Some(id), Some(method), Fault::NotInitialized);
    }
    if link.modern_server.is_on() && era_2026::is_removed(method) {
        return removed(link, id, method);
    }
    if method == era_2025::INITIALIZE && link.settings.client_era == Era::Stateless && !is_own(link, id) {
        return refuse(link, Some(id), Some(method), Fault::NotAllowed);
    }
    checked_request(link, message, id, method, params);
}

/// Handles a request of the session, or one that is made again with the input that the server asked for.
fn checked_request(link: &Link, message: &Canonical, id: &RpcId, method: &str, params: Option<ValueRef<'_>>) {
    if let Some(read) = ReadMethod::of(method).filter(|read| read.is_listed(link.reads())) {
        return read_item(link, message, id, read, params);
    }
    if let Some(task) = TaskMethod::of(method).filter(|_| link.may_promise()) {
        return about_task(link, message, id, task, params);
    }
    let listed = || ReadList::of(method).filter(|list| list.read().is_listed(link.reads()));
    let asked = match era_2025::client_request(method, &link.settings.client_methods) {
        ClientRequest::Call => return call(link, message, id, params),
        ClientRequest::Refuse => match listed() {
            Some(list) => RequestPurpose::ListReads(list),
            None => return refuse(link, Some(id), Some(method), Fault::NotAllowed),
        },
        ClientRequest::ListTools => {
            RequestPurpose::ListTools { epoch: link.listing.epoch(), page: era_2025::page_of(params) }
        }
        ClientRequest::Initialize => match link.handshake.begin() {
            Some(attempt) => {
                if !is_own(link, id) {
                    let capabilities = params.and_then(|params| params.get("capabilities"));
                    link.forms.note_client(params);
                    link.to_client.modern.rounds.note_older_client(capabilities);
                }
                link.modern_server.note_client(params);
                if link.modern_server.skips_handshake() {
                    return discover(link, id, attempt);
                }
                RequestPurpose::Initialize(attempt)
            }
            None => return refuse(link, Some(id), Some(method), Fault::AlreadyInitialized),
        },
        ClientRequest::Pass => listed().map_or(RequestPurpose::Other, RequestPurpose::ListReads),
    };
    note_strange(link, method, params);
    pass_on(link, message, id, method, asked);
}

/// Makes the request of a round again, with the input that the client gave.
pub(crate) fn make_again(link: &Link, round: ClientRound) {
    let Some((id, message)) = input_to_2025::next(link, round) else { return };
    let method = message.value().get("method").and_then(ValueRef::as_str).unwrap_or_default();
    checked_request(link, &message, &id, method, message.value().get("params"));
    if link.older_client.pass_next(&id) {
        // It was refused.
        link.forget_input(&id);
    }
    // The id is in use again, or its last answer is on its way.
    let behind = link.asked.lock().take_behind(&id);
    behind.into_iter().for_each(|line| link.send_to_client(line));
}

/// Sends a request on to the server.
fn pass_on(link: &Link, message: &Canonical, id: &RpcId, method: &str, asked: RequestPurpose) {
    keep(link, message, id, method);
    let opened = {
        let mut table = link.asked.lock();
        table.open(id.clone(), asked).map(|serial| (serial, table.wire_id(serial)))
    };
    match opened {
        Ok((serial, wire)) => {
            if !link.send_request(id, passed(link, message, method, Some((&["id"], &wire)))) {
                withdraw(link, id, serial);
            }
        }
        Err(fault) => cannot_open(link, id, method, fault),
    }
}

/// Passes a request about a task of this session.
fn about_task(
    link: &Link,
    message: &Canonical,
    id: &RpcId,
    method: TaskMethod,
    params: Option<ValueRef<'_>>,
) {
    let name = method.as_str();
    let Some(shown) = method.task(params) else {
        return refuse(link, Some(id), Some(name), Fault::BadParams);
    };
    let task = link.settings.shown.as_ref().map_or(Some(shown), |names| names.plain_whole(shown));
    let Some(task) = task.filter(|task| link.tasks.has(task)) else {
        return refuse(link, Some(id), Some(name), Fault::TaskUnknown);
    };
    link.to_client.modern.rounds.allow_task(id);
    let purpose = RequestPurpose::Task(method, task.to_owned());
    if task == shown {
        return pass_on(link, message, id, name, purpose);
    }
    let line = replaced(message.as_str().as_bytes(), &["params", "taskId"], &json_string(task));
    match line_limits(link.settings.limits.client_line).map(|limits| read(&line, message.recipe(), &limits)) {
        Ok(Ok(message)) => pass_on(link, &message, id, name, purpose),
        Ok(Err(_)) | Err(_) => refuse(link, Some(id), Some(name), Fault::BadParams),
    }
}

/// Refuses a request of the stateless era. It is not the agent's conduct, so even an attempted call does not count as one.
/// A probe for the era asks for nothing that could be refused, so it has no entry.
fn refuse_modern(link: &Link, id: &RpcId, method: &str, modern: ModernRequest<'_>) {
    if modern.fault != Fault::Discover {
        link.record(Direction::ToServer, Some(method), modern.fault);
    }
    link.answer_fault_with(Some(id), modern.fault, modern.data(false));
}

/// Asks a server that gets no `initialize` to be discovered, in place of the client's `initialize`.
fn discover(link: &Link, id: &RpcId, attempt: HandshakeAttempt) {
    let opened = {
        let mut table = link.asked.lock();
        let opened = table.open(id.clone(), RequestPurpose::Discover(attempt, None));
        opened.map(|serial| (serial, table.wire_id(serial)))
    };
    match opened {
        Ok((serial, wire)) => {
            if !link.send_to_server(link.modern_server.discover_line(&wire)) {
                withdraw(link, id, serial);
            }
        }
        Err(fault) => cannot_open(link, id, era_2025::INITIALIZE, fault),
    }
}

/// Handles a request that the server's era does not have. The gateway itself shows that someone is there.
fn removed(link: &Link, id: &RpcId, method: &str) {
    if link.asked.lock().is_in_use(id) {
        refuse(link, Some(id), Some(method), Fault::IdInUse);
    } else if era_2025::is_ping(method) {
        link.send_to_client(result_line(id, "{}"));
    } else {
        refuse(link, Some(id), Some(method), Fault::NotAllowed);
    }
}

/// Handles a request of the stateless era.
fn modern(
    link: &Link,
    message: &Canonical,
    id: &RpcId,
    method: &str,
    params: Option<ValueRef<'_>>,
    stated: ModernRequest<'_>,
) {
    let client = &link.to_client.modern;
    if !client.takes_requests(link.handshake.is_done()) {
        return refuse_modern(link, id, method, stated);
    }
    if !stated.is_current() {
        let stated = stated.misstated();
        link.record(Direction::ToServer, Some(method), stated.fault);
        return link.answer_fault_with(Some(id), stated.fault, stated.data(true));
    }
    let asked = match modern_method(method, params) {
        Ok(asked) => asked,
        Err(fault) => {
            // A refused call is a result.
            client.open(id, ResultKind::Plain);
            return refuse(link, Some(id), Some(method), fault);
        }
    };
    // A request that is passed on is looked up there.
    let is_own = matches!(asked, ModernMethod::Discover | ModernMethod::Listen);
    if client.is_listening(id) || is_own && link.asked.lock().is_in_use(id) {
        return refuse(link, Some(id), Some(method), Fault::IdInUse);
    }
    let line = |text: &[u8]| {
        if let Ok(limits) = line_limits(link.settings.limits.client_line) {
            client_line(link, text, &limits);
        }
    };
    let hello = client.hello(
        |hello| {
            line(hello_line(hello, client_info(params), &client.rounds.declared(params)).as_bytes());
        },
        || line(initialized_line().as_bytes()),
    );
    let Some(hello) = hello else {
        return link.answer_fault(Some(id), Fault::ServerAnswer);
    };
    match asked {
        ModernMethod::Discover => link.answer(id, discovered_line(id, &hello)),
        ModernMethod::Listen => match Listened::read(params, &hello) {
            Some(listened) if client.listen(id, listened) => {
                link.send_to_client(listened.acknowledged_line(id))
            }
            Some(_) => refuse(link, Some(id), Some(method), Fault::TooMany),
            None => refuse(link, Some(id), Some(method), Fault::BadParams),
        },
        ModernMethod::Pass(kind) => {
            if era_2026::is_retry(method, params) && link.asked.lock().is_in_use(id) {
                return refuse(link, Some(id), Some(method), Fault::IdInUse);
            }
            let answered = match client.rounds.begin(id, method, params, link.now()) {
                Ok(answered) => answered,
                Err(fault) => return refuse_input(link, id, method, fault),
            };
            client.open(id, kind);
            match answered {
                Some(answered) => input_from_2025::resume(link, id, &answered),
                None => line(&without_era(message)),
            }
        }
    }
}

/// Refuses a request with input. Malformed input counts as the agent's conduct, a state that does not fit does not.
fn refuse_input(link: &Link, id: &RpcId, method: &str, fault: Fault) {
    if fault == Fault::BadParams {
        // A refused call is a result.
        link.to_client.modern.open(id, ResultKind::Plain);
        return refuse(link, Some(id), Some(method), fault);
    }
    link.record(Direction::ToServer, Some(method), fault);
    link.answer_fault(Some(id), fault);
}

/// Returns whether a request is the gateway's own, for a client of the stateless era.
fn is_own(link: &Link, id: &RpcId) -> bool {
    link.to_client.modern.is_hello(id)
}

fn call(link: &Link, message: &Canonical, id: &RpcId, params: Option<ValueRef<'_>>) {
    let Some(call) = era_2025::read_call(params) else {
        return refuse(link, Some(id), Some(era_2025::CALL), Fault::BadParams);
    };
    let Some(name) = name_at_server(link, call.name) else {
        return refuse_unknown(link, id, call.name);
    };
    let args = match call.arguments {
        Some(args) => message.subtree(args),
        None => Canonical::empty_object(message.recipe()),
    };
    keep(link, message, id, era_2025::CALL);
    let weight = message.bytes().len();
    hold(link, id, era_2025::CALL, |serial| HeldCall::new(id.clone(), serial, weight, name, args, call.meta));
}

/// Handles a read of a method that the session lists.
fn read_item(link: &Link, message: &Canonical, id: &RpcId, method: ReadMethod, params: Option<ValueRef<'_>>) {
    let Some(ReadParams { args, meta }) = method.read(params, link.settings.shown.as_ref()) else {
        return refuse(link, Some(id), Some(method.as_str()), Fault::BadParams);
    };
    let name = method.name_of(link.reads(), &args);
    keep(link, message, id, method.as_str());
    hold(link, id, method.as_str(), |serial| HeldCall {
        read: Some(method),
        ..HeldCall::new(id.clone(), serial, message.bytes().len(), name, args, meta)
    });
}

/// Holds a call until the gate has decided it.
fn hold(link: &Link, id: &RpcId, method: &str, call: impl FnOnce(u64) -> HeldCall) {
    let held = link.asked.lock().hold(id.clone(), RequestPurpose::Held);
    let serial = match held {
        Ok(serial) => serial,
        Err(fault) => return cannot_open(link, id, method, fault),
    };
    let Some(call) = decide_at_once(link, call(serial)) else { return };
    if !link.calls.push(call.weight, call) {
        if link.is_stopped() {
            // Not through the gate: the agent did nothing wrong.
            link.record(Direction::ToServer, Some(method), Fault::GatewayStopped);
        }
        withdraw(link, id, serial);
    }
}

/// The server's name of a tool that the client calls. `None` if it is of another server of the session, or of none. A read is
/// no tool.
fn name_at_server(link: &Link, called: &str) -> Option<String> {
    let contract = link.gate.contract();
    let tools = contract.tools().iter().filter(|tool| tool.server() == link.settings.server());
    let name = match &link.settings.shown {
        Some(shown) => shown.plain(called, tools.map(ToolId::name))?,
        None => called,
    };
    (!is_read_name(name)).then(|| name.into())
}

/// Answers a call of a server that has not shaken hands while others have. That is no fault of the agent, unless the tool is
/// undisclosed.
fn call_too_early(link: &Link, id: &RpcId, params: Option<ValueRef<'_>>) {
    let Some(call) = era_2025::read_call(params) else {
        return refuse(link, Some(id), Some(era_2025::CALL), Fault::BadParams);
    };
    let tool = name_at_server(link, call.name).and_then(|name| link.tool_of(&name));
    if !tool.is_some_and(|tool| link.gate.contract().discloses(&tool)) {
        return refuse_unknown(link, id, call.name);
    }
    link.record(Direction::ToServer, Some(era_2025::CALL), Fault::NotInitialized);
    link.answer_fault(Some(id), Fault::NotInitialized);
}

/// Refuses a call of a tool that no server here has.
fn refuse_unknown(link: &Link, id: &RpcId, name: &str) {
    let (id, name) = (id.clone(), name.to_owned());
    link.refuse_later(Fault::NotAllowed, move |link| {
        let Ok(call_id) = (link.new_call_id)() else {
            link.record(Direction::ToServer, Some(era_2025::CALL), Fault::Internal);
            return link.answer_fault(Some(&id), Fault::Internal);
        };
        let rejection = link.gate.refuse_undisclosed(call_id.as_str(), &name, "no server here has the tool");
        answer_rejected(link, &id, &rejection);
    });
}

/// Answers a call that the gate has refused.
fn answer_rejected(link: &Link, id: &RpcId, rejection: &Rejection) {
    let refusal = RefusalText::of(rejection.code(), rejection.call_id());
    let refusal = RefusalText { record: rejection.sequence(), ..refusal };
    link.answer_refused(id, refusal_line(id, refusal));
}

/// Answers a request that could not be opened. If the server is gone, there is nothing to record: the request was allowed.
/// Too many requests are an error of the client's program, which a model cannot correct.
fn cannot_open(link: &Link, id: &RpcId, method: &str, fault: Fault) {
    if fault == Fault::IdInUse {
        return refuse(link, Some(id), Some(method), fault);
    }
    link.forget_input(id);
    if fault == Fault::ServerEnded || !era_2025::is_call(method) {
        if fault != Fault::ServerEnded {
            link.record(Direction::ToServer, Some(method), fault);
        }
        return link.answer_fault(Some(id), fault);
    }
    let id = id.clone();
    link.refuse_later(fault, move |link| {
        refuse_call(link, fault);
        link.answer_fault(Some(&id), fault);
    });
}

fn withdraw(link: &Link, id: &RpcId, serial: u64) {
    let open = link.asked.lock().withdraw(serial);
    if open.is_some() {
        link.answer(id, error_line(Some(id), link.end_fault()));
    }
}

fn notification(link: &Link, message: &Canonical, method: &str, params: Option<ValueRef<'_>>) {
    let client = &link.to_client.modern;
    if let Some(modern) = modern_request(method, params) {
        if !client.is_on() || !modern.is_current() {
            return link.record(Direction::ToServer, Some(method), modern.fault);
        }
        if let Ok(limits) = line_limits(link.settings.limits.client_line) {
            client_line(link, &without_era(message), &limits);
        }
        return;
    }
    if link.is_too_early(method) {
        return record(link, method, Fault::NotInitialized);
    }
    match era_2025::client_notification(method, &link.settings.client_methods) {
        ClientNotification::Pass => {
            note_strange(link, method, params);
            link.send_to_server(passed(link, message, method, None));
        }
        ClientNotification::Cancelled => cancelled(link, message, method, params),
        // JSON-RPC 2.0, section 4.1: a notification is never answered.
        ClientNotification::Request => record(link, method, Fault::NoId),
        ClientNotification::Refuse => link.record(Direction::ToServer, Some(method), Fault::NotAllowed),
    }
}

fn cancelled(link: &Link, message: &Canonical, method: &str, params: Option<ValueRef<'_>>) {
    let Some(id) = era_2025::cancelled_request(params) else {
        return link.record(Direction::ToServer, Some(method), Fault::BadParams);
    };
    if link.to_client.modern.is_on() && link.to_client.modern.cancel(&id) {
        return;
    }
    note_strange(link, method, params);
    let found = {
        let asked = link.asked.lock();
        asked.of_client(&id).map(|serial| (serial, asked.wire_id(serial)))
    };
    // The request may have been answered while the cancellation was in transit, which is not a fault.
    let Some((serial, wire)) = found else {
        return;
    };
    // why: built outside the lock, which every thread takes. No other thread gives the id to another request meanwhile.
    let line = passed(link, message, method, Some((&["params", "requestId"], &wire)));
    let passes = link.client_cancels(|| {
        let cancel = link.asked.lock().cancel(serial, &line, RequestPurpose::may_be_cancelled);
        // A call in flight that is dropped here is recorded as unknown, before a slow server can block this thread.
        match cancel {
            Cancel::Pass(_) => Some(true),
            Cancel::Held(_) | Cancel::Later(_) => Some(false),
            Cancel::Nothing => None,
        }
    });
    let Some(passes) = passes else {
        return;
    };
    if passes {
        link.send_to_server(line);
    }
    link.answer_behind(&id);
}

fn answer(link: &Link, message: &Canonical, id: &RpcId, body: Body<'_>) {
    if link.forms.reply(id, body) {
        return;
    }
    match input_to_2025::reply(link, id, body) {
        RoundReply::Whole(round) => return make_again(link, round),
        RoundReply::Taken | RoundReply::Refused(_) => return,
        RoundReply::Unknown => {}
    }
    let answered = link.server_asked.lock().answer(id);
    match answered {
        Answered::Open(()) => {
            link.send_to_server(message.as_str());
        }
        Answered::Late => {}
        // An answer never gets an answer, not even an error: under this id, the client may await another answer.
        Answered::Unknown => link.record(Direction::ToServer, None, Fault::UnexpectedAnswer),
    }
}

/// Records, once per method, that a message loses members.
fn note_strange(link: &Link, method: &str, params: Option<ValueRef<'_>>) {
    if let Some(strange) = strange(method, params) {
        link.record_strange(Direction::ToServer, &strange);
    }
}

/// The canonical text of a message for the server: only known members, without the gateway's own metadata and without
/// client capabilities that the server may not use, and with the id that the request has towards the server.
fn passed(link: &Link, message: &Canonical, method: &str, wire: Option<(&[&str], &RpcId)>) -> Vec<u8> {
    let text = message.as_str().as_bytes();
    let (mut edits, place) = (Edits::new(text), ValuePosition::new(text));
    era_2025::cut_ours(&mut edits, &place, message.value(), "params");
    if let Some(strange) = strange(method, message.value().get("params")) {
        strange.cut(&mut edits, &place);
    }
    if method == era_2025::INITIALIZE {
        era_2025::narrow_client(&mut edits, &place, message.value(), &link.settings.server_methods);
    }
    if let Some((path, id)) = wire
        && let Some(old) = place.find(path)
    {
        edits.replace(&old, id.json());
    }
    edits.finish()
}
