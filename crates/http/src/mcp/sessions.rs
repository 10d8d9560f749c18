//! The open sessions, bounded in number and for each caller.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use axum::http::StatusCode;
use countersign_core::{AgentId, Principal, SessionId};
use countersign_host::error::HostError;
use countersign_host::random;
use countersign_host::report::Reporter;
use countersign_mcp::PeerStream;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::channel;

use crate::access::{Caller, Owner};
use crate::mcp::lines::{PostedLines, ReturnedLines};
use crate::mcp::opening::{McpCaller, OpenGateway, OpenMcpGateway};
use crate::mcp::session::{McpSession, ToolHeaders};
use crate::problem::Problem;

/// Posts that wait for a gateway to read them.
const WAITING: usize = 16;
/// Held while a session is opened. First come, first served.
type OpeningTurn = tokio::sync::Mutex<()>;

/// Code of a refusal for want of room.
pub(crate) const FULL: &str = "SESSIONS_FULL";
/// Share of the sessions that one caller may have.
const CALLER_SHARE: usize = 4;

/// The sessions, by the id that a client of the handshake era has, and by the caller for the stateless era.
pub(crate) struct McpSessions {
    open_gateway: OpenGateway,
    max: usize,
    idle: Duration,
    table: Mutex<SessionTable>,
    running: Arc<RunningGateways>,
    /// Sessions of the handshake era that are to be opened, by owner.
    asked: Mutex<BTreeMap<Owner, AskedSessions>>,
    pub(crate) tools: Arc<ToolHeaders>,
}

#[derive(Default)]
struct SessionTable {
    handshake: BTreeMap<String, Arc<McpSession>>,
    /// One session for each caller: no message of the era names one. The lock is held while it is opened.
    stateless: BTreeMap<Owner, Arc<Mutex<Option<Arc<McpSession>>>>>,
    has_closed: bool,
}

/// Gateways that run, with those whose session is ending.
#[derive(Default)]
struct RunningGateways {
    count: Mutex<BTreeMap<Owner, usize>>,
    ended: Condvar,
}

/// Sessions of one caller that are to be opened.
#[derive(Default)]
struct AskedSessions {
    count: usize,
    turn: Arc<OpeningTurn>,
}

/// A session that is to be opened.
pub(crate) struct AskedSession<'s> {
    sessions: &'s McpSessions,
    owner: Owner,
    turn: Arc<OpeningTurn>,
}

impl AskedSession<'_> {
    /// Waits for the turn to open a session. A caller opens one after another: each costs several syncs, for which the calls of
    /// others would wait.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

impl Drop for AskedSession<'_> {
    fn drop(&mut self) {
        let mut asked = self.sessions.asked.lock();
        if let Some(own) = asked.get_mut(&self.owner) {
            own.count = own.count.saturating_sub(1);
            if own.count == 0 {
                asked.remove(&self.owner);
            }
        }
    }
}

/// One gateway that runs.
struct RunningGateway {
    running: Arc<RunningGateways>,
    owner: Owner,
}

impl std::fmt::Debug for McpSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSessions").field("max", &self.max).finish_non_exhaustive()
    }
}

impl McpSessions {
    pub(crate) fn new(max: usize, idle: Duration, open_gateway: OpenGateway) -> Self {
        Self {
            open_gateway,
            max,
            idle,
            table: Mutex::default(),
            running: Arc::default(),
            asked: Mutex::default(),
            tools: Arc::default(),
        }
    }

    /// Opens a session of the handshake era, and returns it with its random id.
    pub(crate) fn begin(
        &self,
        caller: &Caller,
        agent: &AgentId,
        reporter: &Reporter,
    ) -> Result<(String, Arc<McpSession>), Problem> {
        let id = random::id::<SessionId>("mcp").map_err(|error| Problem::of(&error, reporter))?;
        let (id, session) = (id.as_str().to_owned(), self.open(caller, agent, reporter)?);
        let mut table = self.table.lock();
        if table.has_closed {
            drop(table);
            session.stop(Duration::ZERO);
            return Err(Problem::busy());
        }
        table.handshake.insert(id.clone(), Arc::clone(&session));
        Ok((id, session))
    }

