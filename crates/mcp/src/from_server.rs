use std::io::Read;

use countersign_audit_log::{Direction, OutcomeKind};
use countersign_canonical_json::{Limits, Recipe, ValueRef, read};
use countersign_core::Digest;
use countersign_tool_gate::InFlight;

use crate::compose::json_string;
use crate::cut::replaced;
use crate::definitions::{review_instructions, review_page};
use crate::era_2025::{self, Page, ServerNotification};
use crate::era_2026;
use crate::fault::Fault;
use crate::glean::{Gleaned, glean};
use crate::handshake::HandshakeAttempt;
use crate::input_from_2025::{self, give};
use crate::input_rounds::with_state;
use crate::input_to_2025;
use crate::line::{LineReader, PeerLine, PeerLines};
use crate::link::Link;
use crate::listing::PageAnswer;
use crate::message::{Body, Message, NotAMessage, RpcId, error_line, result_line};
use crate::passing::{MAX_REFUSALS, cut_look_alikes, pass, pass_answer, pass_finished};
use crate::plans::finish_if_over;
use crate::proposing::announce_member;
use crate::reads::ReadList;
use crate::request_purpose::RequestPurpose;
use crate::requests::Request;
use crate::session_end::look_at_session;
use crate::suspended::KeptAnswer;
use crate::table::{Answered, Cancel};
use crate::tasks::{self, TASK_ID, TaskMethod, TaskState};

/// Reads the server's lines until the stream ends, and passes the allowed ones.
///
/// INVARIANT: this thread never waits for the server to read. A server that reads only after it has written would wait
/// for the gateway while the gateway waits for it.
pub(crate) fn read_server(link: &Link, stream: impl Read) {
    let bytes = link.settings.limits.server_line;
    let Ok(limits) = Limits::hard_caps().bytes(bytes) else {
        return;
    };
    let mut lines = LineReader::new(stream, bytes);
    let mut line = Vec::new();
    // A read error ends the stream.
    while let Ok(next) = lines.next(&mut line) {
        match next {
            PeerLine::Whole => link.server_speaks(|| server_line(link, &mut line, &limits)),
            PeerLine::TooLong(gleaned) => {
                link.server_speaks(|| unreadable(link, gleaned, Fault::LineTooLong));
            }
            PeerLine::End => break,
        }
    }
}

/// Answers a request that the server will not answer.
pub(crate) fn lost(link: &Link, id: &RpcId, fault: Fault) {
    let answered = link.asked.lock().answer(id);
    if let Answered::Open(request) = answered {
        link.record(Direction::ToClient, None, fault);
        give_up(link, request, fault);
        link.settled();
    }
}

/// Answers a request whose answer cannot be forwarded. A call that is dropped here is recorded as unknown.
fn give_up(link: &Link, request: Request<RequestPurpose>, fault: Fault) {
    let Request { client, what } = request;
    if let RequestPurpose::Own { serial, .. } = what {
        link.listing.deliver(serial, PageAnswer::Failed);
    }
    drop(what);
    if let Some(id) = client {
        link.answer(&id, error_line(Some(&id), fault));
    }
}

fn server_line(link: &Link, line: &mut [u8], limits: &Limits) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let read = read(line, Recipe::Rfc8785, limits);
    // A carriage return inside a line is whitespace to JSON but a line end to some readers, for whom the rest would be an
    // unchecked message. A space is whitespace to all of them.
    for byte in line.iter_mut().filter(|byte| **byte == b'\r') {
        *byte = b' ';
    }
    let message = match read {
        Ok(message) => message,
        Err(error) => return unreadable(link, glean(line), Fault::of_json(&error)),
    };
    match Message::read(message.value()) {
        Ok(Message::Request { id, method, .. }) => request(link, line, message.value(), &id, method),
        Ok(Message::Notification { method, .. })
            if era_2026::is_acknowledgement(method) && link.modern_server.is_on() => {}
        Ok(Message::Notification { method, params }) => {
            if let Some(mut line) =
                era_2026::without_stream(line, params).filter(|_| link.modern_server.is_on())
            {
                return server_line(link, &mut line, limits);
            }
            notification(link, line, message.value(), method, params);
        }
        Ok(Message::Answer { id, body }) => answer(link, line, message.value(), &id, body),
        Err(NotAMessage { fault, method, .. }) => {
            let id = message.value().get("id").and_then(RpcId::read);
            let is_answer = message.value().get("method").is_none();
            unreadable(link, Gleaned { id, method: method.map(Into::into), is_answer }, fault);
        }
    }
}

