use countersign_audit_log::{RefusedRecord, SeenSums};
use countersign_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// Millionths of a nat, the unit in which evidence is added up.
const MICRO: f64 = 1e6;

/// The most decisions per false alarm that can be asked for.
const MAX_DECISIONS: u64 = 1_000_000_000_000;

/// Says when an agent's acceptance has dropped: a Bernoulli CUSUM (Page 1954; Reynolds and Stoumbos 1999).
///
/// Each decision is evidence for "the share of accepted calls has dropped to `dropped`" against "it is still
/// `baseline`": a rejected call adds ln((1 - dropped) / (1 - baseline)), an accepted one takes ln(baseline / dropped)
/// away, and the sum never goes below zero. The alarm is raised once the sum is at least ln(`decisions`). Of all
/// rules that give as few false alarms, this one has the shortest worst delay for a drop to `dropped` (Moustakides
/// 1986); it needs one number per agent, has no window to choose and forgets the good past by itself, so that an
/// agent cannot save up good behaviour.
///
/// An agent whose calls are accepted at `baseline` or above raises a false alarm, on average, at most once in
/// `decisions` decisions (Lorden 1971). The default is 0.9, 0.7 and 10,000. Measured by simulation for it: a steady
/// agent at 0.9 raises one false alarm in about 149,000 decisions; a drop to 0.7 is found after 57 decisions on
/// average (112 in 19 of 20 cases), to 0.5 after 22, and nine rejections in a row always raise the alarm. An agent
/// that is steadily at 0.8, in between, raises it after 220: `baseline` has to be what the operator finds acceptable
/// for good.
///
/// It supposes that one decision says nothing about the next: a loop that retries one refused call is read as a drop.
/// An agent that means harm can hide few rejections among many good calls; the alarm finds what goes wrong, and each
/// call is decided on its own.
///
/// ```
/// use countersign_tool_gate::{Alarm, AlarmRule, AlarmState};
/// let mut alarm = Alarm::new(AlarmRule::new(0.95, 0.8, 10_000)?);
/// for _ in 0..1_000 {
///     assert_eq!(alarm.observe(true), AlarmState::Steady);
/// }
/// let rejected = (1..).find(|_| alarm.observe(false) == AlarmState::Raised);
/// assert_eq!(rejected, Some(7), "seven rejections in a row are not chance any more");
/// # Ok::<(), countersign_tool_gate::AlarmRuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlarmRule {
    baseline: f64,
    dropped: f64,
    decisions: u64,
    // Added for a rejected call, taken away for an accepted one, and the sum at which the alarm is raised, in millionths of a
    // nat. All are rounded so that there are fewer false alarms, not more. INVARIANT: none of them is zero.
    rejected: u64,
    accepted: u64,
    threshold: u64,
}

/// Why a rule cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlarmRuleError {
    /// The shares are not `0 < dropped < baseline < 1`, or too close to each other or to the ends to tell them apart.
    #[error("the dropped share must be above 0 and clearly below the baseline, which must be below 1")]
    Shares,
    /// There are fewer than 2 or more than 1,000,000,000,000 decisions per false alarm.
    #[error("one false alarm must be allowed in 2 to 1,000,000,000,000 decisions")]
    Decisions,
}

impl AlarmRuleError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Shares => "ALARM_SHARES",
            Self::Decisions => "ALARM_DECISIONS",
        }
    }
}

/// A drop from 0.9 to 0.7, and at most one false alarm in 10,000 decisions: an agent that is refused one call in ten
/// is usual, one that is refused three in ten is not.
impl Default for AlarmRule {
    fn default() -> Self {
        Self {
            baseline: 0.9,
            dropped: 0.7,
            decisions: 10_000,
            rejected: 1_098_612,
            accepted: 251_315,
            threshold: 9_210_341,
        }
    }
}

impl AlarmRule {
    /// Takes the share of calls that is accepted of a good agent, the share to which it drops when something is
    /// wrong, and in how many decisions of a good agent one false alarm is allowed.
    ///
    /// # Errors
    /// [`AlarmRuleError`] unless 0 < `dropped` < `baseline` < 1 (what is not a number is refused), far enough apart
    /// for one decision to weigh a millionth of a nat, and `decisions` is 2 to 1,000,000,000,000.
    pub fn new(baseline: f64, dropped: f64, decisions: u64) -> Result<Self, AlarmRuleError> {
        if !(2..=MAX_DECISIONS).contains(&decisions) {
            return Err(AlarmRuleError::Decisions);
        }
        // False for what is not a number, too.
        if !(0.0 < dropped && dropped < baseline && baseline < 1.0) {
            return Err(AlarmRuleError::Shares);
        }
        let rejected = micro(((1.0 - dropped) / (1.0 - baseline)).ln(), f64::floor);
        let accepted = micro((baseline / dropped).ln(), f64::ceil);
        #[expect(clippy::cast_precision_loss, reason = "MAX_DECISIONS is below 2^53")]
        let threshold = micro((decisions as f64).ln(), f64::ceil);
        match (rejected, accepted, threshold) {
            (Some(rejected), Some(accepted), Some(threshold)) => {
                Ok(Self { baseline, dropped, decisions, rejected, accepted, threshold })
            }
            _ => Err(AlarmRuleError::Shares),
        }
    }

    /// The share of calls that is accepted of a good agent.
    #[must_use]
    pub const fn baseline(&self) -> f64 {
        self.baseline
    }

