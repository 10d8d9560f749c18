use std::collections::{BTreeSet, VecDeque};

use crate::Verdict;

/// Most calls that are tracked at a time. Later ones wait for the next opening of the log.
const MAX_CALLS: usize = 65_536;

/// Numbers of accepted decisions whose outcome is not in the log yet.
///
/// It may name a decision that has an outcome, but never omits one that has none.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    open: BTreeSet<u64>,
    /// Outcomes that are not synced yet, in order: the number of the outcome and of its decision.
    ended: VecDeque<(u64, u64)>,
    /// Number of the first decision that is not tracked.
    left_out: Option<u64>,
}

/// What a record changes about open calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotedCall {
    Accepted,
    /// An outcome, and the number of its decision.
    Ended(u64),
    Other,
}

impl NotedCall {
    pub(super) fn decided(verdict: Verdict) -> Self {
        if verdict == Verdict::Accept { Self::Accepted } else { Self::Other }
    }
}

impl OpenCalls {
    /// Notes a record that was just numbered.
    pub(super) fn note(&mut self, seq: u64, call: NotedCall) {
        match call {
            NotedCall::Accepted => self.accepted(seq),
            NotedCall::Ended(decision) => self.note_end(seq, decision),
            NotedCall::Other => {}
        }
    }

    /// Notes an outcome that was just numbered.
    pub(super) fn note_end(&mut self, seq: u64, decision: u64) {
        if self.ended.len() < MAX_CALLS && self.open.contains(&decision) {
            self.ended.push_back((seq, decision));
        }
    }

    pub(super) fn accepted(&mut self, seq: u64) {
        if self.open.len() < MAX_CALLS {
            self.open.insert(seq);
        } else {
            self.left_out.get_or_insert(seq);
        }
    }

    /// Notes an outcome that is in the log and synced.
    pub(super) fn ended(&mut self, decision: u64) {
        self.open.remove(&decision);
    }

    /// Marks all records up to this number as synced.
    pub(super) fn synced(&mut self, upto: u64) {
        while let Some((_, decision)) = self.ended.pop_front_if(|(seq, _)| *seq <= upto) {
            self.open.remove(&decision);
        }
    }

    /// Drops records above this number: they were refused, and their numbers are assigned again.
    pub(super) fn cut_behind(&mut self, last: u64) {
        self.open.split_off(&last.saturating_add(1));
        self.ended.retain(|(seq, _)| *seq <= last);
    }

    /// Takes all of them: the caller writes and syncs their outcomes now.
    pub(super) fn take(&mut self) -> BTreeSet<u64> {
        self.ended.clear();
        std::mem::take(&mut self.open)
    }

    /// Returns the number up to which each accepted decision has an outcome, given `size` synced records.
    pub(super) fn settled(&self, size: u64) -> u64 {
        let first = self.open.first().copied().into_iter().chain(self.left_out).min();
        first.map_or(size, |first| size.min(first.saturating_sub(1)))
    }
}
