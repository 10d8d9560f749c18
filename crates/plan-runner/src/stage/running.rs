use countersign_committed_plan::VerifiedTrace;
use countersign_core::{ServerName, ToolId};
use countersign_tool_gate::{
    AcceptedCall, ApprovalRequest, CallArgs, CallError, Rejection, RejectionCode, ToolCall,
};

use super::context::RunContext;
use crate::approver::Approval;
use crate::error::RunError;
use crate::event::RunEvent;
use crate::model::{AnswerRequest, Observation, TurnRequest};
use crate::started::StartedPlan;
use crate::tools::ToolError;
use crate::turn_text::{TurnAction, TurnText, TurnTextError};
use crate::written_tool::WrittenTool;

/// A running plan, whose calls a responder writes.
pub(crate) struct Running<'r> {
    context: RunContext<'r>,
    started: StartedPlan<'r>,
    goal: Box<str>,
    turns: u64,
    observations: Vec<Observation>,
}

/// Result of a turn.
pub(crate) enum Turned {
    /// The step is over; no call is made.
    Next,
    /// The call may run.
    Accepted(Box<AcceptedCall>),
    /// The call may run once it is approved.
    Waiting(Box<Waiting>),
}

/// A call that was refused because it needs an approval of its own.
pub(crate) struct Waiting {
    call: Call,
    refused: Rejection,
    request: ApprovalRequest,
}

impl Waiting {
    pub(crate) const fn request(&self) -> &ApprovalRequest {
        &self.request
    }
}

/// The call of a turn, as it is sent to the gate. It is neither completed nor corrected here.
struct Call {
    id: String,
    tool: WrittenTool,
    args: CallArgs,
}

impl<'r> Running<'r> {
    pub(super) const fn new(context: RunContext<'r>, started: StartedPlan<'r>, goal: Box<str>) -> Self {
        Self { context, started, goal, turns: 0, observations: Vec::new() }
    }

