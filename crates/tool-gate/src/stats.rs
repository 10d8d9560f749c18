use std::collections::VecDeque;
use std::sync::Arc;

use countersign_core::{AgentId, Millis, Timestamp};
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::code::RejectionCode;

/// How many recent decisions the sliding windows can look back on.
pub(crate) const WINDOW_CAPACITY: usize = 1_024;

/// Chooses which decisions an acceptance rate is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// All decisions since counting began.
    All,
    /// The last so many decisions; at most 1,024 are looked back on.
    Last(usize),
    /// The decisions of the span that ends at the moment given; at most the last 1,024 of them.
    Since(Timestamp),
}

/// Counts decisions exactly. Memory stays the same however many there are.
#[derive(Debug)]
pub struct Counts(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    accepted: u64,
    rejected: [u64; RejectionCode::ALL.len()],
    recent: VecDeque<(Timestamp, bool)>,
}

impl Default for Counts {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            accepted: 0,
            rejected: [0; RejectionCode::ALL.len()],
            recent: VecDeque::with_capacity(WINDOW_CAPACITY),
        }))
    }
}

impl Counts {
    /// Decisions that were counted: accepted and rejected ones.
    #[must_use]
    pub fn total(&self) -> u64 {
        let inner = self.0.lock();
        inner.accepted.saturating_add(inner.rejected_total())
    }

    /// Calls that were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.lock().accepted
    }

    /// Calls that were rejected, for whatever reason.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.0.lock().rejected_total()
    }

    /// Calls that were rejected with this code.
    #[must_use]
    pub fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.0.lock().rejected.get(slot(code)).copied().unwrap_or(0)
    }

    /// The share of decided calls that were accepted, 0 to 1; nothing before the first of them.
    ///
    /// A call that waits for its approval (`APPROVAL_REQUIRED`) is not decided yet and does not count here; its
    /// approved retry does.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        let inner = self.0.lock();
        let (accepted, decided) = match window {
            Window::All => {
                let pending = inner.rejected.get(slot(RejectionCode::ApprovalRequired)).copied().unwrap_or(0);
                let rejected = inner.rejected_total().saturating_sub(pending);
                (inner.accepted, inner.accepted.saturating_add(rejected))
            }
            Window::Last(count) => tally(inner.recent.iter().rev().take(count)),
            Window::Since(start) => tally(inner.recent.iter().rev().take_while(|(time, _)| *time >= start)),
        };
        #[expect(clippy::cast_precision_loss, reason = "a ratio; counts above 2^53 are out of reach")]
        (decided > 0).then(|| accepted as f64 / decided as f64)
    }

    pub(crate) fn count(&self, time: Timestamp, refused: Option<RejectionCode>) {
        let mut inner = self.0.lock();
        match refused {
            None => inner.accepted = inner.accepted.saturating_add(1),
            Some(code) => {
                if let Some(count) = inner.rejected.get_mut(slot(code)) {
                    *count = count.saturating_add(1);
                }
            }
        }
        if refused != Some(RejectionCode::ApprovalRequired) {
            if inner.recent.len() == WINDOW_CAPACITY {
                inner.recent.pop_front();
            }
            inner.recent.push_back((time, refused.is_none()));
        }
    }
}

impl Inner {
    fn rejected_total(&self) -> u64 {
        self.rejected.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

fn tally<'a>(recent: impl Iterator<Item = &'a (Timestamp, bool)>) -> (u64, u64) {
    recent.fold((0, 0), |(accepted, all): (u64, u64), (_, passed)| {
        (accepted.saturating_add(u64::from(*passed)), all.saturating_add(1))
    })
}

/// Finds a code's counter. `ALL` is in the order of declaration (tested), so its discriminant is its place.
const fn slot(code: RejectionCode) -> usize {
    code as usize
}

/// Counts decisions over all sessions and per agent. Share one among the gates of a process.
///
/// Only agents that hold a contract have a row, so an agent cannot make rows by inventing names.
#[derive(Debug, Default)]
pub struct CallStats {
    overall: Counts,
    agents: DashMap<AgentId, Arc<Counts>>,
}

impl CallStats {
    /// Starts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The counts over all agents.
    #[must_use]
    pub const fn overall(&self) -> &Counts {
        &self.overall
    }

    /// The counts of one agent; nothing when no gate was opened for it.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<Arc<Counts>> {
        self.agents.get(agent).map(|row| Arc::clone(row.value()))
    }

    /// The agents that have a row, in order.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentId> {
        let mut agents: Vec<AgentId> = self.agents.iter().map(|row| row.key().clone()).collect();
        agents.sort();
        agents
    }

    pub(crate) fn row(&self, agent: &AgentId) -> Arc<Counts> {
        Arc::clone(self.agents.entry(agent.clone()).or_default().value())
    }
}

impl Window {
    /// The decisions of the last `span` before `now`; at most the last 1,024 of them.
    #[must_use]
    pub fn last_span(span: Millis, now: Timestamp) -> Self {
        let start = now.as_millis().saturating_sub(span.as_millis());
        Self::Since(Timestamp::from_millis(start).unwrap_or(Timestamp::EPOCH))
    }
}
