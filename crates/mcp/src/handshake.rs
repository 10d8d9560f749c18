//! State of the session's handshake. Before it is done, only the handshake itself, `ping` and the server's log messages
//! pass (MCP 2025-11-25, *Lifecycle*).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the session's handshake.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    begun: AtomicBool,
    done: AtomicBool,
}

impl Handshake {
    /// Returns whether the server has answered `initialize` and the answer was forwarded.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    /// Begins the handshake. Returns `None` if it is done or another attempt is in progress.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<HandshakeAttempt> {
        let was_begun = self.begun.swap(true, Ordering::SeqCst);
        (!was_begun).then(|| HandshakeAttempt(Arc::clone(self)))
    }
}

/// One `initialize` in progress. Dropping it lets the client try again, unless it succeeded.
#[derive(Debug)]
pub(crate) struct HandshakeAttempt(Arc<Handshake>);

impl HandshakeAttempt {
    /// Opens the session.
    pub(crate) fn succeed(self) {
        self.0.done.store(true, Ordering::SeqCst);
    }
}

impl Drop for HandshakeAttempt {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.0.begun.store(false, Ordering::SeqCst);
        }
    }
}
