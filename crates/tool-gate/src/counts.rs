use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{Millis, Timestamp};

use crate::code::RejectionCode;
use crate::recent::{Recent, WINDOW_CAPACITY, told};
use crate::snapshot::{CountsSnapshot, share};

/// How many codes there are.
pub(crate) const CODES: usize = RejectionCode::ALL.len();

/// Chooses which decisions an acceptance rate is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// All decisions since counting began.
    All,
    /// The last so many decisions; at most 1,024 are looked back on.
    Last(usize),
    /// The decisions from the moment given on; at most the last 1,024 of them.
    Since(Timestamp),
}

impl Window {
    /// The decisions of the last `span` before `now`; at most the last 1,024 of them.
    #[must_use]
    pub fn last_span(span: Millis, now: Timestamp) -> Self {
        let start = now.as_millis().saturating_sub(span.as_millis());
        Self::Since(Timestamp::from_millis(start).unwrap_or(Timestamp::EPOCH))
    }
}

/// Counts the gate's answers exactly, without a lock. Memory stays the same (about 8 KiB) however many there are.
///
/// Every answer is counted once. The one code that is no decision is `APPROVAL_REQUIRED`: the call waits, and however
/// often it is asked again meanwhile, it is not decided. Once it comes with its approval it is accepted, and that is
/// one decision; if it comes with one that has expired or is not valid, it is rejected, once for each time that it
/// comes so. Where a person says no, it is rejected once the host says so (`APPROVAL_DENIED`), and again each time that
/// it comes; where nobody answers, there is no decision. The acceptance rate, its windows and [`decided`](Self::decided) are over decisions; [`total`](Self::total) is over
/// answers, as the record is.
///
/// Counters are 64 bits wide: at a billion answers a second they last for five centuries. While other threads count,
/// two questions are answered at two moments; [`snapshot`](Self::snapshot) adds up within itself.
#[derive(Debug)]
pub struct Counts {
    accepted: AtomicU64,
    rejected: [AtomicU64; CODES],
    recent: Recent,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            rejected: [const { AtomicU64::new(0) }; CODES],
            recent: Recent::default(),
        }
    }
}

impl Counts {
    /// Answers that were counted: accepted and rejected calls, and those that were told to wait for an approval.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.accepted().saturating_add(self.rejected())
    }

    /// Calls that were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Calls that were not accepted, for whatever reason, waiting ones included.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().fold(0, |sum, count| sum.saturating_add(count.load(Ordering::Relaxed)))
    }

    /// Calls that were rejected with this code.
    #[must_use]
    pub fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.rejected.get(slot(code)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How often a call was told to wait for its approval. None of these is a decision.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.rejected_with(RejectionCode::ApprovalRequired)
    }

    /// Decisions that were made: all answers but those that told a call to wait.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.snapshot().decided()
    }

    /// The share of decided calls that were accepted, 0 to 1; nothing before the first of them.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        let (accepted, decided) = match window {
            Window::All => {
                let now = self.snapshot();
                (now.accepted(), now.decided())
            }
            Window::Last(count) => tally(self.recent.newest_first().take(count)),
            Window::Since(start) => {
                let start = told(start);
                tally(self.recent.newest_first().filter(|(time, _)| *time >= start))
            }
        };
        share(accepted, decided)
    }

    /// All of it at one moment.
    #[must_use]
    pub fn snapshot(&self) -> CountsSnapshot {
        let rejected = RejectionCode::ALL
            .iter()
            .map(|code| (*code, self.rejected_with(*code)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let recent = tally(self.recent.newest_first());
        CountsSnapshot::new(self.accepted(), rejected, recent)
    }

    pub(crate) fn count(&self, time: Timestamp, refused: Option<RejectionCode>) {
        let counter = match refused {
            None => Some(&self.accepted),
            Some(code) => self.rejected.get(slot(code)),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if refused != Some(RejectionCode::ApprovalRequired) {
            self.recent.add(time, refused.is_none());
        }
    }
}

/// How many of the decisions were accepted, and how many there are: at most [`WINDOW_CAPACITY`].
fn tally(recent: impl Iterator<Item = (Timestamp, bool)>) -> (u64, u64) {
    recent.fold((0, 0), |(accepted, all): (u64, u64), (_, passed)| {
        (accepted.saturating_add(u64::from(passed)), all.saturating_add(1).min(WINDOW_CAPACITY))
    })
}

/// Finds a code's counter. `ALL` is in the order of declaration (tested), so its discriminant is its place.
pub(crate) const fn slot(code: RejectionCode) -> usize {
    code as usize
}