/// Drops a line that is too long or not a message. Only the request that it answers, if it is identifiable, fails with it.
fn unreadable(link: &Link, line: Gleaned, fault: Fault) {
    link.record(Direction::ToClient, line.method.as_deref(), fault);
    let Some(id) = line.id.filter(|_| line.is_answer) else {
        return;
    };
    let answered = link.asked.lock().answer(&id);
    if let Answered::Open(request) = answered {
        give_up(link, request, Fault::ServerAnswer);
        link.settled();
    }
}

fn request(link: &Link, line: &[u8], message: ValueRef<'_>, id: &RpcId, method: &str) {
    let refused = if link.is_too_early(method) {
        Some(Fault::NotInitialized)
    } else if link.to_client.modern.is_on() {
        // A client of the stateless era takes no requests. `ping` needs no client.
        if era_2025::is_ping(method) {
            link.to_server.offer(result_line(id, "{}"), MAX_REFUSALS);
            return;
        }
        match ask_in_place_of_result(link, line, message, id, method) {
            Ok(()) => return,
            Err(fault) => Some(fault),
        }
    } else if era_2025::server_request_passes(method, &link.settings.server_methods) {
        link.server_asked.lock().open(id.clone(), ()).err()
    } else {
        Some(Fault::NotAllowed)
    };
    let Some(fault) = refused else {
        return pass(link, line, message, Some(method), |_, _| {});
    };
    link.record(Direction::ToClient, Some(method), fault);
    let free = (fault != Fault::IdInUse).then_some(id);
    if !link.to_server.offer(error_line(free, fault), MAX_REFUSALS) {
        link.record(Direction::ToClient, Some(method), Fault::ServerNotReading);
    }
}

/// Asks a client of the stateless era a question of a server of the handshake era.
fn ask_in_place_of_result(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    id: &RpcId,
    method: &str,
) -> Result<(), Fault> {
    if link.modern_server.is_on() || !era_2025::server_request_passes(method, &link.settings.server_methods) {
        return Err(Fault::NotAllowed);
    }
    link.server_asked.lock().open(id.clone(), ())?;
    if input_from_2025::ask(link, line, message, id) {
        return Ok(());
    }
    link.server_asked.lock().withdraw(id);
    Err(Fault::NotAllowed)
}

fn notification(link: &Link, line: &[u8], message: ValueRef<'_>, method: &str, params: Option<ValueRef<'_>>) {
    if link.is_too_early(method) {
        return link.record(Direction::ToClient, Some(method), Fault::NotInitialized);
    }
    match era_2025::server_notification(method, &link.settings.server_methods) {
        ServerNotification::Pass => pass(link, line, message, Some(method), |_, _| {}),
        ServerNotification::ToolsChanged => {
            link.listing.forget();
            pass(link, line, message, Some(method), |_, _| {});
        }
        ServerNotification::Cancelled => cancelled(link, line, message, method, params),
        ServerNotification::Refuse => link.record(Direction::ToClient, Some(method), Fault::NotAllowed),
    }
}

fn cancelled(link: &Link, line: &[u8], message: ValueRef<'_>, method: &str, params: Option<ValueRef<'_>>) {
    let Some(id) = era_2025::cancelled_request(params) else {
        return link.record(Direction::ToClient, Some(method), Fault::BadParams);
    };
    let cancel = link.server_asked.lock().cancel(&id, line, |()| true);
    match cancel {
        Cancel::Pass(()) => pass(link, line, message, Some(method), |_, _| {}),
        Cancel::Held(()) | Cancel::Later(()) | Cancel::Nothing => {}
    }
}

