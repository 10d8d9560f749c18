use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_committed_plan::{CommittedPlan, PlanRoot, Step};
use countersign_core::{ImpactClass, ToolId, escape_hidden};

/// How much of an inspector's own words is kept, in characters.
const MAX_REASON_CHARS: usize = 512;

/// Looks at a committed plan before anything of it is started. Every inspector has to let it pass; the first that does not ends
/// the run.
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
    /// What the inspector is called in events and errors.
    fn name(&self) -> &str;

    /// Lets the plan pass, or not.
    ///
    /// # Errors
    /// [`Halt`] when the plan must not be started.
    fn inspect(&mut self, plan: &Inspection<'_>) -> Result<(), Halt>;
}

/// Says that a plan must not be started.
#[derive(Clone, PartialEq, Eq)]
pub struct Halt {
    code: &'static str,
    step: Option<u64>,
    reason: Option<Box<str>>,
}

impl Halt {
    /// Halts under a stable code.
    #[must_use]
    pub const fn new(code: &'static str) -> Self {
        Self { code, step: None, reason: None }
    }

    /// Says at which step, from 1 on.
    #[must_use]
    pub fn at_step(self, step: u64) -> Self {
        Self { step: Some(step), ..self }
    }

    /// Adds the inspector's own words: hidden characters spelled out, at most 512 characters of them.
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

    /// The step, from 1 on, where it is one step's fault.
    #[must_use]
    pub const fn step(&self) -> Option<u64> {
        self.step
    }

    /// The inspector's own words. They may quote the plan; they are for the operator.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// Shows the code and the step, and nothing of the inspector's own words.
impl fmt::Debug for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halt").field("code", &self.code).field("step", &self.step).finish_non_exhaustive()
    }
}

/// Shows a committed plan to an inspector.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'a> {
    pub(crate) goal: &'a str,
    pub(crate) plan: &'a CommittedPlan,
    pub(crate) impacts: &'a [ImpactClass],
}

impl<'a> Inspection<'a> {
    /// The goal that the plan is for, which is the pinned one.
    #[must_use]
    pub const fn goal(&self) -> &'a str {
        self.goal
    }

    /// The root that the plan was committed as.
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

/// Shows one step of a plan to an inspector.
#[derive(Clone, Copy, Debug)]
pub struct InspectedStep<'a> {
    index: u64,
    step: &'a Step,
    impact: ImpactClass,
}

impl<'a> InspectedStep<'a> {
    /// The step's index, from 1 on.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &'a ToolId {
        self.step.tool()
    }

    /// How bad the tool's effect can be, as the registry says.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// The arguments, with `<DYNAMIC>` in each place that is left open.
    #[must_use]
    pub const fn args(&self) -> &'a Canonical {
        self.step.args()
    }

    /// What the step is for, where the plan says so.
    #[must_use]
    pub fn description(&self) -> Option<&'a str> {
        self.step.description()
    }

    /// How often it may be called.
    #[must_use]
    pub const fn max_calls(&self) -> u32 {
        self.step.max_calls()
    }
}
