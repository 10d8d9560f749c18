use std::cmp::Reverse;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{Millis, Timestamp, thread_number};

use crate::code::RejectionCode;
use crate::recent::{Recent, WINDOW_CAPACITY, told};
use crate::snapshot::{CountsSnapshot, share};

/// Number of codes.
pub(crate) const CODES: usize = RejectionCode::ALL.len();

/// Range of decisions that an acceptance rate covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// All decisions since counting began.
    All,
    /// The last decisions, at most 1,024.
    Last(usize),
    /// The decisions from this time on; at most the last 1,024 of them.
    Since(Timestamp),
}

impl Window {
    /// Returns the window of the last `span` before `now`; at most the last 1,024 decisions.
    #[must_use]
    pub fn last_span(span: Millis, now: Timestamp) -> Self {
        let start = now.as_millis().saturating_sub(span.as_millis());
        Self::Since(Timestamp::from_millis(start).unwrap_or(Timestamp::EPOCH))
    }
}

/// Number of parts of counts that all agents share.
const PARTS: usize = 8;

/// Exact counts of the gate's answers, without a lock. Their memory is constant: about 9 KiB from the first answer on.
///
/// The counts of a tool and of all agents take as much for each of eight threads: each thread counts in a part of its
/// own, so that sessions do not slow each other, and every query adds the parts up. Their windows follow the times of the
/// decisions. Decisions of several threads in one millisecond have no order.
///
/// Every answer is counted once. `APPROVAL_REQUIRED` is the only code that is not a decision: the call waits, and
/// asking again does not decide it. Once the call comes with its approval, it is accepted, which is one decision. A
/// call with an expired or invalid approval is rejected, once for each try. If a person denies it, it is rejected when
/// the host reports the denial (`APPROVAL_DENIED`), and again at each later try. Without an answer, no decision is
/// made. The acceptance rate, its windows and [`decided`](Self::decided) cover decisions; [`total`](Self::total) covers
/// answers, as the record does.
///
/// Counters are 64 bits wide: at a billion answers a second they last for five centuries. While other threads count,
/// two queries may see different moments; the numbers of one [`snapshot`](Self::snapshot) add up.
#[derive(Debug)]
pub struct Counts {
    parts: Box<[OnceLock<Box<CountsPart>>]>,
}

/// Counts of the threads with one number. Aligned, so that no two parts share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct CountsPart {
    accepted: AtomicU64,
    rejected: [AtomicU64; CODES],
    recent: Recent,
}

impl Default for CountsPart {
    fn default() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            rejected: [const { AtomicU64::new(0) }; CODES],
            recent: Recent::default(),
        }
    }
}

impl CountsPart {
    fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    fn rejected(&self) -> u64 {
        self.rejected.iter().fold(0, |sum, count| sum.saturating_add(count.load(Ordering::Relaxed)))
    }

    fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.rejected.get(slot(code)).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| OnceLock::new()).collect() }
    }
}

impl Counts {
    /// Counts of one session or agent, in one part.
    pub(crate) fn in_one_part() -> Self {
        Self { parts: [OnceLock::new()].into() }
    }

    fn parts(&self) -> impl Iterator<Item = &CountsPart> {
        self.parts.iter().filter_map(|part| part.get().map(|part| &**part))
    }

    fn sum(&self, of: impl Fn(&CountsPart) -> u64) -> u64 {
        self.parts().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the last decisions, newest first; at least [`WINDOW_CAPACITY`] of them, if there were so many.
    fn newest_first(&self) -> Box<dyn Iterator<Item = (Timestamp, bool)> + '_> {
        let mut parts = self.parts();
        if let (Some(only), None) = (parts.next(), parts.next()) {
            return Box::new(only.recent.newest_first());
        }
        let ranked = |part: &'_ CountsPart| part.recent.newest_first().enumerate().collect::<Vec<_>>();
        let mut all: Vec<_> = self.parts().flat_map(ranked).collect();
        // Decisions of one millisecond are taken from all parts in turn.
        all.sort_by_key(|(rank, (time, _))| (Reverse(*time), *rank));
        Box::new(all.into_iter().map(|(_, decision)| decision))
    }

    /// Returns the number of answers: accepted calls, rejected calls, and calls that wait for an approval.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.accepted().saturating_add(self.rejected())
    }

    /// Returns the number of accepted calls.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.sum(CountsPart::accepted)
    }

    /// Returns the number of calls that were not accepted, for any reason, including waiting ones.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.sum(CountsPart::rejected)
    }

    /// Returns the number of calls that were rejected with this code.
    #[must_use]
    pub fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.sum(|part| part.rejected_with(code))
    }

    /// Returns how many answers made a call wait for its approval. None of these is a decision.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.rejected_with(RejectionCode::ApprovalRequired)
    }

    /// Returns the number of decisions: all answers except those that made a call wait.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.snapshot().decided()
    }

    /// Returns the share of decided calls that were accepted, 0 to 1; `None` before the first decision.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        let (accepted, decided) = match window {
            Window::All => {
                let now = self.snapshot();
                (now.accepted(), now.decided())
            }
            Window::Last(count) => tally(self.newest_first().take(most(count))),
            Window::Since(start) => {
                let start = told(start);
                tally(self.newest_first().take(most(usize::MAX)).filter(|(time, _)| *time >= start))
            }
        };
        share(accepted, decided)
    }

    /// Returns all counts at one moment.
    #[must_use]
    pub fn snapshot(&self) -> CountsSnapshot {
        let rejected = RejectionCode::ALL
            .iter()
            .map(|code| (*code, self.rejected_with(*code)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let recent = tally(self.newest_first().take(most(usize::MAX)));
        CountsSnapshot::new(self.accepted(), rejected, recent)
    }

    pub(crate) fn count(&self, time: Timestamp, refused: Option<RejectionCode>) {
        let Some(part) =
            thread_number().checked_rem(self.parts.len()).and_then(|place| self.parts.get(place))
        else {
            return;
        };
        let CountsPart { accepted, rejected, recent } = &**part.get_or_init(Box::default);
        let counter = match refused {
            None => Some(accepted),
            Some(code) => rejected.get(slot(code)),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if refused != Some(RejectionCode::ApprovalRequired) {
            recent.add(time, refused.is_none());
        }
    }
}

/// Limits a number of decisions to those that a window covers.
fn most(count: usize) -> usize {
    count.min(usize::try_from(WINDOW_CAPACITY).unwrap_or(usize::MAX))
}

/// Counts the accepted decisions and all decisions, at most [`WINDOW_CAPACITY`].
fn tally(recent: impl Iterator<Item = (Timestamp, bool)>) -> (u64, u64) {
    recent.fold((0, 0), |(accepted, all): (u64, u64), (_, passed)| {
        (accepted.saturating_add(u64::from(passed)), all.saturating_add(1).min(WINDOW_CAPACITY))
    })
}

/// Returns the index of a code's counter. `ALL` is in the order of declaration (tested), so the index is the
/// discriminant.
pub(crate) const fn slot(code: RejectionCode) -> usize {
    code as usize
}