fn answer(link: &Link, line: &[u8], message: ValueRef<'_>, id: &RpcId, body: Body<'_>) {
    let answered = link.asked.lock().answer(id);
    let request = match answered {
        Answered::Open(request) => request,
        Answered::Late => return,
        Answered::Unknown => return link.record(Direction::ToClient, None, Fault::UnexpectedAnswer),
    };
    let own = if request.client.is_none() { link.asked.lock().serial(id) } else { None };
    if let Some(serial) = own.filter(|serial| link.suspended.has(*serial)) {
        suspended(link, line, message, serial, request.what, body);
        return link.settled();
    }
    if let Some((client, result, state)) = asks_for_input(link, message, &request) {
        // The call goes on with another decision, if it does. One that is dropped is recorded as unknown.
        drop(request.what);
        let modern = &link.to_client.modern;
        if !modern.is_on() {
            input_to_2025::ask(link, &client, result, state);
        } else if let Some(state) = modern.rounds.open(&client, state, link.now()) {
            pass_answer(link, line, message, &client, |edits, place| with_state(edits, place, &state));
        } else {
            link.answer(&client, error_line(Some(&client), Fault::Internal));
        }
        return link.settled();
    }
    let request = match request {
        Request { client: Some(client), what: RequestPurpose::CallOrTask(in_flight, notice) } => {
            if let Some(task) = message.get("result").and_then(tasks::promised) {
                promised(link, line, message, &client, task, in_flight);
                return link.settled();
            }
            Request { client: Some(client), what: RequestPurpose::Call(in_flight, notice) }
        }
        Request { client: Some(client), what: RequestPurpose::Task(method, task) } => {
            told_of_task(link, line, message, &client, method, &task);
            return link.settled();
        }
        request => request,
    };
    if is_unfinished(link, message, &request.what) {
        link.record(Direction::ToClient, None, Fault::Unfinished);
        give_up(link, request, Fault::ServerAnswer);
        return link.settled();
    }
    if let (Some(client), RequestPurpose::ListReads(list), Body::Result(result)) =
        (&request.client, &request.what, body)
    {
        pass_reads(link, line, message, client, *list, result);
        return link.settled();
    }
    let Some(Request { client, what }) = asked_for_era(link, line, message, request, body) else {
        return link.settled();
    };
    let is_hello = matches!(what, RequestPurpose::Initialize(_));
    let is_call = matches!(what, RequestPurpose::Call(..));
    let mut notice = None;
    let dropped = match (&what, body) {
        (RequestPurpose::Initialize(_), Body::Result(result)) => review_instructions(link, result),
        _ => None,
    };
    if let Some(fault) = dropped {
        link.notify(fault);
    }
    let page = match what {
        RequestPurpose::Own { serial, epoch } => {
            let page = match body {
                Body::Result(result) => review_page(link, result, epoch, Page::Later),
                Body::Error => None,
            };
            link.listing.deliver(serial, page.map_or(PageAnswer::Failed, PageAnswer::from));
            Ok(None)
        }
        RequestPurpose::Call(in_flight, edited) => {
            notice = edited;
            ended(link, in_flight, body);
            Ok(None)
        }
        RequestPurpose::ListTools { epoch, page } => match body {
            Body::Error => Ok(None),
            Body::Result(result) => {
                review_page(link, result, epoch, page).map(Some).ok_or(Fault::ServerAnswer)
            }
        },
        RequestPurpose::Initialize(attempt) => match body {
            Body::Result(result) if era_2025::is_known_version(result) => {
                link.record_server(result, dropped).map(|()| {
                    // Before the client receives the answer and sends more.
                    attempt.succeed();
                    None
                })
            }
            Body::Result(_) => Err(Fault::ProtocolVersion),
            Body::Error => Ok(None),
        },
        RequestPurpose::Discover(..)
        | RequestPurpose::CallOrTask(..)
        | RequestPurpose::Task(..)
        | RequestPurpose::ListReads(_)
        | RequestPurpose::Listen
        | RequestPurpose::Other
        | RequestPurpose::Held => Ok(None),
    };
    if let Some(client) = client {
        match page {
            Ok(_) if is_hello => pass_answer(link, line, message, &client, |edits, place| {
                cut_look_alikes(link, edits, place, message);
                era_2025::narrow_server(edits, place, message, &link.client_methods(), link.may_promise());
                if dropped.is_some() {
                    era_2025::cut_instructions(edits, place);
                }
            }),
            Ok(None) => pass_finished(link, line, message, &client, is_call, notice.as_ref()),
            Ok(Some(page)) => pass_answer(link, line, message, &client, |edits, place| {
                cut_look_alikes(link, edits, place, message);
                era_2025::keep_items(edits, place, "tools", &page.kept, &page.own);
                let tools = place.find(&["result", "tools"]);
                if let Some(shown) = &link.settings.shown {
                    for (at, tool) in page.kept.iter().zip(&page.names) {
                        let name = tools.as_ref().and_then(|tools| tools.element(*at)?.get("name"));
                        if let Some(name) = name {
                            edits.replace(&name, format!("\"{}\"", shown.shown(tool)));
                        }
                    }
                }
                for tool in page.announced.iter().filter_map(|at| tools.as_ref()?.element(*at)) {
                    announce_member(edits, &tool);
                }
            }),
            Err(fault) => {
                link.record(Direction::ToClient, None, fault);
                link.answer(&client, error_line(Some(&client), fault));
            }
        }
    }
    link.settled();
}

