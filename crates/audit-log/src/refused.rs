use countersign_core::{AgentId, Digest, SeenDigests, SessionId, Timestamp};

use crate::{Escaped, RecordedTool};

/// Most rows of one sum, unless there are more codes than that.
const MAX_ROWS: usize = 64;
/// Most names of one sum.
const MAX_NAMES: usize = 16;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A message that a gateway refused because it was malformed or unknown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GatewayRecord {
    /// Time of the refusal.
    pub time: Timestamp,
    /// Session, if one has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// Direction of the message.
    pub direction: Direction,
    /// Method of the message, if it names one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub method: Option<Escaped<128>>,
    /// Code of the refusal.
    pub code: Escaped<64>,
    /// Details that were not sent to the sender.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
}

impl GatewayRecord {
    /// Builds one without session, method or reason.
    #[must_use]
    pub fn new(time: Timestamp, direction: Direction, code: &str) -> Self {
        Self { time, session: None, direction, method: None, code: code.into(), reason: None }
    }
}

/// Sum of refusals without entries of their own: the session exceeded its rate.
///
/// Each refusal is in one sum or has its own entry. A sum never counts an accepted call. If recording a sum failed, it
/// is recorded again under the same number; if the log then has both, [`SeenSums`] recognises the second.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RefusedRecord {
    /// Time at which the sum was recorded.
    pub time: Timestamp,
    /// Session of the refusals.
    pub session: SessionId,
    /// Agent whose calls were refused; `None` if the rows count messages other than calls.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentId>,
    /// Number of the sum within its gate, from 1. `None` in logs of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub number: Option<u64>,
    /// Time of the first refusal.
    pub from: Timestamp,
    /// Time of the last refusal.
    pub to: Timestamp,
    /// Counts, in the order in which each row was first counted.
    pub rows: Vec<RefusedRow>,
    /// Number of refusals that named a tool that no registry lists, or a method that the gateway does not allow.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub made_up: u64,
    /// Such names, at most 16: `server:name` of a tool, or the method.
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
    /// Tool of the calls. `None` if no registry lists it, and in all rows of a sum that had too many rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<RecordedTool>,
    /// Direction of the messages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<Direction>,
    /// Whether the refusals are about a plan and not calls, as
    /// [`CallRecord::about_plan`](crate::CallRecord::about_plan).
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
    /// Builds a row of one refusal without tool or direction.
    #[must_use]
    pub fn new(code: impl Into<Escaped<64>>) -> Self {
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
    /// Builds an empty sum that begins at `from`.
    #[must_use]
    pub const fn new(session: SessionId, agent: Option<AgentId>, from: Timestamp) -> Self {
        Self {
            time: from,
            session,
            agent,
            number: None,
            from,
            to: from,
            rows: Vec::new(),
            made_up: 0,
            names: Vec::new(),
        }
    }

    /// Counts a row. If the sum would exceed 64 rows, its tools are dropped.
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
        self.leave_out_tools();
        self.add(RefusedRow { tool: None, ..row });
    }

    /// Drops the tools, and counts by code only.
    pub fn leave_out_tools(&mut self) {
        for row in std::mem::take(&mut self.rows) {
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

    /// Key by which a second record of the same sum is recognised; `None` for a sum without a number.
    #[must_use]
    pub fn key(&self) -> Option<Digest> {
        self.number?;
        // why: the whole sum, because two gates of one session may begin a sum of the same number in the same
        // millisecond.
        let untimed = Self { time: self.from, ..self.clone() };
        serde_json::to_vec(&untimed).ok().map(|text| Digest::of(&text))
    }

    /// Number of refusals in all rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|row| row.count).fold(0, u64::saturating_add)
    }
}

/// Sums that were read last from a log, to recognise a sum that is in it twice.
///
/// A sum whose sync failed is recorded again, although the log may have kept the first one. Both are equal except for
/// the record's time. At most 256 sums may lie between them: beyond that the second counts as another sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SeenSums(SeenDigests);

impl SeenSums {
    /// Builds an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(SeenDigests::new())
    }

    /// Returns `false` if the sum was read before. A sum without a number is always new.
    pub fn is_new(&mut self, sum: &RefusedRecord) -> bool {
        sum.key().is_none_or(|key| self.0.is_new(key))
    }
}