    /// Returns the caller's session of the stateless era, and opens a new one if that is missing or over.
    pub(crate) fn stateless(
        &self,
        caller: &Caller,
        agent: &AgentId,
        reporter: &Reporter,
    ) -> Result<Arc<McpSession>, Problem> {
        let place = Arc::clone(self.table.lock().stateless.entry(caller.owner()).or_default());
        let mut place = place.lock();
        if let Some(session) = place.as_ref().filter(|session| !session.is_over(self.idle)) {
            return Ok(Arc::clone(session));
        }
        if let Some(over) = place.take() {
            over.end();
        }
        let session = self.open(caller, agent, reporter)?;
        // why: a service that ends ends all sessions that it finds, and this one is not there yet.
        if self.table.lock().has_closed {
            session.stop(Duration::ZERO);
            return Err(Problem::busy());
        }
        *place = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Returns the caller's session of the stateless era, if it is open and not over.
    pub(crate) fn open_stateless(&self, caller: &Caller) -> Option<Arc<McpSession>> {
        let place = self.table.lock().stateless.get(&caller.owner()).cloned()?;
        // A session that is being opened has seen no request.
        place.try_lock()?.as_ref().filter(|session| !session.is_over(self.idle)).cloned()
    }

    /// Returns the caller's session with this id. Another caller's session is unknown to it.
    pub(crate) fn get(&self, id: &str, caller: &Caller) -> Option<Arc<McpSession>> {
        let found = self.table.lock().handshake.get(id).cloned();
        found.filter(|session| session.owner == caller.owner() && !session.has_ended())
    }

    /// Ends the session with this id.
    pub(crate) fn end(&self, id: &str) {
        if let Some(session) = self.table.lock().handshake.remove(id) {
            session.end();
        }
    }

    /// Ends the sessions that are over.
    pub(crate) fn look(&self) {
        let mut table = self.table.lock();
        let over = table.handshake.extract_if(.., |_, session| session.is_over(self.idle));
        over.for_each(|(_, session)| session.end());
        for place in table.stateless.values() {
            let Some(mut place) = place.try_lock() else { continue };
            if let Some(over) = place.take_if(|session| session.is_over(self.idle)) {
                over.end();
            }
        }
    }

    /// Opens no more sessions, and stops all gateways after the given time for the calls in flight.
    pub(crate) fn stop(&self, drain: Duration) {
        let mut table = self.table.lock();
        table.has_closed = true;
        table.handshake.values().for_each(|session| session.stop(drain));
        for place in table.stateless.values() {
            if let Some(session) = place.try_lock().as_deref().and_then(Option::as_ref) {
                session.stop(drain);
            }
        }
    }

    /// Stops all gateways, and waits until they have ended, for at most twice the given time.
    pub(crate) fn close(&self, drain: Duration) {
        self.stop(drain);
        self.running.wait(drain.saturating_mul(2));
    }

    /// Opens a session and starts its gateway.
    fn open(
        &self,
        caller: &Caller,
        agent: &AgentId,
        reporter: &Reporter,
    ) -> Result<Arc<McpSession>, Problem> {
        let fault = |error: HostError| Problem::of(&error, reporter);
        let principal = Principal::new(caller.name.as_str())
            .map_err(|error| fault(HostError::new("CALLER_NAME", error.to_string())))?;
        let running = self.room(caller)?;
        let session = random::id("session").map_err(fault)?;
        let asked = McpCaller { session, agent: caller.agent(agent).clone(), principal };
        let OpenMcpGateway { run, stop, has_expired } = (self.open_gateway)(asked).map_err(fault)?;
        let (input, lines) = channel(WAITING);
        let session =
            Arc::new(McpSession::new(caller.owner(), input, stop, has_expired, Arc::clone(&self.tools)));
        let delivered: Weak<McpSession> = Arc::downgrade(&session);
        let at_end = Arc::clone(&session);
        let work = move || {
            let deliver = move |line| delivered.upgrade().is_some_and(|session| session.deliver(line));
            run(Box::new(PostedLines::new(lines)), PeerStream::of_lines(ReturnedLines::new(deliver)));
            at_end.ended();
            drop(running);
        };
        let thread = thread::Builder::new().name("countersign-mcp".to_owned());
        thread.spawn(work).map_err(|error| fault(HostError::new("SERVE_THREAD", error.to_string())))?;
        Ok(session)
    }

    /// Takes room for one more gateway.
    fn room(&self, caller: &Caller) -> Result<RunningGateway, Problem> {
        let running = RunningGateways::begin(&self.running, &caller.owner(), self.max, self.share());
        running.ok_or_else(|| {
            let text = "too many sessions are open: end one, or raise `sessions` of `serve`";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, FULL, text)
        })
    }

    /// Counts a session of the caller's that is to be opened, until the result is dropped.
    pub(crate) fn ask(&self, caller: &Caller) -> AskedSession<'_> {
        let owner = caller.owner();
        let mut asked = self.asked.lock();
        let own = asked.entry(owner.clone()).or_default();
        own.count = own.count.saturating_add(1);
        let turn = Arc::clone(&own.turn);
        AskedSession { sessions: self, owner, turn }
    }

    /// Ends the caller's least recently used idle session if its sessions and those that are to be opened are above its share.
    /// There is room for another one once the gateway has ended.
    pub(crate) fn make_room(&self, caller: &Caller) {
        let owner = caller.owner();
        let asked = self.asked.lock().get(&owner).map_or(0, |own| own.count);
        let mut table = self.table.lock();
        // why: a place is locked while its session is opened, and that takes the table's lock.
        let is_taken = |place: &Arc<Mutex<_>>| place.try_lock().is_none_or(|place| Option::is_some(&place));
        let stateless = table.stateless.get(&owner).is_some_and(is_taken);
        let own = || table.handshake.iter().filter(|(_, it)| it.owner == owner);
        if own().count().saturating_add(usize::from(stateless)).saturating_add(asked) <= self.share() {
            return;
        }
        let idle = own().filter(|(_, it)| it.is_idle());
        if let Some(oldest) = idle.max_by_key(|(_, it)| it.unused()).map(|(id, _)| id.clone())
            && let Some(session) = table.handshake.remove(&oldest)
        {
            session.end();
        }
    }

    /// Greatest number of gateways of one caller.
    const fn share(&self) -> usize {
        self.max.div_ceil(CALLER_SHARE)
    }
}

impl RunningGateways {
    /// Counts one more gateway, unless there are `max`, or the owner has its `share`.
    fn begin(this: &Arc<Self>, owner: &Owner, max: usize, share: usize) -> Option<RunningGateway> {
        let mut count = this.count.lock();
        if count.values().sum::<usize>() >= max || count.get(owner).is_some_and(|own| *own >= share) {
            return None;
        }
        let own = count.entry(owner.clone()).or_default();
        *own = own.saturating_add(1);
        Some(RunningGateway { running: Arc::clone(this), owner: owner.clone() })
    }

    /// Waits until no gateway runs.
    fn wait(&self, limit: Duration) {
        let mut count = self.count.lock();
        self.ended.wait_while_for(&mut count, |count| !count.is_empty(), limit);
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        let mut count = self.running.count.lock();
        if let Some(own) = count.get_mut(&self.owner) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                count.remove(&self.owner);
            }
        }
        self.running.ended.notify_all();
    }
}
