use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use countersign_approval_token::PendingApprovals;
use countersign_audit_log::{AuditSink, EndReason};
use countersign_committed_plan::{Plan, PlanRoot};
use countersign_core::{CallId, Clock, Timestamp};
use countersign_registry::SessionContract;
use countersign_tool_gate::{PlanSettings, StartPlanError, ToolGate};
use parking_lot::Mutex;

use crate::calls::{decide_calls, decide_unlisted};
use crate::error::{CallIdError, GatewayError};
use crate::from_client::read_client;
use crate::from_server::read_server;
use crate::last_step::LastStep;
use crate::link::{End, Link, LinkParts};
use crate::notice::GatewayNotice;
use crate::plans::finish;
use crate::queue::Queue;
use crate::recording::record_refusals;
use crate::session_end::watch_session;
use crate::settings::GatewaySettings;

/// How long a decision under way, and a client that reads slowly, are waited for once the gateway was stopped.
const AFTER_STOP: Duration = Duration::from_millis(100);

/// Stands between one MCP client and one MCP server that speak JSON-RPC in lines, and lets nothing pass that is not
/// allowed. One gateway serves one session.
pub struct Gateway {
    parts: LinkParts,
    stop: GatewayStop,
}

/// Ends a [`Gateway`] from outside, as at a signal. Clones end the same gateway.
#[derive(Clone, Default)]
pub struct GatewayStop {
    running: Arc<Mutex<Running>>,
}

#[derive(Default)]
enum Running {
    #[default]
    NotYet,
    /// Stopped before it ran.
    Stopped(Duration),
    Now(Weak<Link>),
}

/// How a gateway came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatewayEnd {
    /// The client ended its input, or stopped reading.
    ClientClosed,
    /// The server ended its output, or stopped reading.
    ServerEnded,
    /// It was stopped ([`GatewayStop::stop`]).
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

impl std::fmt::Debug for GatewayStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayStop").finish_non_exhaustive()
    }
}

impl GatewayStop {
    /// Stops the gateway: no new call is decided, and calls in flight have `drain` to be answered. Called again, it ends the
    /// waiting. A gateway that does not run yet ends when it is run. Returns at once.
    pub fn stop(&self, drain: Duration) {
        let mut running = self.running.lock();
        match &*running {
            Running::NotYet | Running::Stopped(_) => *running = Running::Stopped(drain),
            Running::Now(link) => {
                if let Some(link) = link.upgrade() {
                    link.stop_calls(drain);
                }
            }
        }
    }

    /// Waits until all refused messages so far are recorded.
    #[cfg(test)]
    pub(crate) fn wait_recorded(&self) {
        let link = match &*self.running.lock() {
            Running::Now(link) => link.upgrade(),
            Running::NotYet | Running::Stopped(_) => None,
        };
        if let Some(link) = link {
            link.recording.wait();
        }
    }

    fn runs(&self, link: &Arc<Link>) {
        let before = std::mem::replace(&mut *self.running.lock(), Running::Now(Arc::downgrade(link)));
        if let Running::Stopped(drain) = before {
            link.stop_calls(drain);
        }
    }
}

