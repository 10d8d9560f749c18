use countersign_core::Timestamp;

use super::open_calls::NotedCall;
use crate::line::LateLine;
use crate::segment::call_tag;
use crate::{AuditError, DecisionLine, Record};

/// Line of a record that has no number yet.
pub(super) struct NewLine {
    pub(super) line: LateLine,
    pub(super) time: Timestamp,
    /// Tag of the call that the record decides on.
    pub(super) tag: u64,
    pub(super) call: NotedCall,
}

impl NewLine {
    /// Writes the line of a record.
    pub(super) fn of(record: &Record) -> Result<Self, AuditError> {
        let mut line = LateLine::take_spare();
        line.write(record)?;
        let (tag, call) = match record {
            Record::Decision(call) => (call_tag(call.call_id.as_str()), NotedCall::decided(call.verdict)),
            Record::Outcome(end) => (0, NotedCall::Ended(end.decision)),
            Record::Session(_) | Record::Gateway(_) | Record::Recovered(_) | Record::Standing(_) | _ => {
                (0, NotedCall::Other)
            }
        };
        Ok(Self { line, time: record.time(), tag, call })
    }

    /// Takes the line of a decision, which is written already.
    pub(super) fn of_decision(decision: &DecisionLine<'_>) -> Self {
        let mut line = LateLine::take_spare();
        line.copy(decision.body());
        let call = decision.call();
        let (tag, noted) = (call_tag(call.call_id.as_str()), NotedCall::decided(call.verdict));
        Self { line, time: call.time, tag, call: noted }
    }
}
