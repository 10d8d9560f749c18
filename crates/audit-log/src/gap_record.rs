use countersign_core::{Timestamp, TokenId};

use crate::{CoApproval, Escaped};

/// Most rows of one gap. Further codes share the last row.
const MAX_ROWS: usize = 64;
/// Most approval ids of one gap.
const MAX_APPROVALS: usize = 64;
/// Code of the shared row.
const OTHERS: &str = "(others)";

/// Answer that was given while it could not be recorded.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "gates build it, and each new member is one that they have to fill"
)]
pub struct UnrecordedAnswer<'a> {
    /// Time of the answer.
    pub time: Timestamp,
    /// Code of the answer.
    pub code: &'a str,
    /// Approval that was spent for it.
    pub approval: Option<&'a TokenId>,
    /// Further approvals that were spent for it.
    pub co_approvals: &'a [CoApproval],
}

/// Outage of the log: the answers that were given in the meantime and have no entry.
///
/// It is the first entry once the log works again, after the entry of a cut.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GapRecord {
    /// Time at which the log worked again.
    pub time: Timestamp,
    /// Time of the first answer.
    pub from: Timestamp,
    /// Time of the last answer.
    pub to: Timestamp,
    /// Code of the failure.
    pub reason: Escaped<64>,
    /// Number of answers by code, in the order in which the codes first occurred.
    pub answers: Vec<GapRow>,
    /// Ids of spent approvals, the first 64.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub approvals: Vec<TokenId>,
    /// Number of further spent approvals.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub omitted: u64,
}

/// Answers of one code.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GapRow {
    /// The code.
    pub code: Escaped<64>,
    /// Number of answers.
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl GapRecord {
    /// Builds a gap without answers that begins at `from`.
    #[must_use]
    pub fn new(from: Timestamp, reason: &str) -> Self {
        let (answers, approvals) = (Vec::new(), Vec::new());
        Self { time: from, from, to: from, reason: reason.into(), answers, approvals, omitted: 0 }
    }

    /// Counts an answer.
    pub fn add(&mut self, answer: &UnrecordedAnswer<'_>) {
        self.from = self.from.min(answer.time);
        self.to = self.to.max(answer.time);
        self.count(answer.code.into(), 1);
        self.spent(answer.approval);
        self.spent(answer.co_approvals.iter().map(|other| &other.approval));
    }

    /// Adds the answers of a later part of the same outage.
    pub fn absorb(&mut self, later: &Self) {
        self.from = self.from.min(later.from);
        self.to = self.to.max(later.to);
        for row in &later.answers {
            self.count(row.code.clone(), row.count);
        }
        self.spent(&later.approvals);
        self.omitted = self.omitted.saturating_add(later.omitted);
    }

    /// Number of answers of all codes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.answers.iter().map(|row| row.count).fold(0, u64::saturating_add)
    }

    fn count(&mut self, code: Escaped<64>, count: u64) {
        let is_known = self.answers.iter().any(|row| row.code == code);
        let has_room = self.answers.len().saturating_add(1) < MAX_ROWS;
        let code = if is_known || has_room { code } else { OTHERS.into() };
        match self.answers.iter_mut().find(|row| row.code == code) {
            Some(row) => row.count = row.count.saturating_add(count),
            None => self.answers.push(GapRow { code, count }),
        }
    }

    fn spent<'a>(&mut self, approvals: impl IntoIterator<Item = &'a TokenId>) {
        for approval in approvals {
            if self.approvals.len() < MAX_APPROVALS {
                self.approvals.push(approval.clone());
            } else {
                self.omitted = self.omitted.saturating_add(1);
            }
        }
    }
}