    /// The share to which it drops.
    #[must_use]
    pub const fn dropped(&self) -> f64 {
        self.dropped
    }

    /// In how many decisions of a good agent one false alarm is allowed, on average.
    #[must_use]
    pub const fn decisions(&self) -> u64 {
        self.decisions
    }
}

/// Nats as whole millionths; nothing for what rounds to zero or is out of range.
fn micro(nats: f64, round: fn(f64) -> f64) -> Option<u64> {
    let scaled = round(nats * MICRO);
    if !(1.0..=1e12).contains(&scaled) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10^12, tested above")]
    Some(scaled as u64)
}

/// What an [`Alarm`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an alarm is raised or it is not")]
pub enum AlarmState {
    /// Nothing speaks for a drop so far.
    #[default]
    Steady,
    /// The acceptance has dropped. It stays raised, whatever follows, until [`Alarm::reset`].
    Raised,
}

/// What happens to an agent whose alarm is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AlarmAction {
    /// The alarm is shown. It decides nothing.
    #[default]
    Flag,
    /// The agent is quarantined as well: all its calls are refused until an operator lifts that.
    Quarantine,
}

/// Follows the decisions about one agent by one [`AlarmRule`], which says what it can tell and has an example.
#[derive(Clone, Debug)]
pub struct Alarm {
    rule: AlarmRule,
    /// The evidence for a drop, in millionths of a nat, at most the rule's threshold.
    score: u64,
    /// Whether what was replayed last of how the agent stands was that it was let out of quarantine.
    let_out: bool,
    /// Time of the record by which it was let out last.
    lifted: Option<Timestamp>,
    /// Sessions of the sums that were replayed since, the first 64.
    since: Vec<SessionId>,
    /// Sums that were replayed.
    sums: SeenSums,
}

/// The most sessions of which the first sum behind a lift is looked at.
const MAX_SINCE: usize = 64;

/// Saved state of an [`Alarm`], with its rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedAlarm {
    /// Weights of a rejected and an accepted call, threshold and evidence, in millionths of a nat.
    rejected: u64,
    accepted: u64,
    threshold: u64,
    score: u64,
    let_out: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    lifted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    since: Vec<SessionId>,
    sums: SeenSums,
}

impl Alarm {
    /// Starts without any evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule) -> Self {
        Self { rule, score: 0, let_out: false, lifted: None, since: Vec::new(), sums: SeenSums::new() }
    }

    /// Takes one more decision into account.
    pub fn observe(&mut self, accepted: bool) -> AlarmState {
        if self.state() == AlarmState::Steady {
            let moved = if accepted {
                self.score.saturating_sub(self.rule.accepted)
            } else {
                self.score.saturating_add(self.rule.rejected)
            };
            self.score = moved.min(self.rule.threshold);
        }
        self.state()
    }

    /// What it says now.
    #[must_use]
    pub const fn state(&self) -> AlarmState {
        if self.score >= self.rule.threshold { AlarmState::Raised } else { AlarmState::Steady }
    }

    /// How far the evidence has come, from 0 (none) to 1 (raised).
    #[must_use]
    pub fn level(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "both are at most 10^12")]
        let level = self.score as f64 / self.rule.threshold as f64;
        level
    }

    /// Starts anew, without any evidence.
    pub const fn reset(&mut self) {
        self.score = 0;
    }

    /// Takes into account what a record says of how the agent stands.
    pub(crate) fn stands(&mut self, let_out: bool, time: Timestamp) {
        if let_out && !self.let_out {
            self.reset();
            self.lifted = Some(time);
            self.since.clear();
        }
        self.let_out = let_out;
    }

    /// Returns whether a sum counts: not one that was replayed before, nor one that was over when the agent was let out. Another gate
    /// may have recorded that first.
    ///
    /// Only the first sum of a session behind the lift can be such a one. The next ones count, whatever their times: the clock may
    /// have been ahead at the lift.
    pub(crate) fn counts(&mut self, sum: &RefusedRecord) -> bool {
        let is_first = self.since.len() < MAX_SINCE && !self.since.contains(&sum.session);
        let was_over = is_first && self.lifted.is_some_and(|lifted| sum.to < lifted);
        if is_first && self.lifted.is_some() {
            self.since.push(sum.session.clone());
        }
        self.sums.is_new(sum) && !was_over
    }

    pub(crate) fn save(&self) -> SavedAlarm {
        let Self {
            rule: AlarmRule { rejected, accepted, threshold, .. },
            score,
            let_out,
            lifted,
            ref since,
            ref sums,
        } = *self;
        SavedAlarm {
            rejected,
            accepted,
            threshold,
            score,
            let_out,
            lifted,
            since: since.clone(),
            sums: sums.clone(),
        }
    }

    /// Alarm of this rule as it was saved; `None` where another rule was followed.
    pub(crate) fn resumed(&self, saved: &SavedAlarm) -> Option<Self> {
        let SavedAlarm { score, let_out, lifted, ref since, ref sums, .. } = *saved;
        let (since, sums) = (since.clone(), sums.clone());
        let resumed = Self { rule: self.rule, score, let_out, lifted, since, sums };
        (resumed.save() == *saved && saved.score <= self.rule.threshold).then_some(resumed)
    }

    /// The rule that it follows.
    #[must_use]
    pub const fn rule(&self) -> &AlarmRule {
        &self.rule
    }
}
