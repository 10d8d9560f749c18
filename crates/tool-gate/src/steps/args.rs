//! Steps 3 and 4: do the arguments fit, and are calls left?

use std::collections::{BTreeMap, VecDeque};

use countersign_canonical_json::Canonical;
use countersign_core::{Timestamp, ToolId};
use countersign_registry::{ArgsError, Limits, ToolRules};
use parking_lot::Mutex;

use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// Step 3. The refusal names the position and the rule, never the value.
///
/// # Errors
/// [`Refusal`] if the arguments do not fit the schema or break a constraint.
pub fn check_args(rules: &ToolRules, args: &Canonical) -> Result<(), Refusal> {
    rules.check_args(args).map_err(|error| {
        let code = match error {
            ArgsError::Schema { .. } => RejectionCode::ArgsSchema,
            ArgsError::Constraint { .. } => RejectionCode::ArgsConstraint,
            _ => RejectionCode::Internal,
        };
        Refusal::new(code, error.to_string())
    })
}

/// Counts the calls of one session, in total and per tool. A tool gets a row when it is first used, and only disclosed
/// tools get this far, so the contract bounds the number of rows.
#[derive(Debug, Default)]
pub struct Usage(Mutex<Option<Box<UsedCalls>>>);

#[derive(Debug, Default)]
struct UsedCalls {
    session: UsedSlots,
    /// Each tool's place among the rows. No row is ever removed.
    places: BTreeMap<ToolId, usize>,
    tools: Vec<UsedSlots>,
}

#[derive(Debug, Default)]
struct UsedSlots {
    calls: u64,
    /// Times of the calls within the rate's span; at most as many as the rate allows.
    recent: VecDeque<Timestamp>,
}

/// One call's slot in the counts. If it is dropped without [`keep`](Self::keep), it is released, except for the
/// rate-limit slot of a [charged](Self::charge) call.
#[derive(Debug)]
#[must_use]
pub struct Reservation<'a> {
    usage: &'a Usage,
    /// Place of the tool's row.
    place: usize,
    time: Timestamp,
    charged: bool,
    kept: bool,
}

impl Usage {
    /// Step 4: reserves a slot for one call of `tool` under the limits of the agent's session and of the tool.
    ///
    /// # Errors
    /// [`RejectionCode::CallLimit`], [`RejectionCode::RateLimit`].
    pub fn reserve(
        &self,
        tool: &ToolId,
        time: Timestamp,
        session_limits: &Limits,
        tool_limits: &Limits,
    ) -> Result<Reservation<'_>, RejectionCode> {
        let mut rows = self.0.lock();
        let UsedCalls { session, places, tools } = &mut **rows.get_or_insert_default();
        let place = places.get(tool).copied().unwrap_or_else(|| {
            tools.push(UsedSlots::default());
            let place = tools.len().saturating_sub(1);
            places.insert(tool.clone(), place);
            place
        });
        let row = tools.get_mut(place).ok_or(RejectionCode::Internal)?;
        session.has_room(session_limits, time)?;
        row.has_room(tool_limits, time)?;
        session.take(session_limits, time);
        row.take(tool_limits, time);
        drop(rows);
        Ok(Reservation { usage: self, place, time, charged: false, kept: false })
    }
}

impl UsedSlots {
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
    /// Charges the rate for the work on this call, even if the call is refused later: the rate bounds the gate's work, too.
    pub const fn charge(&mut self) {
        self.charged = true;
    }

    /// Keeps the slot: the call is accepted.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut rows = self.usage.0.lock();
        let Some(rows) = &mut *rows else { return };
        rows.session.give_back(self.time, !self.charged);
        if let Some(row) = rows.tools.get_mut(self.place) {
            row.give_back(self.time, !self.charged);
        }
    }
}
