use std::collections::{BTreeSet, VecDeque};

use crate::{Record, Verdict};

/// The most calls that are followed at a time. The later ones wait for the next opening of the log.
const MAX_CALLS: usize = 65_536;

/// Accepted decisions whose outcome is not in the log yet, by their numbers.
///
/// It may name a decision that has an outcome, and never leaves one out that has none.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    open: BTreeSet<u64>,
    /// Outcomes that are not synced yet: their numbers, in order, and those of their decisions.
    ended: VecDeque<(u64, u64)>,
    /// Number of the first decision that is not followed any more.
    left_out: Option<u64>,
}

impl OpenCalls {
    /// Notes a record that has just been given a number.
    pub(super) fn note(&mut self, seq: u64, record: &Record) {
        if let Record::Decision(call) = record
            && call.verdict == Verdict::Accept
        {
            self.accepted(seq);
        }
        if let Record::Outcome(end) = record
            && self.ended.len() < MAX_CALLS
            && self.open.contains(&end.decision)
        {
            self.ended.push_back((seq, end.decision));
        }
    }

    pub(super) fn accepted(&mut self, seq: u64) {
        if self.open.len() < MAX_CALLS {
            self.open.insert(seq);
        } else {
            self.left_out.get_or_insert(seq);
        }
    }

    /// Takes an outcome that is in the log and synced.
    pub(super) fn ended(&mut self, decision: u64) {
        self.open.remove(&decision);
    }

    /// All records up to this number are synced.
    pub(super) fn synced(&mut self, upto: u64) {
        while let Some((_, decision)) = self.ended.pop_front_if(|(seq, _)| *seq <= upto) {
            self.open.remove(&decision);
        }
    }

    /// The log goes on behind this number: those above it were refused, and are given again.
    pub(super) fn cut_behind(&mut self, last: u64) {
        self.open.split_off(&last.saturating_add(1));
        self.ended.retain(|(seq, _)| *seq <= last);
    }

    /// Takes all of them: their outcomes are written and synced now.
    pub(super) fn take(&mut self) -> BTreeSet<u64> {
        self.ended.clear();
        std::mem::take(&mut self.open)
    }

    /// The number up to which each accepted decision has an outcome, where so many records are synced.
    pub(super) fn settled(&self, size: u64) -> u64 {
        let first = self.open.first().copied().into_iter().chain(self.left_out).min();
        first.map_or(size, |first| size.min(first.saturating_sub(1)))
    }
}
