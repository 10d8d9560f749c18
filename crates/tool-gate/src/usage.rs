use std::collections::{BTreeMap, VecDeque};

use countersign_core::{Timestamp, ToolId};
use countersign_registry::Limits;
use parking_lot::Mutex;

use crate::code::RejectionCode;

/// Counts the calls that one session has used up, in all and per tool. A tool gets a row when it is first used, and
/// only disclosed tools get this far, so the rows are bounded by the contract.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    session: Row,
    tools: BTreeMap<ToolId, Row>,
}

#[derive(Debug, Default)]
struct Row {
    calls: u64,
    /// When the calls within the rate's span were made; never more than the rate allows.
    recent: VecDeque<Timestamp>,
}

/// Holds one call's place in the counts. Dropped without [`keep`](Self::keep), it gives the place back, but for the place
/// in the rate of a call that [`worked`](Self::worked).
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'a> {
    usage: &'a Usage,
    tool: ToolId,
    time: Timestamp,
    worked: bool,
    kept: bool,
}

impl Usage {
    /// Takes a place for one call of `tool` under the limits of the agent's session and of the tool.
    pub(crate) fn reserve(
        &self,
        tool: &ToolId,
        time: Timestamp,
        session_limits: &Limits,
        tool_limits: &Limits,
    ) -> Result<Reservation<'_>, RejectionCode> {
        let mut rows = self.0.lock();
        let Rows { session, tools } = &mut *rows;
        let row = tools.entry(tool.clone()).or_default();
        session.has_room(session_limits, time)?;
        row.has_room(tool_limits, time)?;
        session.take(session_limits, time);
        row.take(tool_limits, time);
        drop(rows);
        Ok(Reservation { usage: self, tool: tool.clone(), time, worked: false, kept: false })
    }
}

impl Row {
    fn has_room(&mut self, limits: &Limits, now: Timestamp) -> Result<(), RejectionCode> {
        if limits.max_calls().is_some_and(|most| self.calls >= u64::from(most)) {
            return Err(RejectionCode::CallLimit);
        }
        let Some(rate) = limits.rate() else { return Ok(()) };
        while self.recent.front().is_some_and(|time| now.since(*time) >= rate.per()) {
            self.recent.pop_front();
        }
        if self.recent.len() as u64 >= u64::from(rate.calls()) {
            return Err(RejectionCode::RateLimit);
        }
        Ok(())
    }

    fn take(&mut self, limits: &Limits, time: Timestamp) {
        self.calls = self.calls.saturating_add(1);
        if limits.rate().is_some() {
            self.recent.push_back(time);
        }
    }

    fn give_back(&mut self, time: Timestamp, with_rate: bool) {
        self.calls = self.calls.saturating_sub(1);
        if !with_rate {
            return;
        }
        if let Some(place) = self.recent.iter().rposition(|taken| *taken == time) {
            self.recent.remove(place);
        }
    }
}

impl Reservation<'_> {
    /// Says that the call costs the gate more than a look at it. Refused, it keeps its place in the rate, so that the rate
    /// bounds the work as well as the calls; it is none of the calls that may be made in all.
    pub(crate) const fn worked(&mut self) {
        self.worked = true;
    }

    /// Uses the place up.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut rows = self.usage.0.lock();
        rows.session.give_back(self.time, !self.worked);
        if let Some(row) = rows.tools.get_mut(&self.tool) {
            row.give_back(self.time, !self.worked);
        }
    }
}
