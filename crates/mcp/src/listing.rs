use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use countersign_core::ToolName;
use parking_lot::{Condvar, Mutex};

/// The longest pause between two questions that come to nothing, unless the wait for one is longer.
const MAX_PAUSE: Duration = Duration::from_secs(300);
const MAX_DOUBLINGS: u32 = 16;

/// Keeps track of which tools' definitions are known as they are now, and of the gateway's own question for them.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Counts the server's announcements that its tools have changed.
    epoch: u64,
    /// Disclosed tools whose definitions were seen, or were seen to be missing, in this epoch.
    known: BTreeSet<ToolName>,
    /// The last epoch in which the gateway's own question came to nothing, and when.
    failed: Option<(u64, Instant)>,
    /// How many of its questions came to nothing one after another.
    failures: u32,
    /// The gateway's own question that is open.
    question: Option<u64>,
    answer: Option<PageAnswer>,
}

/// Until when a list is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn within(wait: Duration) -> Self {
        Self(now().checked_add(wait).unwrap_or_else(now))
    }
}

/// How long the gateway waits before it asks again, after so many questions that came to nothing.
pub(crate) fn pause(wait: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
    wait.saturating_mul(1 << doublings).min(MAX_PAUSE.max(wait))
}

#[expect(clippy::disallowed_methods, reason = "a wait within this process, whatever becomes of the date")]
fn now() -> Instant {
    Instant::now()
}

/// What came back to the gateway's own question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageAnswer {
    /// The tools of a page were noted; the cursor of the next page, if there is one.
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

    /// Says whether the gateway has asked in vain since the tools last changed.
    pub(crate) fn has_failed(&self) -> bool {
        let state = self.state.lock();
        state.failed.is_some_and(|(epoch, _)| epoch == state.epoch)
    }

    /// Says whether the next question has to wait: as long as the first was waited for, and twice as long after each further one
    /// that came to nothing.
    pub(crate) fn is_paused(&self, wait: Duration) -> bool {
        let state = self.state.lock();
        state.failed.is_some_and(|(epoch, when)| {
            epoch == state.epoch && when.elapsed() <= pause(wait, state.failures)
        })
    }

    /// Notes that the gateway has asked in vain.
    pub(crate) fn fail(&self) {
        let mut state = self.state.lock();
        state.failed = Some((state.epoch, now()));
        state.failures = state.failures.saturating_add(1);
    }

    /// Notes that the server has answered.
    pub(crate) fn succeed(&self) {
        self.state.lock().failures = 0;
    }

    /// The server said that its tools have changed: nothing is known any more.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.wrapping_add(1);
        state.known.clear();
    }

    /// Notes that a tool's definition was seen in answer to a question of this epoch. An older answer may tell of
    /// definitions from before the change, so it counts for nothing.
    pub(crate) fn note(&self, epoch: u64, tool: ToolName) {
        let mut state = self.state.lock();
        if state.epoch == epoch {
            state.known.insert(tool);
        }
    }

    /// The gateway asks its next question, under this number.
    pub(crate) fn ask(&self, serial: u64) {
        let mut state = self.state.lock();
        state.question = Some(serial);
        state.answer = None;
    }

    /// Brings the answer to the open question; one to an older question changes nothing.
    pub(crate) fn deliver(&self, serial: u64, answer: PageAnswer) {
        let mut state = self.state.lock();
        if state.question == Some(serial) {
            state.question = None;
            state.answer = Some(answer);
            self.changed.notify_all();
        }
    }

    /// Waits for the answer to the open question. No answer by the deadline is a failure.
    pub(crate) fn wait(&self, deadline: Deadline) -> PageAnswer {
        let mut state = self.state.lock();
        let left = deadline.0.saturating_duration_since(now());
        let _ = self.changed.wait_while_for(&mut state, |s| s.answer.is_none(), left);
        state.question = None;
        state.answer.take().unwrap_or(PageAnswer::Failed)
    }
}
