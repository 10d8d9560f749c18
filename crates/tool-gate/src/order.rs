//! The order of the checks.

use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// One check of a decision.
///
/// The enum is exhaustive: a new step breaks every `match` that says what a program does at each of them.
///
/// ```
/// use countersign_tool_gate::GateStep;
/// let numbers: Vec<u8> = GateStep::ALL.iter().map(|step| step.number()).collect();
/// assert_eq!(numbers, [0, 1, 2, 0, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a new step has to break every match")]
pub enum GateStep {
    /// The ids and names of the call are well formed.
    Ids,
    /// The session lasts, and its agent may call.
    Agent,
    /// The session discloses the tool.
    Tool,
    /// The rest of the call is well formed.
    Read,
    /// The server's definition of the tool is the signed one.
    Definition,
    /// The arguments fit the schema and the constraints.
    Args,
    /// Calls are left.
    Limits,
    /// The call serves the pinned goal.
    Goal,
    /// The call is the next step of the plan.
    Plan,
    /// The call's id has not run, if the gate runs each id once.
    CallId,
    /// A person approved exactly this call.
    Approval,
    /// Evidence backs the proposal.
    Evidence,
    /// The host's own checks agree.
    HostChecks,
    /// Evidence, approval and id are unspent, and now spent.
    Spend,
    /// Session, agent, tool and definition still stand.
    LastLook,
}

impl GateStep {
    /// Every step, in the order in which the gate takes them.
    pub const ALL: [Self; 15] = [
        Self::Ids,
        Self::Agent,
        Self::Tool,
        Self::Read,
        Self::Definition,
        Self::Args,
        Self::Limits,
        Self::Goal,
        Self::Plan,
        Self::CallId,
        Self::Approval,
        Self::Evidence,
        Self::HostChecks,
        Self::Spend,
        Self::LastLook,
    ];

    /// Returns the number that the codes of its refusals have ([`RejectionCode::step`]). The last look repeats steps 1
    /// and 2.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ids | Self::Read => 0,
            Self::Agent | Self::LastLook => 1,
            Self::Tool | Self::Definition => 2,
            Self::Args => 3,
            Self::Limits => 4,
            Self::Goal => 5,
            Self::Plan => 6,
            Self::CallId | Self::Approval => 7,
            Self::Evidence => 8,
            Self::HostChecks => 9,
            Self::Spend => 10,
        }
    }
}

/// The steps that a decision has passed.
#[derive(Debug)]
pub(crate) struct StepsTaken(&'static [GateStep]);

impl StepsTaken {
    pub(crate) const fn start() -> Self {
        Self(&GateStep::ALL)
    }

    /// Takes the result of a step. It must be the next one of [`GateStep::ALL`].
    ///
    /// why: inlined, since results are large and would be moved in and out.
    #[inline(always)]
    pub(crate) fn take<T, E: Into<Refusal>>(
        &mut self,
        step: GateStep,
        result: Result<T, E>,
    ) -> Result<T, Refusal> {
        match self.0.split_first() {
            Some((next, rest)) if *next == step => self.0 = rest,
            _ => return Err(Refusal::new(RejectionCode::Internal, "a step out of its order")),
        }
        result.map_err(Into::into)
    }

    /// Refuses a decision that left out a step.
    pub(crate) fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(RejectionCode::Internal, "a step was left out"))
    }
}