/// Keeps a call whose result the server has promised, and passes the promise.
fn promised(link: &Link, line: &[u8], message: ValueRef<'_>, client: &RpcId, task: &str, call: InFlight) {
    let pending = link.pending_record(&call);
    if !link.tasks.add(task, call) {
        link.record(Direction::ToClient, None, Fault::ServerAnswer);
        return link.answer(client, error_line(Some(client), Fault::ServerAnswer));
    }
    link.record_pending(pending);
    pass_about_task(link, line, message, client, task);
}

/// Passes the answer to a request about a task. The end of a task is the outcome of its call.
fn told_of_task(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    client: &RpcId,
    method: TaskMethod,
    task: &str,
) {
    let result = message.get("result");
    let fits = match (method, result) {
        (_, None) => true,
        (TaskMethod::Update | TaskMethod::Cancel, Some(result)) => !era_2026::is_unfinished(result),
        (TaskMethod::Get, Some(result)) => match tasks::state_of(task, result) {
            None => false,
            Some(TaskState::Working) => true,
            Some(TaskState::Asks(requests)) => link.to_client.modern.rounds.may_make(client, requests),
            Some(ended @ (TaskState::Completed(_) | TaskState::Failed | TaskState::Cancelled)) => {
                task_ended(link, task, &ended);
                true
            }
        },
    };
    if !fits {
        link.record(Direction::ToClient, Some(method.as_str()), Fault::ServerAnswer);
        return link.answer(client, error_line(Some(client), Fault::ServerAnswer));
    }
    pass_about_task(link, line, message, client, task);
}

/// Forwards an answer about a task, whose id names its server if there are several.
fn pass_about_task(link: &Link, line: &[u8], message: ValueRef<'_>, client: &RpcId, task: &str) {
    pass_answer(link, line, message, client, |edits, place| {
        cut_look_alikes(link, edits, place, message);
        if let (Some(shown), Some(id)) = (&link.settings.shown, place.find(&["result", TASK_ID])) {
            edits.replace(&id, json_string(&shown.shown_whole(task)));
        }
    });
}

