use std::collections::VecDeque;

/// Outcomes that no caller waits for, until they are kept, the oldest first.
///
/// In a failed batch they are refused to no caller, so the log adds them again after it.
#[derive(Debug, Default)]
pub(super) struct LateOutcomes(VecDeque<LateOutcome>);

#[derive(Debug)]
pub(super) struct LateOutcome {
    /// Its number, unless a failure cut it.
    pub(super) seq: Option<u64>,
    pub(super) decision: u64,
    /// The rest of its line after the number.
    pub(super) body: Vec<u8>,
}

impl LateOutcomes {
    pub(super) fn add(&mut self, decision: u64, body: Vec<u8>) {
        self.0.push_back(LateOutcome { seq: None, decision, body });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the outcomes that are to be added to the open batch.
    pub(super) fn unnumbered(&mut self) -> impl Iterator<Item = &mut LateOutcome> {
        self.0.iter_mut().filter(|outcome| outcome.seq.is_none())
    }

    /// Drops the outcomes up to the last kept record.
    pub(super) fn kept(&mut self, size: u64) {
        // INVARIANT: outcomes have numbers in their order, and those without one come last.
        while self.0.pop_front_if(|outcome| outcome.seq.is_some_and(|seq| seq <= size)).is_some() {}
    }

    /// After a failure: drops the outcomes up to the record after which the log continues. Their later numbers are
    /// assigned again.
    pub(super) fn cut_behind(&mut self, last: u64) {
        self.kept(last);
        self.0.iter_mut().for_each(|outcome| outcome.seq = None);
    }
}
