use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use countersign_approval_token::{PendingApproval, PendingApprovals};
use countersign_audit_log::{AuditSink, EndReason};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_committed_plan::{Plan, PlanRoot};
use countersign_core::{CallId, Clock, Timestamp};
use countersign_registry::SessionContract;
use countersign_tool_gate::{PlanSettings, StartPlanError, ToolGate};
use parking_lot::Mutex;

use crate::answers::watch_answers;
use crate::calls::{decide_calls, decide_unlisted};
use crate::end_progress::EndedBy;
use crate::error::{CallIdError, GatewayError};
use crate::fault::Fault;
use crate::forms::ClientForms;
use crate::from_client::{make_again, read_client};
use crate::from_server::{lost, read_server};
use crate::input_from_2025::look_at_suspended;
use crate::input_to_2025::look_at_rounds;
use crate::line::{LineReader, PeerLines};
use crate::link::{Link, LinkParts, NewCallId};
use crate::message::RpcId;
use crate::notice::{ContractNews, GatewayNotice};
use crate::plans::finish;
use crate::recording::record_refusals;
use crate::session_end::look_at_session;
use crate::settings::GatewaySettings;
use crate::submission::LastStep;

/// Interval of the clock checks. After a suspend of the machine, expiry is noticed with at most this delay.
const LOOK: Duration = Duration::from_secs(1);

/// Time to wait, after a stop, for a decision in progress and for a client that reads slowly.
const AFTER_STOP: Duration = Duration::from_millis(100);

/// Relays JSON-RPC lines between one MCP client and one MCP server, and passes only allowed messages. One gateway serves
/// one session.
pub struct Gateway {
    parts: LinkParts,
    stop: GatewayStop,
}

/// Ends a [`Gateway`] from outside, for example on a signal. Clones end the same gateway.
#[derive(Clone, Default)]
pub struct GatewayStop {
    running: Arc<Mutex<GatewayState>>,
}

/// Reports to a [`Gateway`] which requests its server will not answer, for a transport that can lose one and keep the
/// others. Clones report to the same gateway.
#[derive(Clone)]
pub struct LostRequests {
    running: Arc<Mutex<GatewayState>>,
}

/// How a request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostRequest {
    /// It was not sent.
    NotSent,
    /// It was sent, and its answer is lost.
    NoAnswer,
}

#[derive(Default)]
enum GatewayState {
    #[default]
    NotYet,
    /// Stopped before it ran.
    Stopped(Duration),
    Now(Weak<Link>),
}

/// The reason that a gateway ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatewayEnd {
    /// The client ended its input, or stopped reading.
    ClientClosed,
    /// The server ended its output, or stopped reading.
    ServerEnded,
    /// The gateway was stopped ([`GatewayStop::stop`]).
    Stopped,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway")
            .field("settings", &self.parts.settings)
            .field("gate", &self.parts.gate)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LostRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LostRequests").finish_non_exhaustive()
    }
}

impl LostRequests {
    /// Answers the request with this id, as JSON, with an error. The outcome of a call becomes unknown.
    pub fn report(&self, id: &str, how: LostRequest) {
        let link = match &*self.running.lock() {
            GatewayState::Now(link) => link.upgrade(),
            GatewayState::NotYet | GatewayState::Stopped(_) => None,
        };
        let id = read(id.as_bytes(), Recipe::Rfc8785, &Limits::hard_caps());
        let id = id.ok().and_then(|id| RpcId::read(id.value()));
        if let Some((link, id)) = link.zip(id) {
            let fault = match how {
                LostRequest::NotSent => Fault::ServerUnreachable,
                LostRequest::NoAnswer => Fault::ServerNoAnswer,
            };
            link.server_speaks(|| lost(&link, &id, fault));
        }
    }
}

impl std::fmt::Debug for GatewayStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayStop").finish_non_exhaustive()
    }
}

impl GatewayStop {
    /// Stops the gateway: it decides no new call, and waits up to `drain` for answers to calls in flight. A second call ends
    /// that wait. A gateway that does not run yet ends as soon as it is run. Returns at once.
    pub fn stop(&self, drain: Duration) {
        let mut running = self.running.lock();
        match &*running {
            GatewayState::NotYet | GatewayState::Stopped(_) => *running = GatewayState::Stopped(drain),
            GatewayState::Now(link) => {
                if let Some(link) = link.upgrade() {
                    link.stop_calls(drain);
                }
            }
        }
    }

    /// Waits until all messages refused so far are recorded.
    #[cfg(test)]
    pub(crate) fn wait_recorded(&self) {
        let link = match &*self.running.lock() {
            GatewayState::Now(link) => link.upgrade(),
            GatewayState::NotYet | GatewayState::Stopped(_) => None,
        };
        if let Some(link) = link {
            link.recording.wait();
        }
    }

