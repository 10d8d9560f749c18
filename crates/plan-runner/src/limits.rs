use countersign_canonical_json::Limits;

/// Nesting depth of a step's arguments in a written plan: plan, list, step.
const STEP_DEPTH: usize = 3;

/// Bounds on one run. Each limit is the largest accepted value.
///
/// ```
/// use countersign_plan_runner::{PlanText, RunLimits};
/// let short = RunLimits::default().with_text_bytes(16);
/// let refused = PlanText::parse("This is an answer of more bytes.", &short);
/// assert_eq!(refused.map_err(|error| error.code()).err(), Some("MODEL_TEXT_TOO_LARGE"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    text_bytes: usize,
    steps: usize,
    turns: u64,
    observation_bytes: usize,
}

/// 256 KiB for each text of a model, 64 steps (more than a person reads before approving), 256 turns of the responder, and
/// 4 MiB for the results of all tools together, since every turn may be shown all of them.
impl Default for RunLimits {
    fn default() -> Self {
        Self { text_bytes: 256 << 10, steps: 64, turns: 256, observation_bytes: 4 << 20 }
    }
}

impl RunLimits {
    /// Sets the maximum size of one text of a model, in bytes: the plan, a turn, the answer.
    #[must_use]
    pub const fn with_text_bytes(self, text_bytes: usize) -> Self {
        Self { text_bytes, ..self }
    }

    /// Sets the maximum number of steps of a plan.
    #[must_use]
    pub const fn with_steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    /// Sets the maximum number of the responder's turns in one run.
    #[must_use]
    pub const fn with_turns(self, turns: u64) -> Self {
        Self { turns, ..self }
    }

    /// Sets the maximum size of the results of all tools of a run together, in bytes.
    #[must_use]
    pub const fn with_observation_bytes(self, observation_bytes: usize) -> Self {
        Self { observation_bytes, ..self }
    }

    /// Maximum size of one text of a model, in bytes.
    #[must_use]
    pub const fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Maximum number of steps of a plan.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// Maximum number of the responder's turns in one run.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Maximum size of the results of all tools of a run together, in bytes.
    #[must_use]
    pub const fn observation_bytes(&self) -> usize {
        self.observation_bytes
    }

    /// Limits of the JSON reader, for a text whose length was checked already.
    pub(crate) fn json(&self) -> Limits {
        let caps = Limits::hard_caps();
        let usual = Limits::default();
        let deep = usual.with_max_depth(usual.max_depth().saturating_add(STEP_DEPTH)).unwrap_or(usual);
        deep.with_max_bytes(self.text_bytes.min(caps.max_bytes())).unwrap_or(deep)
    }
}