    /// Builds the next request to the responder; returns `None` when every step has had its calls. The step is verified against the
    /// root of the gate's running plan before the responder sees it.
    pub(crate) fn next(&mut self) -> Result<Option<TurnRequest<'_>>, RunError> {
        let Some(step) = self.started.upcoming() else { return Ok(None) };
        if self.turns >= self.context.limits.turns {
            return Err(RunError::TurnsLimit { step });
        }
        self.turns = self.turns.saturating_add(1);
        self.started.next_step()?;
        let Self { started, goal, observations, .. } = self;
        let calls = started.calls();
        Ok(started.step().map(|step| TurnRequest { goal, step, calls, observations }))
    }

    /// Reads the responder's turn, and submits its call to the gate.
    pub(crate) fn turn(
        &mut self,
        text: &str,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<Turned, RunError> {
        let call = match self.read(text) {
            Ok(Some(call)) => call,
            Ok(None) => return Ok(Turned::Next),
            Err(source) => return Err(self.unread(source, tell)),
        };
        match self.check(&call, &Approval::Abstain) {
            Ok(accepted) => Ok(Turned::Accepted(Box::new(self.accepted(accepted, tell)))),
            Err(refused) => match refused.approval_request().cloned() {
                Some(request) => Ok(Turned::Waiting(Box::new(Waiting { call, refused, request }))),
                None => Err(self.refused(refused, tell)),
            },
        }
    }

    /// Reads the call of a turn; returns `None` if the turn ends the step.
    fn read(&mut self, text: &str) -> Result<Option<Call>, TurnTextError> {
        let turn = TurnText::parse(text, self.context.limits)?;
        match turn.action() {
            TurnAction::Call(tool) => Ok(Some(Call {
                id: self.call_id(),
                tool: tool.clone(),
                args: CallArgs::new(turn.args().clone()),
            })),
            TurnAction::Next if self.started.calls() > 0 => {
                self.started.end_step();
                Ok(None)
            }
            TurnAction::Next => Err(TurnTextError::Next),
        }
    }

    /// Refuses an unreadable turn. It is not a call, and is recorded as a malformed one.
    fn unread(&self, source: TurnTextError, tell: &mut impl FnMut(&RunEvent<'_>)) -> RunError {
        let refused = self.context.gate.refuse_malformed(&self.call_id(), source.code());
        tell(&RunEvent::StepRefused { step: self.started.position(), code: refused.code() });
        RunError::Turn { step: self.started.position(), source }
    }

    fn call_id(&self) -> String {
        format!("{}/{}", self.started.root(), self.turns)
    }

    /// Submits the call again, with the approval that it waited for.
    pub(crate) fn approved(
        &mut self,
        waiting: Waiting,
        approval: &Approval,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<AcceptedCall, RunError> {
        match approval {
            Approval::Token(_) => match self.check(&waiting.call, approval) {
                Ok(accepted) => Ok(self.accepted(accepted, tell)),
                Err(refused) => Err(self.refused(refused, tell)),
            },
            Approval::Abstain => Err(self.refused(waiting.refused, tell)),
            Approval::Deny | Approval::DenyBy(_) => {
                // For the record only: the run ends here in any case.
                let Err(refused) = self.check(&waiting.call, approval) else { return Err(RunError::Denied) };
                let is_recorded = refused.code() != RejectionCode::AuditUnavailable;
                let error = self.refused(refused, tell);
                Err(if is_recorded { RunError::Denied } else { error })
            }
        }
    }

    /// Takes the result of an accepted call.
    pub(crate) fn ran(
        &mut self,
        tool: ToolId,
        returned: Result<Vec<u8>, CallError<ToolError>>,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<(), RunError> {
        let step = self.started.position();
        let bytes = match returned {
            Ok(bytes) => bytes,
            // The call was accepted but did not run.
            Err(CallError::Rejected(refused)) => return Err(self.refused(refused, tell)),
            Err(CallError::Tool(source)) => return Err(RunError::Tool { step, source }),
            Err(_) => return Err(RunError::PlanChanged { step }),
        };
        let held =
            self.observations.iter().fold(bytes.len(), |sum, seen| sum.saturating_add(seen.bytes.len()));
        if held > self.context.limits.observation_bytes {
            return Err(RunError::ObservationLimit { step });
        }
        tell(&RunEvent::StepRan { step, bytes: bytes.len() });
        self.observations.push(Observation { step, tool, bytes });
        Ok(())
    }

    /// Ends the plan: the gate recomputes the root and returns the trace.
    pub(crate) fn finish(self, tell: &mut impl FnMut(&RunEvent<'_>)) -> Result<Finished<'r>, RunError> {
        let trace = self.started.finish()?;
        tell(&RunEvent::Verified { calls: trace.steps().len() });
        Ok(Finished { context: self.context, trace })
    }

    /// Submits the turn's own tool and arguments.
    fn check(&mut self, call: &Call, approval: &Approval) -> Result<AcceptedCall, Rejection> {
        let (server, name) = (call.tool.server().map(ServerName::as_str), call.tool.name().as_str());
        let asked = ToolCall::from_read(&call.id, server, name, &call.args);
        let asked = asked.ask(&self.goal);
        self.started.check(match approval {
            Approval::Token(token) => asked.approval(token),
            Approval::Abstain => asked,
            Approval::Deny => asked.denied(),
            Approval::DenyBy(person) => asked.denied_by(person),
        })
    }

    fn accepted(&self, call: AcceptedCall, tell: &mut impl FnMut(&RunEvent<'_>)) -> AcceptedCall {
        tell(&RunEvent::StepVerified {
            step: self.started.position(),
            tool: call.tool(),
            record: call.sequence(),
        });
        call
    }

    fn refused(&self, source: Rejection, tell: &mut impl FnMut(&RunEvent<'_>)) -> RunError {
        tell(&RunEvent::StepRefused { step: self.started.position(), code: source.code() });
        RunError::Refused { step: self.started.position(), source }
    }
}

/// The verified trace of a plan, waiting for the planner's answer.
pub(crate) struct Finished<'r> {
    context: RunContext<'r>,
    trace: VerifiedTrace<Vec<u8>>,
}

impl Finished<'_> {
    pub(crate) const fn request(&self) -> AnswerRequest<'_> {
        AnswerRequest { task: self.context.task, trace: &self.trace }
    }

    pub(crate) fn answered(
        self,
        answer: String,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<(String, VerifiedTrace<Vec<u8>>), RunError> {
        if answer.len() > self.context.limits.text_bytes {
            return Err(RunError::AnswerTooLarge);
        }
        tell(&RunEvent::Finished);
        Ok((answer, self.trace))
    }
}
