use countersign_canonical_json::Limits;

/// Nesting depth of a step's arguments in a written plan: plan, list, step.
const STEP_DEPTH: usize = 3;

/// Bounds on one run. Each limit is the largest accepted value.
///
/// ```
/// use countersign_plan_runner::{PlanText, RunLimits};
/// let mut short = RunLimits::default();
/// short.text_bytes = 16;
/// let refused = PlanText::parse("This is an answer of more bytes.", &short);
/// assert_eq!(refused.map_err(|error| error.code()).err(), Some("MODEL_TEXT_TOO_LARGE"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLimits {
    /// Maximum size of one text of a model, in bytes: the plan, a turn, the answer.
    pub text_bytes: usize,
    /// Maximum number of steps of a plan.
    pub steps: usize,
    /// Maximum number of the responder's turns in one run.
    pub turns: u64,
    /// Maximum size of the results of all tools of a run together, in bytes.
    pub observation_bytes: usize,
}

/// 256 KiB for each text of a model, 64 steps (more than a person reads before approving), 256 turns of the responder, and
/// 4 MiB for the results of all tools together, since every turn may be shown all of them.
impl Default for RunLimits {
    fn default() -> Self {
        Self { text_bytes: 256 << 10, steps: 64, turns: 256, observation_bytes: 4 << 20 }
    }
}

impl RunLimits {
    /// Limits of the JSON reader, for a text whose length was checked already.
    pub(crate) fn json(&self) -> Limits {
        let caps = Limits::hard_caps();
        let usual = Limits::default();
        let deep = usual.depth(usual.max_depth().saturating_add(STEP_DEPTH)).unwrap_or(usual);
        deep.bytes(self.text_bytes.min(caps.max_bytes())).unwrap_or(deep)
    }
}
