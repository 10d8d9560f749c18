use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_committed_plan::{CommittedPlan, PlanRoot, Step};
use countersign_core::{ImpactClass, ToolId, escape_hidden};

/// Maximum length of an inspector's reason, in characters.
const MAX_REASON_CHARS: usize = 512;

/// Inspects a committed plan before it is started. Every inspector must pass it; the first that does not ends the run.
///
/// ```
/// use countersign_plan_runner::{Halt, Inspection, Inspector};
/// struct AtMostThree;
/// impl Inspector for AtMostThree {
///     fn name(&self) -> &str {
///         "at most three"
///     }
///     fn inspect(&mut self, plan: &Inspection<'_>) -> Result<(), Halt> {
///         match plan.steps().nth(3) {
///             Some(step) => Err(Halt::new("TOO_LONG").at_step(step.index())),
///             None => Ok(()),
///         }
///     }
/// }
/// ```
pub trait Inspector {
    /// The inspector's name in events and errors.
    fn name(&self) -> &str;

    /// Passes the plan or halts it.
    ///
    /// # Errors
    /// [`Halt`] if the plan must not be started.
    fn inspect(&mut self, plan: &Inspection<'_>) -> Result<(), Halt>;
}

/// Verdict that a plan must not be started.
#[derive(Clone, PartialEq, Eq)]
pub struct Halt {
    code: &'static str,
    step: Option<u64>,
    reason: Option<Box<str>>,
}

impl Halt {
    /// Creates a halt with a stable code.
    #[must_use]
    pub const fn new(code: &'static str) -> Self {
        Self { code, step: None, reason: None }
    }

    /// Sets the step, counted from 1.
    #[must_use]
    pub fn at_step(self, step: u64) -> Self {
        Self { step: Some(step), ..self }
    }

    /// Sets the inspector's reason: at most 512 characters, invisible ones escaped.
    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        Self { reason: Some(escape_hidden(&reason).into()), ..self }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// The step, counted from 1, if the halt concerns one step.
    #[must_use]
    pub const fn step(&self) -> Option<u64> {
        self.step
    }

    /// The inspector's reason, for the operator. It may quote the plan.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

countersign_core::coded!(Halt);

/// Shows the code and the step, but not the inspector's reason.
impl fmt::Debug for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halt").field("code", &self.code).field("step", &self.step).finish_non_exhaustive()
    }
}

/// A committed plan as an inspector sees it.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'a> {
    pub(crate) goal: &'a str,
    pub(crate) plan: &'a CommittedPlan,
    pub(crate) impacts: &'a [ImpactClass],
}

impl<'a> Inspection<'a> {
    /// The plan's goal, which equals the pinned one.
    #[must_use]
    pub const fn goal(&self) -> &'a str {
        self.goal
    }

    /// The root under which the plan was committed.
    #[must_use]
    pub const fn root(&self) -> &'a PlanRoot {
        self.plan.root()
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = InspectedStep<'a>> + use<'a> {
        let steps = (1..).zip(self.plan.steps()).zip(self.impacts);
        steps.map(|((index, step), impact)| InspectedStep { index, step, impact: *impact })
    }
}

/// One step of a plan as an inspector sees it.
#[derive(Clone, Copy, Debug)]
pub struct InspectedStep<'a> {
    index: u64,
    step: &'a Step,
    impact: ImpactClass,
}

impl<'a> InspectedStep<'a> {
    /// The step's index, counted from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &'a ToolId {
        self.step.tool()
    }

    /// The impact class of the tool in the registry.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// The arguments, with `<DYNAMIC>` in each place that the plan leaves open.
    #[must_use]
    pub const fn args(&self) -> &'a Canonical {
        self.step.args()
    }

    /// The purpose of the step, if the plan states one.
    #[must_use]
    pub fn description(&self) -> Option<&'a str> {
        self.step.description()
    }

    /// Maximum number of calls of the step.
    #[must_use]
    pub const fn max_calls(&self) -> u32 {
        self.step.max_calls()
    }
}