impl Gateway {
    /// Makes a gateway.
    ///
    /// `sink` is the gate's own sink. Without `pending`, a call that needs an approval is refused and cannot be
    /// approved. `new_call_id` gives a fresh id for each call. `before_call` runs before each decision; it may load the
    /// registry again.
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
                new_call_id,
                before_call,
                last_step: None,
                notice: Box::new(|_| {}),
                renewal: None,
            },
            stop: GatewayStop::default(),
        }
    }

    /// Calls `tell` with what the operator has to know. It must not wait for anything.
    #[must_use]
    pub fn notices(mut self, tell: impl Fn(&GatewayNotice) + Send + Sync + 'static) -> Self {
        self.parts.notice = Box::new(tell);
        self
    }

    /// Renews the session when its time is over ([`ToolGate::renew`]), by the contract that `negotiate` returns. The client is notified
    /// if its tools are others then, the operator in any case ([`Gateway::notices`]). Where `negotiate` fails, or the renewal cannot
    /// be recorded, every call is refused as without it, and the next call tries again. Denials are kept until the registry expires.
    #[must_use]
    pub fn renewal(
        mut self,
        negotiate: impl Fn(Timestamp) -> Result<SessionContract, GatewayNotice> + Send + Sync + 'static,
    ) -> Self {
        self.parts.renewal = Some(Box::new(negotiate));
        self
    }

    /// A handle that ends the gateway from outside.
    #[must_use]
    pub fn stop_handle(&self) -> GatewayStop {
        self.stop.clone()
    }

    /// Holds the session to a plan from its first call on ([`ToolGate::start_plan`]). `approval` is a token for the whole plan.
    ///
    /// # Errors
    /// [`StartPlanError`] when the plan cannot be started. That is on record.
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

    /// Passes messages both ways until one side ends.
    ///
    /// `client_in` is what the client writes, `client_out` what it reads; `server_in` is the server's standard input,
    /// `server_out` its standard output. When the client ends, the server's input is closed and its answers are
    /// passed on for the drain time. When the server ends, every outstanding request is answered with an error at
    /// once. When the gateway is stopped, calls in flight are waited for, then the server's input is closed.
    ///
    /// A thread that waits for a peer cannot be woken. So this may return while threads still hold the streams: the
    /// one that reads `client_in` answers later requests with "the server ended" until that stream ends, and the ones
    /// at the server stay until the server is gone. Whoever calls this ends the server's process afterwards. What those
    /// threads still refuse is recorded as a sum once they end: no call is accepted any more, and how each ended is on record, unless
    /// that took longer than the drain time. The session's end is recorded behind all of it ([`ToolGate::end_session`]).
    ///
    /// # Errors
    /// [`GatewayError`] when the operating system gives no threads or no random bytes.
    pub fn run(
        self,
        client_in: impl Read + Send + 'static,
        client_out: impl Write + Send + 'static,
        server_in: impl Write + Send + 'static,
        server_out: impl Read + Send + 'static,
    ) -> Result<GatewayEnd, GatewayError> {
        let drain = self.parts.settings.limits().drain();
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
        // A call that is being decided leaves something on record, even if nobody waits for it any more.
        link.calls.wait_idle(drain);
        link.unlisted.wait_idle(drain);
        // One whose last step had calls left is finished by the end.
        finish(&link);
        link.end_recording(drain);
        link.end_session(match end {
            End::Client => EndReason::Client,
            End::Server => EndReason::Server,
            End::Gateway => EndReason::Signal,
        });
        if end != End::Server {
            link.to_client.close();
        }
        link.to_client.wait_idle(drain);
        Ok(match end {
            End::Client => GatewayEnd::ClientClosed,
            End::Server => GatewayEnd::ServerEnded,
            End::Gateway => GatewayEnd::Stopped,
        })
    }
}

fn start_all(
    link: &Arc<Link>,
    client_in: impl Read + Send + 'static,
    client_out: impl Write + Send + 'static,
    server_in: impl Write + Send + 'static,
    server_out: impl Read + Send + 'static,
) -> io::Result<()> {
    start(link, "client-out", move |link| write_lines(&link.to_client, client_out), Link::client_deaf)?;
    start(link, "server-in", move |link| write_lines(&link.to_server, server_in), Link::server_deaf)?;
    start(link, "calls", decide_calls, Link::calls_looked_at)?;
    start(link, "unlisted", decide_unlisted, Link::calls_ended)?;
    start(link, "session", watch_session, |_| {})?;
    start(link, "record", record_refusals, |_| {})?;
    start(link, "server-out", move |link| read_server(link, server_out), Link::server_ended)?;
    start(link, "client-in", move |link| read_client(link, client_in), Link::client_ended)
}

/// Starts a thread that runs `work` and then `after`, even when `work` panics: the rest must hear of it.
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

/// Writes whole lines to one peer until there will be no more or the peer takes no more.
fn write_lines(lines: &Queue<Vec<u8>>, mut peer: impl Write) {
    while let Some(mut line) = lines.take() {
        line.push(b'\n');
        if peer.write_all(&line).and_then(|()| peer.flush()).is_err() {
            break;
        }
    }
}