/// Records the outcome of a call whose task has ended. A task that another answer ended is gone.
fn task_ended(link: &Link, task: &str, state: &TaskState<'_>) {
    let Some(call) = link.tasks.take(task) else { return };
    match state {
        TaskState::Completed(result) if era_2025::is_success(Body::Result(*result)) => {
            call.finish_later(OutcomeKind::Returned);
        }
        TaskState::Completed(_) | TaskState::Failed => call.finish_later(OutcomeKind::Failed),
        // Whether the call ran is unknown. A call that is dropped is recorded so.
        TaskState::Cancelled | TaskState::Working | TaskState::Asks(_) => drop(call),
    }
}

/// Passes the list of what the session can read: nothing once it has expired.
fn pass_reads(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    client: &RpcId,
    list: ReadList,
    result: ValueRef<'_>,
) {
    look_at_session(link);
    let is_alive = link.is_session_alive();
    let kept = list.review(link.reads(), result).map(|kept| if is_alive { kept } else { Vec::new() });
    let Some(kept) = kept else {
        link.record(Direction::ToClient, None, Fault::ServerAnswer);
        return link.answer(client, error_line(Some(client), Fault::ServerAnswer));
    };
    pass_answer(link, line, message, client, |edits, place| {
        cut_look_alikes(link, edits, place, message);
        era_2025::keep_items(edits, place, list.member(), &kept, &[]);
        let Some(shown) = link.settings.shown.as_ref().filter(|_| list == ReadList::Prompts) else { return };
        let items = result.get(list.member()).into_iter().flat_map(ValueRef::elements).enumerate();
        let listed = place.find(&["result", list.member()]);
        for (at, prompt) in items.filter(|(at, _)| kept.contains(at)) {
            let name = prompt.get("name").and_then(ValueRef::as_str).map(|name| shown.shown_whole(name));
            let old = listed.as_ref().and_then(|items| items.element(at)?.get("name"));
            if let (Some(name), Some(old)) = (name, old) {
                edits.replace(&old, json_string(&name));
            }
        }
    });
}

/// Asks a server that refused `initialize` whether it is of the stateless era, and handles its answer. Returns any other
/// request.
fn asked_for_era(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    request: Request<RequestPurpose>,
    body: Body<'_>,
) -> Option<Request<RequestPurpose>> {
    let (client, what) = match request {
        Request { client: Some(client), what } => (client, what),
        Request { what: RequestPurpose::Listen, .. } => return None,
        own @ Request { client: None, .. } => return Some(own),
    };
    match (what, body) {
        (RequestPurpose::Initialize(attempt), Body::Error)
            if link.modern_server.asks(message.get("error")) =>
        {
            if let Some(id) = reopen(link, &client, RequestPurpose::Discover(attempt, Some(line.to_vec()))) {
                link.to_server.offer(link.modern_server.discover_line(&id), MAX_REFUSALS);
            }
            None
        }
        (RequestPurpose::Discover(attempt, refused), body) => {
            discovered(link, &client, attempt, refused.as_deref(), body);
            None
        }
        (what, _) => Some(Request { client: Some(client), what }),
    }
}

/// Turns a server's answer to the question for its era into its answer to `initialize`.
fn discovered(
    link: &Link,
    client: &RpcId,
    attempt: HandshakeAttempt,
    refused: Option<&[u8]>,
    body: Body<'_>,
) {
    let speaks = match body {
        Body::Result(result) => era_2026::is_spoken_by(result).then_some(result),
        Body::Error => None,
    };
    if speaks.is_none() && refused.is_none() {
        link.record(Direction::ToClient, None, Fault::ProtocolVersion);
        return link.answer(client, error_line(Some(client), Fault::ProtocolVersion));
    }
    let Some(id) = reopen(link, client, RequestPurpose::Initialize(attempt)) else { return };
    let mut line = match speaks {
        Some(result) => era_2026::initialized_by(&id, result).into_bytes(),
        None => replaced(refused.unwrap_or_default(), &["id"], &id.json()),
    };
    if speaks.is_some() {
        link.modern_server.turn_on();
    }
    server_line(link, &mut line, &Limits::hard_caps());
    if speaks.is_some() {
        listen(link);
    }
}

