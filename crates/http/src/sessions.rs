//! The open sessions, bounded in number. Idle ones are ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use countersign_audit_log::EndReason;
use countersign_core::{Millis, SessionId};
use countersign_host::time::now;
use parking_lot::Mutex;

use crate::access::Caller;
use crate::problem::Problem;
use crate::served::ServedSession;

/// The open sessions by id. A place is taken while its session is opened.
#[derive(Debug)]
pub(crate) struct Sessions {
    max: usize,
    open: Mutex<OpenSessions>,
}

#[derive(Debug, Default)]
struct OpenSessions {
    places: BTreeMap<SessionId, Option<Arc<ServedSession>>>,
    closed: bool,
}

impl Sessions {
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, open: Mutex::new(OpenSessions { places: BTreeMap::new(), closed: false }) }
    }

    /// Returns an open session of this caller. Another caller's session is unknown to it.
    pub(crate) fn get(&self, id: &SessionId, caller: &Caller) -> Result<Arc<ServedSession>, Problem> {
        let found = self.open.lock().places.get(id).cloned().flatten();
        found.filter(|session| session.is_owned_by(&caller.name)).ok_or_else(unknown)
    }

    /// Takes a place, fills it by `open`, and frees it again if that fails.
    pub(crate) fn add(
        &self,
        id: &SessionId,
        open: impl FnOnce() -> Result<ServedSession, Problem>,
    ) -> Result<Arc<ServedSession>, Problem> {
        {
            let mut sessions = self.open.lock();
            if sessions.closed {
                return Err(Problem::busy());
            }
            if sessions.places.contains_key(id) {
                let text = "a session with this id is open";
                return Err(Problem::new(StatusCode::CONFLICT, "SESSION_EXISTS", text));
            }
            if sessions.places.len() >= self.max {
                let text = "too many sessions are open: end one, or raise `sessions` of `serve`";
                return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "SESSIONS_FULL", text));
            }
            sessions.places.insert(id.clone(), None);
        }
        let place = SessionPlace { sessions: self, id };
        let session = Arc::new(open()?);
        let mut sessions = self.open.lock();
        if sessions.closed {
            drop(sessions);
            session.end(EndReason::Signal);
            return Err(Problem::busy());
        }
        sessions.places.insert(id.clone(), Some(Arc::clone(&session)));
        drop(sessions);
        std::mem::forget(place);
        Ok(session)
    }

    /// Ends a session. Its place is free once it has ended.
    pub(crate) fn end(&self, id: &SessionId, session: &ServedSession, reason: EndReason) {
        session.end(reason);
        self.open.lock().places.remove(id);
    }

    /// Ends sessions that have expired or were not used for `idle`, and records late entries of the others.
    pub(crate) fn look(&self, idle: Millis) {
        let Ok(now) = now() else { return };
        for (id, session) in self.all() {
            if session.is_over(idle, now) {
                self.end(&id, &session, EndReason::Client);
            } else {
                session.record_late(now);
            }
        }
    }

    /// Opens no more sessions, and ends all.
    pub(crate) fn close(&self) {
        self.open.lock().closed = true;
        for (id, session) in self.all() {
            self.end(&id, &session, EndReason::Signal);
        }
    }

    fn all(&self) -> Vec<(SessionId, Arc<ServedSession>)> {
        let open = self.open.lock();
        let filled =
            open.places.iter().filter_map(|(id, place)| Some((id.clone(), Arc::clone(place.as_ref()?))));
        filled.collect()
    }
}

/// Frees a session's place when it is dropped.
struct SessionPlace<'s> {
    sessions: &'s Sessions,
    id: &'s SessionId,
}

impl Drop for SessionPlace<'_> {
    fn drop(&mut self) {
        self.sessions.open.lock().places.remove(self.id);
    }
}

pub(crate) fn unknown() -> Problem {
    let text = "no open session of this caller has this id";
    Problem::new(StatusCode::NOT_FOUND, "SESSION_UNKNOWN", text)
}
