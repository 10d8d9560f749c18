use countersign_canonical_json::Limits;

/// How deep a step's arguments lie in a written plan: within the plan, its list and the step.
const STEP_DEPTH: usize = 3;

/// Bounds what one run may take. Each limit is the largest value that is still accepted.
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
/// 4 MiB for all that the tools return, since every turn may be shown all of it.
impl Default for RunLimits {
    fn default() -> Self {
        Self { text_bytes: 256 << 10, steps: 64, turns: 256, observation_bytes: 4 << 20 }
    }
}

impl RunLimits {
    /// Sets the most bytes of one text of a model: the plan, a turn, the answer.
    #[must_use]
    pub const fn with_text_bytes(self, text_bytes: usize) -> Self {
        Self { text_bytes, ..self }
    }

    /// Sets the most steps of a plan.
    #[must_use]
    pub const fn with_steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    /// Sets how many turns the responder may have in one run.
    #[must_use]
    pub const fn with_turns(self, turns: u64) -> Self {
        Self { turns, ..self }
    }

    /// Sets the most bytes that all tools of a run may return together.
    #[must_use]
    pub const fn with_observation_bytes(self, observation_bytes: usize) -> Self {
        Self { observation_bytes, ..self }
    }

    /// The most bytes of one text of a model.
    #[must_use]
    pub const fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// The most steps of a plan.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// The most turns of the responder in one run.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// The most bytes that all tools of a run may return together.
    #[must_use]
    pub const fn observation_bytes(&self) -> usize {
        self.observation_bytes
    }

    /// What bounds the JSON in a text whose length was checked already.
    pub(crate) fn json(&self) -> Limits {
        let caps = Limits::hard_caps();
        let usual = Limits::default();
        let deep = usual.with_max_depth(usual.max_depth().saturating_add(STEP_DEPTH)).unwrap_or(usual);
        deep.with_max_bytes(self.text_bytes.min(caps.max_bytes())).unwrap_or(deep)
    }
}
