/// Unit of evidence: millionths of a nat.
const MICRO: f64 = 1e6;

/// Maximum number of decisions per false alarm.
const MAX_DECISIONS: u64 = 1_000_000_000_000;

/// Rule that detects a drop in an agent's acceptance: a Bernoulli CUSUM (Page 1954; Reynolds and Stoumbos 1999).
///
/// Each decision is evidence for "the share of accepted calls has dropped to `dropped`" against "it is still
/// `baseline`". A rejected call adds ln((1 - dropped) / (1 - baseline)); an accepted one subtracts ln(baseline /
/// dropped). The sum never goes below zero. The alarm is raised once the sum is at least ln(`decisions`). Of all rules
/// that give as few false alarms, this one has the shortest worst delay for a drop to `dropped` (Moustakides 1986). It
/// needs one number per agent and no window, and it forgets good behaviour by itself, so an agent cannot save it up.
///
/// An agent whose calls are accepted at `baseline` or above raises a false alarm, on average, at most once in
/// `decisions` decisions (Lorden 1971). The default is 0.9, 0.7 and 10,000. Measured by simulation with the default: a
/// steady agent at 0.9 raises one false alarm in about 149,000 decisions. A drop to 0.7 is detected after 57 decisions
/// on average (112 in 19 of 20 cases), and a drop to 0.5 after 22. Nine rejections in a row always raise the alarm. An
/// agent that is steadily in between, at 0.8, raises it after 220 decisions: set `baseline` to a share that the
/// operator accepts permanently.
///
/// The rule assumes that decisions are independent: a loop that retries one refused call is read as a drop. A malicious
/// agent can hide a few rejections among many good calls. The alarm detects trouble; each call is still decided on its
/// own.
///
/// ```
/// use countersign_signals::{Alarm, AlarmRule, AlarmState};
/// let mut alarm = Alarm::new(AlarmRule::new(0.95, 0.8, 10_000)?);
/// for _ in 0..1_000 {
///     assert_eq!(alarm.observe(true), AlarmState::Steady);
/// }
/// let rejected = (1..).find(|_| alarm.observe(false) == AlarmState::Raised);
/// assert_eq!(rejected, Some(7), "seven rejections in a row are not chance any more");
/// # Ok::<(), countersign_signals::AlarmRuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlarmRule {
    baseline: f64,
    dropped: f64,
    decisions: u64,
    // Weight of a rejected call, weight of an accepted one, and threshold, in millionths of a nat. All are rounded so
    // that there are fewer false alarms, not more. INVARIANT: none of them is zero.
    rejected: u64,
    accepted: u64,
    threshold: u64,
}

/// Why a rule cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlarmRuleError {
    /// The shares are not `0 < dropped < baseline < 1`, or too close to each other or to the ends to be distinguished.
    #[error("the dropped share must be above 0 and clearly below the baseline, which must be below 1")]
    Shares,
    /// The number of decisions per false alarm is below 2 or above 1,000,000,000,000.
    #[error("false alarm rate out of range: one in 2 to 1,000,000,000,000 decisions expected")]
    Decisions,
}

impl AlarmRuleError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Shares => "ALARM_SHARES",
            Self::Decisions => "ALARM_DECISIONS",
        }
    }
}

countersign_core::coded!(AlarmRuleError);

/// A drop from 0.9 to 0.7, and at most one false alarm in 10,000 decisions: one refused call in ten is usual, and three
/// in ten are not.
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
    /// Builds a rule from a good agent's share of accepted calls, the share to which it drops when something is wrong,
    /// and the number of a good agent's decisions in which one false alarm is allowed.
    ///
    /// # Errors
    /// [`AlarmRuleError`] unless 0 < `dropped` < `baseline` < 1 (NaN is refused), far enough apart for one decision to
    /// weigh a millionth of a nat, and `decisions` is 2 to 1,000,000,000,000.
    pub fn new(baseline: f64, dropped: f64, decisions: u64) -> Result<Self, AlarmRuleError> {
        if !(2..=MAX_DECISIONS).contains(&decisions) {
            return Err(AlarmRuleError::Decisions);
        }
        // Also refuses NaN.
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

    /// Returns a good agent's share of accepted calls.
    #[must_use]
    pub const fn baseline(&self) -> f64 {
        self.baseline
    }

    /// Returns the share to which it drops.
    #[must_use]
    pub const fn dropped(&self) -> f64 {
        self.dropped
    }

    /// Returns the weights of a rejected and an accepted call and the threshold, in millionths of a nat.
    #[must_use]
    pub const fn weights(&self) -> [u64; 3] {
        [self.rejected, self.accepted, self.threshold]
    }

    /// Returns the number of a good agent's decisions in which one false alarm is allowed, on average.
    #[must_use]
    pub const fn decisions(&self) -> u64 {
        self.decisions
    }
}

/// Converts nats to whole millionths; `None` if the result rounds to zero or is out of range.
fn micro(nats: f64, round: fn(f64) -> f64) -> Option<u64> {
    let scaled = round(nats * MICRO);
    if !(1.0..=1e12).contains(&scaled) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10^12, tested above")]
    Some(scaled as u64)
}

/// State of an [`Alarm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an alarm is raised or it is not")]
pub enum AlarmState {
    /// The evidence is below the threshold.
    #[default]
    Steady,
    /// The acceptance has dropped. The alarm stays raised until [`Alarm::reset`].
    Raised,
}

/// Action on an agent whose alarm is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AlarmAction {
    /// The alarm is shown. It changes no decision.
    #[default]
    Flag,
    /// The agent is quarantined as well: all its calls are refused until an operator lifts the quarantine.
    Quarantine,
}

/// Follows the decisions about one agent by an [`AlarmRule`], which documents its limits and has an example.
#[derive(Clone, Debug)]
pub struct Alarm {
    rule: AlarmRule,
    /// The evidence for a drop, in millionths of a nat, at most the rule's threshold.
    score: u64,
}

impl Alarm {
    /// Builds an alarm without evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule) -> Self {
        Self { rule, score: 0 }
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

    /// Returns the present state.
    #[must_use]
    pub const fn state(&self) -> AlarmState {
        if self.score >= self.rule.threshold { AlarmState::Raised } else { AlarmState::Steady }
    }

    /// Returns the evidence as a share of the threshold, from 0 (none) to 1 (raised).
    #[must_use]
    pub fn level(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "both are at most 10^12")]
        let level = self.score as f64 / self.rule.threshold as f64;
        level
    }

    /// Drops all evidence.
    pub const fn reset(&mut self) {
        self.score = 0;
    }

    /// Returns the evidence, in millionths of a nat.
    #[must_use]
    pub const fn score(&self) -> u64 {
        self.score
    }

    /// Builds an alarm with this evidence; `None` if it is above the rule's threshold.
    #[must_use]
    pub const fn with_score(rule: AlarmRule, score: u64) -> Option<Self> {
        if score > rule.threshold {
            return None;
        }
        Some(Self { rule, score })
    }

    /// Returns the alarm's rule.
    #[must_use]
    pub const fn rule(&self) -> &AlarmRule {
        &self.rule
    }
}
