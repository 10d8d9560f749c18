//! Logins: a cookie for each, with a limit on attempts.

use std::collections::HashMap;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, StatusCode};
use countersign_core::{Digest, OperatorId, Timestamp};
use countersign_host::error::HostError;
use countersign_host::random::secret;
use countersign_host::time::now;
use parking_lot::Mutex;

use crate::problem::Problem;

/// Name of the cookie.
pub(crate) const COOKIE_NAME: &str = "countersign";
/// Time after which a login ends.
const LIFETIME_MS: u64 = 12 * 3_600_000;
/// Time without a request after which a login ends.
const IDLE_MS: u64 = 3_600_000;
/// Most logins at a time.
const MAX_LOGINS: usize = 1_024;
/// Wrong attempts after which a name has to wait.
const MAX_WRONG: u32 = 5;
/// How long it waits.
const WAIT_MS: u64 = 60_000;

/// A person who is logged in.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: OperatorId,
    /// Text that the forms of this login carry.
    pub(crate) csrf: String,
    begun: Timestamp,
    used: Timestamp,
}

/// The logins, by the digest of their cookie.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    open: Mutex<HashMap<Digest, Login>>,
    /// Wrong attempts and the last one's time, by name; all unknown names share the empty one.
    wrong: Mutex<HashMap<String, (u32, Timestamp)>>,
}

impl Login {
    fn is_over(&self, now: Timestamp) -> bool {
        let age = |since: Timestamp| now.as_millis().abs_diff(since.as_millis());
        age(self.begun) >= LIFETIME_MS || age(self.used) >= IDLE_MS
    }

    /// Checks that this login's page wrote a form.
    pub(crate) fn check(&self, csrf: &str) -> Result<(), Problem> {
        // Digests compare in constant time.
        if Digest::of(csrf.as_bytes()) == Digest::of(self.csrf.as_bytes()) {
            return Ok(());
        }
        let text = "the form is not of this login: open the question again";
        Err(Problem::new(StatusCode::FORBIDDEN, "FORM_FOREIGN", text))
    }
}

impl Logins {
    /// Returns the login of a request.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<Login> {
        let (now, id) = (now().ok()?, cookie(headers)?);
        let mut open = self.open.lock();
        let login = open.get_mut(&id).filter(|login| !login.is_over(now))?;
        login.used = now;
        Some(login.clone())
    }

    /// Begins a login and returns its cookie's value.
    pub(crate) fn begin(&self, user: OperatorId) -> Result<String, HostError> {
        let (now, value, csrf) = (now()?, random_text()?, random_text()?);
        let mut open = self.open.lock();
        open.retain(|_, login| !login.is_over(now));
        if open.len() >= MAX_LOGINS {
            return Err(HostError::new("LOGINS_FULL", "too many people are logged in"));
        }
        open.insert(Digest::of(value.as_bytes()), Login { user, csrf, begun: now, used: now });
        Ok(value)
    }

    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.open.lock().remove(&id);
        }
    }

    /// Counts an attempt before it is judged, so that attempts at once do not pass the limit together.
    pub(crate) fn attempt(&self, name: &str, now: Timestamp) -> Result<(), Problem> {
        let mut wrong = self.wrong.lock();
        let (count, last) = wrong.entry(name.to_owned()).or_insert((0, now));
        if now.as_millis().abs_diff(last.as_millis()) >= WAIT_MS {
            *count = 0;
        }
        if *count >= MAX_WRONG {
            let text = "too many wrong attempts: wait a minute";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "LOGIN_LIMIT", text));
        }
        (*count, *last) = (count.saturating_add(1), now);
        Ok(())
    }

    pub(crate) fn forgive(&self, name: &str) {
        self.wrong.lock().remove(name);
    }
}

fn random_text() -> Result<String, HostError> {
    let bytes = secret::<32>()?;
    Ok(Digest::from_bytes(*bytes).to_string())
}

/// Returns the digest of the login's cookie. A repeated one does not count.
fn cookie(headers: &HeaderMap) -> Option<Digest> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut own = all.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE_NAME).then_some(value)
    });
    own.next().filter(|_| own.next().is_none()).map(|value| Digest::of(value.as_bytes()))
}
