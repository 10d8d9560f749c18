use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use countersign_core::ToolName;
use parking_lot::{Condvar, Mutex};

/// Maximum pause after failed listings, unless the wait for one listing is longer.
const MAX_PAUSE: Duration = Duration::from_secs(300);
const MAX_DOUBLINGS: u32 = 16;

/// Tracks the tools whose current definitions are known, and the gateway's own request for them.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    state: Mutex<ListingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ListingState {
    /// Number of times that the server announced changed tools.
    epoch: u64,
    /// Disclosed tools whose definitions, or whose absence, were seen in this epoch.
    known: BTreeSet<ToolName>,
    /// The last epoch in which a listing failed, and the time of that failure.
    failed: Option<(u64, Instant)>,
    /// Number of failed listings in a row.
    failures: u32,
    /// The gateway's own open request.
    question: Option<u64>,
    answer: Option<PageAnswer>,
}

/// End of the wait for a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn within(wait: Duration) -> Self {
        Self(now().checked_add(wait).unwrap_or_else(now))
    }

    pub(crate) fn is_over(&self) -> bool {
        now() >= self.0
    }
}

/// Pause before the next listing, after this number of failed ones in a row.
pub(crate) fn pause(wait: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
    wait.saturating_mul(1 << doublings).min(MAX_PAUSE.max(wait))
}

#[expect(clippy::disallowed_methods, reason = "a wait within this process, whatever becomes of the date")]
fn now() -> Instant {
    Instant::now()
}

/// Answer to the gateway's own request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageAnswer {
    /// The tools of the page were noted; `next` is the cursor of the next page, if any.
    Noted {
        tools: Vec<ToolName>,
        next: Option<String>,
    },
    Failed,
}

impl Listing {
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    pub(crate) fn knows(&self, tool: &ToolName) -> bool {
        self.state.lock().known.contains(tool)
    }

    /// Returns whether a listing has failed since the tools last changed.
    pub(crate) fn has_failed(&self) -> bool {
        let state = self.state.lock();
        state.failed.is_some_and(|(epoch, _)| epoch == state.epoch)
    }

    /// Returns whether the next listing has to wait: after one failure as long as a listing may take, and twice as long after
    /// each further one.
    pub(crate) fn is_paused(&self, wait: Duration) -> bool {
        let state = self.state.lock();
        state.failed.is_some_and(|(epoch, when)| {
            epoch == state.epoch && when.elapsed() <= pause(wait, state.failures)
        })
    }

    /// Notes that a listing failed.
    pub(crate) fn fail(&self) {
        let mut state = self.state.lock();
        state.failed = Some((state.epoch, now()));
        state.failures = state.failures.saturating_add(1);
    }

    /// Notes that the server has answered.
    pub(crate) fn succeed(&self) {
        self.state.lock().failures = 0;
    }

    /// Forgets all definitions, because the server announced a change of its tools.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.wrapping_add(1);
        state.known.clear();
    }

    /// Notes that a tool's definition was seen in answer to a request of this epoch. An answer of an older epoch is ignored,
    /// because its definitions may predate the change.
    pub(crate) fn note(&self, epoch: u64, tool: ToolName) {
        let mut state = self.state.lock();
        if state.epoch == epoch {
            state.known.insert(tool);
        }
    }

    /// Opens the gateway's next request, under this number.
    pub(crate) fn ask(&self, serial: u64) {
        let mut state = self.state.lock();
        state.question = Some(serial);
        state.answer = None;
    }

    /// Delivers the answer to the open request. An answer to an older request changes nothing.
    pub(crate) fn deliver(&self, serial: u64, answer: PageAnswer) {
        let mut state = self.state.lock();
        if state.question == Some(serial) {
            state.question = None;
            state.answer = Some(answer);
            self.changed.notify_all();
        }
    }

    /// Waits for the answer to the open request. No answer by the deadline is a failure.
    pub(crate) fn wait(&self, deadline: Deadline) -> PageAnswer {
        let mut state = self.state.lock();
        let left = deadline.0.saturating_duration_since(now());
        let _ = self.changed.wait_while_for(&mut state, |s| s.answer.is_none(), left);
        state.question = None;
        state.answer.take().unwrap_or(PageAnswer::Failed)
    }
}
