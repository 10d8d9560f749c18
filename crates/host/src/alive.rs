//! Heartbeats of a session: they show whether its questions still need an answer.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use countersign_approval_token::{PendingApprovals as _, SessionKind};
use countersign_core::SessionId;
use countersign_sqlite::SqliteStore;

use crate::error::HostError;
use crate::report::Reporter;
use crate::time::now;

/// Time between two heartbeats. A session without one for three periods counts as ended.
const BEAT: Duration = Duration::from_secs(5);

/// Reports a session as alive to its store of questions from its own thread, and as ended when dropped.
#[derive(Debug)]
pub struct LiveSession {
    store: Arc<SqliteStore>,
    session: SessionId,
    /// Dropping it stops the thread.
    _running: Sender<()>,
}

impl LiveSession {
    /// Starts with the first heartbeat.
    ///
    /// # Errors
    /// A store that cannot be written, and `GATEWAY_THREAD`.
    pub fn begin(
        store: Arc<SqliteStore>,
        session: SessionId,
        kind: SessionKind,
        reporter: Reporter,
    ) -> Result<Self, HostError> {
        store.note_alive(&session, kind, now()?)?;
        let (running, stopped) = channel();
        let (of, at) = (session.clone(), Arc::clone(&store));
        let beats = move || {
            let mut is_well = true;
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let beat = now().and_then(|now| Ok(at.note_alive(&of, kind, now)?));
                if let (true, Err(failure)) = (is_well, &beat) {
                    let text = "the session cannot be reported as alive, and approvals of its calls fail";
                    reporter.warn(failure.code(), &format!("{text}: {}", failure.line()));
                }
                is_well = beat.is_ok();
            }
        };
        let thread = thread::Builder::new().name("countersign-alive".to_owned());
        let started = thread.spawn(beats).map(drop);
        started.map_err(|error| HostError::new("GATEWAY_THREAD", error.to_string()))?;
        Ok(Self { store, session, _running: running })
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        // A late heartbeat does not revive an ended session. If this call fails, the session counts as ended a little
        // later.
        let _ = self.store.end_session(&self.session);
    }
}