    fn runs(&self, link: &Arc<Link>) {
        let before = std::mem::replace(&mut *self.running.lock(), GatewayState::Now(Arc::downgrade(link)));
        if let GatewayState::Stopped(drain) = before {
            link.stop_calls(drain);
        }
    }
}

impl Gateway {
    /// Creates a gateway.
    ///
    /// `sink` is the gate's own sink. Without `pending`, a call that needs an approval is refused and cannot be
    /// approved. `new_call_id` returns a fresh id for each call. `before_call` runs before each decision; it may reload
    /// the registry.
    #[must_use]
    pub fn new(
        settings: GatewaySettings,
        gate: ToolGate,
        sink: Arc<dyn AuditSink>,
        clock: Arc<dyn Clock>,
        pending: Option<Arc<dyn PendingApprovals>>,
        new_call_id: Box<dyn Fn() -> Result<CallId, CallIdError> + Send + Sync>,
        before_call: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            parts: LinkParts {
                settings,
                gate,
                sink,
                clock,
                pending,
                new_call_id: new_call_id.into(),
                before_call,
                last_step: None,
                notice: Box::new(|_| {}),
                question: Box::new(|_, _| {}),
                forms: None,
                renewal: None,
                contract_news: None,
            },
            stop: GatewayStop::default(),
        }
    }

    /// Sets the callback for the operator's notices. It must not block.
    #[must_use]
    pub fn notices(mut self, tell: impl Fn(&GatewayNotice) + Send + Sync + 'static) -> Self {
        self.parts.notice = Box::new(tell);
        self
    }

    /// Sets the callback for each new question that waits for a person, with the beginning of its id that a person may type. It
    /// must not block.
    #[must_use]
    pub fn questions(mut self, tell: impl Fn(&PendingApproval, &str) + Send + Sync + 'static) -> Self {
        self.parts.question = Box::new(tell);
        self
    }

    /// Asks the person at the client as well, while a call waits for its approval ([`GatewaySettings::hold`]) and if the client shows
    /// forms (MCP 2025-11-25, *Elicitation*). By default no one is asked there. The client may answer by itself, so `forms` must not
    /// answer in the name of a person whom the host knows.
    #[must_use]
    pub fn forms(mut self, forms: Arc<dyn ClientForms>) -> Self {
        self.parts.forms = Some(forms);
        self
    }

    /// Renews the session when it expires ([`ToolGate::renew`]), with the contract that `negotiate` returns. The client is notified
    /// if its tools changed, the operator in any case ([`Gateway::notices`]). If `negotiate` fails, or the renewal cannot be
    /// recorded, every call is refused as without renewal, and the next call tries again. Denials are kept until the registry expires.
    #[must_use]
    pub fn renewal(
        mut self,
        negotiate: impl Fn(Timestamp) -> Result<SessionContract, GatewayNotice> + Send + Sync + 'static,
    ) -> Self {
        self.parts.renewal = Some(Box::new(negotiate));
        self
    }

    pub(crate) const fn settings(&self) -> &GatewaySettings {
        &self.parts.settings
    }

    pub(crate) const fn gate(&self) -> &ToolGate {
        &self.parts.gate
    }

    /// Makes the end of the session's contract known once, for all gateways of the session.
    pub(crate) fn share_news(&mut self, news: &Arc<ContractNews>) {
        self.parts.contract_news = Some(Arc::clone(news));
    }

    pub(crate) fn new_call_id(&self) -> NewCallId {
        Arc::clone(&self.parts.new_call_id)
    }

    /// Returns a handle that ends the gateway from outside.
    #[must_use]
    pub fn stop_handle(&self) -> GatewayStop {
        self.stop.clone()
    }

    /// Returns a handle that reports requests which the server will not answer.
    #[must_use]
    pub fn lost_requests(&self) -> LostRequests {
        LostRequests { running: Arc::clone(&self.stop.running) }
    }

    /// Commits the session to a plan from its first call ([`ToolGate::start_plan`]). `approval` is a token for the whole plan.
    ///
    /// # Errors
    /// [`StartPlanError`] if the plan cannot be started. The refusal is recorded.
    pub fn start_plan(&mut self, plan: Plan, approval: Option<&str>) -> Result<PlanRoot, StartPlanError> {
        let last_step = LastStep::of(&plan);
        let mut settings = PlanSettings::new(plan);
        if let Some(token) = approval {
            settings = settings.approval(token);
        }
        let root = self.parts.gate.start_plan(settings)?;
        self.parts.last_step = Some(last_step);
        Ok(root)
    }

    /// Relays messages in both directions until one side ends.
    ///
    /// `client_in` carries the client's output, `client_out` its input. `server_in` is the server's standard input,
    /// `server_out` its standard output. When the client ends, the server's input is closed and its answers are
    /// forwarded for the drain time. When the server ends, every outstanding request is answered with an error at
    /// once. When the gateway is stopped, it waits for the calls in flight, then closes the server's input.
    ///
    /// A thread that waits for a peer cannot be woken, so this may return while threads still hold the streams. The thread
    /// that reads `client_in` answers later requests with "the server ended" until that stream ends. The threads at the
    /// server remain until the server exits; the caller must end the server's process afterwards. Messages that those
    /// threads still refuse are recorded as a sum once they end. No call is accepted any more, and the outcome of each call
    /// is recorded unless it took longer than the drain time. The session's end is recorded after all of it
    /// ([`ToolGate::end_session`]).
    ///
    /// # Errors
    /// [`GatewayError`] if the operating system provides no threads or no random bytes.
    pub fn run(
        self,
        client_in: impl Read + Send + 'static,
        client_out: impl Write + Send + 'static,
        server_in: impl Write + Send + 'static,
        server_out: impl Read + Send + 'static,
    ) -> Result<GatewayEnd, GatewayError> {
        let client_in = LineReader::new(client_in, self.parts.settings.limits.client_line);
        self.run_lines(client_in, client_out, server_in, server_out)
    }

    pub(crate) fn run_lines(
        self,
        client_in: impl PeerLines + Send + 'static,
        client_out: impl Write + Send + 'static,
        server_in: impl Write + Send + 'static,
        server_out: impl Read + Send + 'static,
    ) -> Result<GatewayEnd, GatewayError> {
        let drain = Duration::from_millis(self.parts.settings.limits.drain.as_millis());
        let bits = getrandom::u64().map_err(|_| GatewayError::Random)?;
        let link = Arc::new(Link::new(self.parts, &format!("{bits:016x}")));
        self.stop.runs(&link);
        if let Err(error) = start_all(&link, client_in, client_out, server_in, server_out) {
            link.stop();
            link.end_session(EndReason::Error);
            return Err(GatewayError::Thread(error));
        }
        let end = link.wait_for_end();
        link.wait_for_rest(drain);
        let drain = if link.is_stopped() { AFTER_STOP } else { drain };
        link.to_server.close();
        link.fail_outstanding();
        link.tasks.end();
        // A call that is being decided still leaves a record, even if no one waits for its answer.
        link.calls.wait_idle(drain);
        link.unlisted.wait_idle(drain);
        link.waiting.wait_idle(drain);
        // A plan whose last step had calls left is finished here.
        finish(&link);
        link.end_recording(drain);
        link.end_session(match end {
            EndedBy::Client => EndReason::Client,
            EndedBy::Server => EndReason::Server,
            EndedBy::Gateway => EndReason::Signal,
        });
        link.to_client.end_streams();
        if end != EndedBy::Server {
            link.to_client.close();
        }
        link.to_client.wait_idle(drain);
        Ok(match end {
            EndedBy::Client => GatewayEnd::ClientClosed,
            EndedBy::Server => GatewayEnd::ServerEnded,
            EndedBy::Gateway => GatewayEnd::Stopped,
        })
    }
}

