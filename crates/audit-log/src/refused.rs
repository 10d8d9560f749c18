use countersign_core::{AgentId, SessionId, Timestamp};

use crate::{Direction, Escaped, RecordedTool};

/// The most rows of one sum, unless there are more codes than that.
const MAX_ROWS: usize = 64;
/// The most names of one sum.
const MAX_NAMES: usize = 16;

/// A sum of refusals that have no entries of their own: more came in a session than its rate allows.
///
/// Each refusal is in one sum or has an entry of its own. A sum never counts an accepted call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RefusedRecord {
    /// Time at which the sum was recorded.
    pub time: Timestamp,
    /// Session of the refusals.
    pub session: SessionId,
    /// Agent whose calls were refused; none where the rows count messages that are no calls.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentId>,
    /// Time of the first refusal.
    pub from: Timestamp,
    /// Time of the last refusal.
    pub to: Timestamp,
    /// Counts, in the order in which each row was counted first.
    pub rows: Vec<RefusedRow>,
    /// How many of them named a tool that no registry lists, or a method that the gateway does not allow.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub made_up: u64,
    /// Such names, 16 at most: `server:name` of a tool, or the method.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names: Vec<Escaped<256>>,
}

/// Refusals of one code, and of one tool or direction.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RefusedRow {
    /// Code of the refusals.
    pub code: Escaped<64>,
    /// Tool of the calls. None where no registry lists it, and in all rows of a sum that had too many.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<RecordedTool>,
    /// Direction of the messages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<Direction>,
    /// Whether they are about a plan and no calls, as [`CallRecord::about_plan`](crate::CallRecord::about_plan).
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub about_plan: bool,
    /// Number of refusals.
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl RefusedRow {
    /// One refusal without tool or direction.
    #[must_use]
    pub fn new(code: &str) -> Self {
        Self { code: code.into(), tool: None, direction: None, about_plan: false, count: 1 }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.code == other.code
            && self.tool == other.tool
            && self.direction == other.direction
            && self.about_plan == other.about_plan
    }
}

impl RefusedRecord {
    /// An empty sum that begins at `from`.
    #[must_use]
    pub const fn new(session: SessionId, agent: Option<AgentId>, from: Timestamp) -> Self {
        Self { time: from, session, agent, from, to: from, rows: Vec::new(), made_up: 0, names: Vec::new() }
    }

    /// Counts a row. Of a sum with more than 64 rows, the tools are left out.
    pub fn add(&mut self, row: RefusedRow) {
        if let Some(like) = self.rows.iter_mut().find(|like| like.is_like(&row)) {
            like.count = like.count.saturating_add(row.count);
            return;
        }
        let has_tools = row.tool.is_some() || self.rows.iter().any(|row| row.tool.is_some());
        if self.rows.len() < MAX_ROWS || !has_tools {
            self.rows.push(row);
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        for row in rows.into_iter().chain([row]) {
            self.add(RefusedRow { tool: None, ..row });
        }
    }

    /// Counts `count` made-up names, and keeps this one if there is room.
    pub fn add_made_up(&mut self, count: u64, name: Option<Escaped<256>>) {
        self.made_up = self.made_up.saturating_add(count);
        if let Some(name) = name.filter(|name| self.names.len() < MAX_NAMES && !self.names.contains(name)) {
            self.names.push(name);
        }
    }

    /// Adds a later sum of the same session.
    pub fn absorb(&mut self, later: Self) {
        self.to = self.to.max(later.to);
        for row in later.rows {
            self.add(row);
        }
        self.add_made_up(later.made_up, None);
        for name in later.names {
            self.add_made_up(0, Some(name));
        }
    }

    /// Number of refusals in all rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|row| row.count).fold(0, u64::saturating_add)
    }
}
