use countersign_core::Timestamp;

use super::failure::LogFailure;
use crate::{AuditError, GapRecord, Record, UnrecordedAnswer};

/// Answers without an entry since the log last worked.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    gap: Option<GapRecord>,
    /// Gap that has a number and is not synced yet. Answers in the meantime start another gap.
    written: Option<(u64, GapRecord)>,
    /// Whether a gap was synced while the state may still name it.
    is_over: bool,
}

impl Gaps {
    /// Counts an answer. `failure` is the last one of the log; without it, the record was too long for a line.
    pub(super) fn add(&mut self, answer: &UnrecordedAnswer<'_>, failure: Option<LogFailure>) {
        let code = failure.map_or(AuditError::TooLong, LogFailure::error).code();
        self.gap.get_or_insert_with(|| GapRecord::new(answer.time, code)).add(answer);
    }

    /// Takes the gap as the record with that number. Returns `None` without a gap, or while another one is unsynced.
    pub(super) fn take(&mut self, seq: u64, now: Timestamp) -> Option<Record> {
        if self.written.is_some() {
            return None;
        }
        let mut gap = self.gap.take()?;
        gap.time = now.max(gap.to);
        self.written = Some((seq, gap.clone()));
        Some(Record::Gap(gap))
    }

    /// Marks all records up to this number as synced.
    pub(super) fn synced(&mut self, upto: u64) {
        if self.written.take_if(|(seq, _)| *seq <= upto).is_some() {
            self.is_over = true;
        }
    }

    /// Takes back a gap above this number: the log continues after `last`, so the gap is still to be recorded.
    pub(super) fn cut_behind(&mut self, last: u64) {
        if let Some((_, gap)) = self.written.take_if(|(seq, _)| *seq > last) {
            self.gap = Some(joined(gap, self.gap.take()));
        }
    }

    /// Returns all unsynced answers, for the log's state.
    pub(super) fn open(&self) -> Option<GapRecord> {
        let written = self.written.as_ref().map(|(_, gap)| gap.clone());
        written.map(|gap| joined(gap, self.gap.clone())).or_else(|| self.gap.clone())
    }

    /// Returns `true` once if the state has to be saved without a gap that it may name.
    pub(super) const fn take_over(&mut self) -> bool {
        std::mem::replace(&mut self.is_over, false)
    }
}

fn joined(mut gap: GapRecord, later: Option<GapRecord>) -> GapRecord {
    if let Some(later) = later {
        gap.absorb(&later);
    }
    gap
}