fn start_all(
    link: &Arc<Link>,
    client_in: impl PeerLines + Send + 'static,
    client_out: impl Write + Send + 'static,
    server_in: impl Write + Send + 'static,
    server_out: impl Read + Send + 'static,
) -> io::Result<()> {
    start(link, "client-out", move |link| link.to_client.write_to(client_out), Link::client_stopped_reading)?;
    start(link, "server-in", move |link| link.to_server.write_to(server_in), Link::server_stopped_reading)?;
    start(link, "calls", decide_calls, Link::calls_looked_at)?;
    start(link, "unlisted", decide_unlisted, Link::calls_ended)?;
    start(link, "answers", watch_answers, |_| {})?;
    start(link, "session", watch_session, |_| {})?;
    start(link, "record", record_refusals, |_| {})?;
    start(link, "server-out", move |link| read_server(link, server_out), Link::server_ended)?;
    start(link, "client-in", move |link| read_client(link, client_in), Link::client_ended)
}

/// Checks the ends of the session and of the requests for input, and records the outcomes that wait and the sums of refusals that
/// are due, until the gateway ends.
fn watch_session(link: &Link) {
    loop {
        look_at_session(link);
        look_at_rounds(link).into_iter().for_each(|round| make_again(link, round));
        look_at_suspended(link);
        link.record_late();
        if link.wait_while_it_runs(LOOK) {
            return;
        }
    }
}

/// Starts a thread that runs `work` and then `after`, even if `work` panics: `after` notifies the other threads.
fn start(
    link: &Arc<Link>,
    name: &str,
    work: impl FnOnce(&Link) + Send + 'static,
    after: fn(&Link),
) -> io::Result<()> {
    struct After(Arc<Link>, fn(&Link));
    impl Drop for After {
        fn drop(&mut self) {
            (self.1)(&self.0);
        }
    }
    let after = After(Arc::clone(link), after);
    let thread = thread::Builder::new().name(format!("countersign-{name}"));
    thread.spawn(move || work(&after.0)).map(drop)
}