/// Asks the server again, or otherwise, in place of a client's request. Returns the new id towards the server.
fn reopen(link: &Link, client: &RpcId, what: RequestPurpose) -> Option<RpcId> {
    let mut table = link.asked.lock();
    match table.open(client.clone(), what) {
        Ok(serial) => {
            // The client's id is in use again, so the answers that wait for it go on waiting.
            table.take_behind(client);
            Some(table.wire_id(serial))
        }
        Err(fault) => {
            drop(table);
            link.answer(client, error_line(Some(client), fault));
            None
        }
    }
}

/// Opens the stream of the server's notifications.
fn listen(link: &Link) {
    let id = {
        let mut table = link.asked.lock();
        let serial = table.reserve();
        table.open_own(serial, RequestPurpose::Listen).ok().map(|()| table.wire_id(serial))
    };
    if let Some(id) = id {
        link.to_server.offer(link.modern_server.listen_line(&id), MAX_REFUSALS);
    }
}

/// Reads an answer by which the server asks for input, if it may: the client's id, the result, and the server's own state.
fn asks_for_input<'a>(
    link: &Link,
    message: ValueRef<'a>,
    request: &Request<RequestPurpose>,
) -> Option<(RpcId, ValueRef<'a>, Option<String>)> {
    let result = message.get("result").filter(|result| era_2026::is_input_required(*result))?;
    let client = request.client.as_ref()?;
    let state = link.to_client.modern.rounds.asks(client, result)?;
    Some((client.clone(), result, state))
}

/// Keeps the answer to a request whose client was asked for input in place of it. The outcome of a call is recorded now.
fn suspended(
    link: &Link,
    line: &[u8],
    message: ValueRef<'_>,
    serial: u64,
    what: RequestPurpose,
    body: Body<'_>,
) {
    let answer = if is_unfinished(link, message, &what) {
        link.record(Direction::ToClient, None, Fault::Unfinished);
        drop(what);
        KeptAnswer::Failed(Fault::ServerAnswer)
    } else {
        let is_call = matches!(what, RequestPurpose::Call(..));
        let mut notice = None;
        if let RequestPurpose::Call(in_flight, edited) = what {
            ended(link, in_flight, body);
            notice = edited;
        }
        KeptAnswer::Whole { line: line.to_vec(), is_call, notice }
    };
    let room = link.settings.limits.server_line;
    if let Some((client, answer)) = link.suspended.keep(serial, answer, room) {
        give(link, &client, answer);
    }
}

/// Returns whether an answer is not a final result: it requests input from the client, or promises a later result of a call.
/// Forwarded, it would let the server request input that the gateway does not let it request.
fn is_unfinished(link: &Link, message: ValueRef<'_>, asked: &RequestPurpose) -> bool {
    let is_call = matches!(asked, RequestPurpose::Call(..));
    let result = message.get("result");
    let error = message.get("error").filter(|error| era_2026::is_url_elicitation(*error));
    result.is_some_and(|result| era_2026::is_unfinished(result) || is_call && era_2026::is_task(result))
        || error.is_some()
            && (link.to_client.modern.is_on() || !era_2025::may_elicit(&link.settings.server_methods))
}

/// Records the outcome of a call. The answer does not wait for a disk, except for a step of the plan. For a step of the plan, the digest of its result is kept until the plan is finished.
fn ended(link: &Link, in_flight: InFlight, body: Body<'_>) {
    match body {
        Body::Result(result) if era_2025::is_success(body) && in_flight.plan_step().is_some() => {
            in_flight.observe(Digest::of(result.canonical_text().as_bytes()).as_bytes().to_vec());
            finish_if_over(link);
        }
        Body::Result(_) if era_2025::is_success(body) => in_flight.finish_later(OutcomeKind::Returned),
        Body::Result(_) | Body::Error => in_flight.finish_later(OutcomeKind::Failed),
    }
}
