use countersign_canonical_json::Limits;

use crate::error::{PlanError, PlanProblem};

/// The most steps that any limits can allow: about a million, so that a plan's tree stays within some hundred megabytes.
pub(crate) const MAX_STEPS: usize = 1 << 20;

/// How deep a step's arguments lie in a plan: within the plan, its list and the step.
const STEP_DEPTH: usize = 3;

/// Bounds what one plan may take. Each limit is the largest value that is still accepted.
///
/// ```
/// use countersign_committed_plan::{PlanLimits, Step};
/// let one = PlanLimits::default().with_max_steps(1)?;
/// let steps = br#"[{"tool":{"server":"s","name":"a"},"args":{}},{"tool":{"server":"s","name":"b"},"args":{}}]"#;
/// let refused = Step::list_from_json(steps, &one);
/// assert_eq!(refused.map_err(|error| error.code()).err(), Some("PLAN_LIMIT"));
/// # Ok::<(), countersign_committed_plan::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    json: Limits,
    steps: usize,
}

/// 1 MiB, as much as one call's arguments may take, and 1,024 steps (a plan that a person approves has far fewer).
/// Arguments may nest as deep as a call's by default: 32 levels.
impl Default for PlanLimits {
    fn default() -> Self {
        let json = Limits::default();
        let deep = json.with_max_depth(json.max_depth().saturating_add(STEP_DEPTH));
        Self { json: deep.unwrap_or(json), steps: 1_024 }
    }
}

impl PlanLimits {
    /// Sets the most bytes of a plan.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_LIMIT_OUT_OF_RANGE` above 256 MiB.
    pub fn with_max_bytes(self, bytes: usize) -> Result<Self, PlanError> {
        let json = self.json.with_max_bytes(bytes).map_err(|_| PlanProblem::LimitRange)?;
        Ok(Self { json, ..self })
    }

    /// Sets the most steps.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_LIMIT_OUT_OF_RANGE` above 1,048,576.
    pub fn with_max_steps(self, steps: usize) -> Result<Self, PlanError> {
        if steps > MAX_STEPS {
            return Err(PlanProblem::LimitRange.into());
        }
        let width = self.json.max_width().max(steps);
        let json = self.json.with_max_width(width).map_err(|_| PlanProblem::LimitRange)?;
        Ok(Self { json, steps })
    }

    /// The most bytes of a plan.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.json.max_bytes()
    }

    /// The most steps.
    #[must_use]
    pub const fn max_steps(&self) -> usize {
        self.steps
    }

    pub(crate) const fn json(&self) -> &Limits {
        &self.json
    }
}
