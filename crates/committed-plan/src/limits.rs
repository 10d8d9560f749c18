use countersign_canonical_json::Limits;

use crate::error::{PlanError, PlanProblem};

/// Hard cap on steps: about a million, so that a plan's tree stays within some hundred megabytes.
pub(crate) const MAX_STEPS: usize = 1 << 20;

/// Nesting of a step's arguments in a plan: the plan, its list and the step.
const STEP_DEPTH: usize = 3;

/// Limits of one plan. Each is the largest accepted value.
///
/// ```
/// use countersign_committed_plan::{PlanLimits, Step};
/// let one = PlanLimits::default().steps(1)?;
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

/// 1 MiB, as for one call's arguments, and 1,024 steps, far more than a person approves. Arguments may nest 32
/// levels, as in a call.
impl Default for PlanLimits {
    fn default() -> Self {
        let json = Limits::default();
        let deep = json.depth(json.max_depth().saturating_add(STEP_DEPTH));
        Self { json: deep.unwrap_or(json), steps: 1_024 }
    }
}

impl PlanLimits {
    /// Sets the maximum size of a plan in bytes.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_LIMIT_OUT_OF_RANGE` above 256 MiB.
    pub fn bytes(self, bytes: usize) -> Result<Self, PlanError> {
        let json = self.json.bytes(bytes).map_err(|_| PlanProblem::LimitRange)?;
        Ok(Self { json, ..self })
    }

    /// Sets the maximum number of steps.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_LIMIT_OUT_OF_RANGE` above 1,048,576.
    pub fn steps(self, steps: usize) -> Result<Self, PlanError> {
        if steps > MAX_STEPS {
            return Err(PlanProblem::LimitRange.into());
        }
        let width = self.json.max_width().max(steps);
        let json = self.json.width(width).map_err(|_| PlanProblem::LimitRange)?;
        Ok(Self { json, steps })
    }

    /// Maximum size of a plan in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.json.max_bytes()
    }

    /// Maximum number of steps.
    #[must_use]
    pub const fn max_steps(&self) -> usize {
        self.steps
    }

    pub(crate) const fn json(&self) -> &Limits {
        &self.json
    }
}
