//! Decides one call again, step by step and in the gate's order, with the gate's own functions.

use std::cmp::Ordering;

use countersign_audit_log::CallRecord;
use countersign_canonical_json::{Canonical, Limits, read};
use countersign_core::{ServerName, ToolId, ToolName};
use countersign_registry::{
    AgentEntry, ApprovalRule, RegistrySnapshot, RegistryView, SessionContract, ToolRules,
};
use countersign_tool_gate::rules::{
    ARGS_RECIPE, Goal, NO_PROPOSAL, OBSERVED, Reservation, came_without_proposal, check_args, check_contract,
    check_definition, check_restated, is_name_disclosed, listed_tool, meant_tool, only_tool,
    takes_no_proposals,
};
use countersign_tool_gate::{GateStep, RejectionCode, Standing};

use crate::answer::{End, HostChecks, Missing};
use crate::session::{CallHistory, Gates, Parents, Session};

/// Agent and contract of a call, as step 1 finds them.
type Living<'a> = (&'a SessionContract, &'a AgentEntry);

/// Result of a step that was not taken yet.
const NOT_YET: End = End::Unknown(Missing::Host);

/// Recorded result of one step.
enum RecordedStep {
    Passed,
    Refused(RejectionCode),
    /// An earlier step refused.
    NotAsked,
}

/// A recorded call that is decided again.
pub(crate) struct Redecision<'a> {
    pub(crate) call: &'a CallRecord,
    /// The recorded code, if the call was refused.
    pub(crate) refused: Option<RejectionCode>,
    pub(crate) session: &'a Session,
    /// The other registry.
    pub(crate) view: &'a RegistryView,
    /// Whether registry and history are those of the record, so that a recorded answer stands.
    pub(crate) same_gate: bool,
    /// The registry that was in force, if it is known.
    pub(crate) was: Option<&'a RegistrySnapshot>,
    /// Recorded standing of the agent and of those that led to its session.
    pub(crate) standing: Standing,
    pub(crate) checks: HostChecks,
    /// The first input whose result was carried over.
    pub(crate) carried: Option<Missing>,
}

impl<'a> Redecision<'a> {
    /// Takes every step of the gate in the gate's order; the first refusal ends it.
    pub(crate) fn decide(&mut self) -> Result<Reservation<'a>, End> {
        let mut living: Result<Living<'a>, End> = Err(NOT_YET);
        let mut rules: Result<&ToolRules, End> = Err(NOT_YET);
        let mut reservation = Err(NOT_YET);
        for step in GateStep::ALL {
            // INVARIANT: no arm stands for several steps that may come, so that a new step does not compile.
            match step {
                GateStep::Ids => self.observed()?,
                // Refusals of these two wait for the third, which may have come before them.
                GateStep::Agent => living = self.living_agent(),
                GateStep::Tool => rules = living.and_then(|living| self.disclosed_tool(living.0)),
                GateStep::Read => rules = Ok(self.read_call(rules)?),
                GateStep::Definition => self.same_definition(rules?)?,
                GateStep::Args => self.fitting_args(rules?)?,
                GateStep::Limits => reservation = Ok(self.place(living?.1, rules?)?),
                GateStep::Goal => self.pinned_goal(rules?)?,
                GateStep::Plan => self.next_step(rules?)?,
                GateStep::CallId => self.unused_id()?,
                GateStep::Approval => self.approved(rules?)?,
                GateStep::Evidence => self.backed(rules?, reservation.as_mut().map_err(|end| *end)?)?,
                GateStep::HostChecks => self.host_checks(rules?)?,
                GateStep::Spend => self.spent(rules?)?,
                // A simulated decision takes no time.
                GateStep::LastLook => {}
            }
        }
        reservation
    }

    /// Returns the recorded result of a step. A refusal implies that the steps before it passed.
    fn then(&self, step: GateStep) -> RecordedStep {
        let Some(code) = self.refused else { return RecordedStep::Passed };
        match code.step().cmp(&step.number()) {
            Ordering::Greater if code.step() <= GateStep::Spend.number() => RecordedStep::Passed,
            Ordering::Equal => RecordedStep::Refused(code),
            Ordering::Greater | Ordering::Less => RecordedStep::NotAsked,
        }
    }

    fn carry(&mut self, missing: Missing) {
        self.carried.get_or_insert(missing);
    }

    /// Keeps the recorded result of a step whose input is not recorded.
    fn stands(&mut self, step: GateStep, missing: Missing) -> Result<(), End> {
        match self.then(step) {
            RecordedStep::Passed => {
                self.carry(missing);
                Ok(())
            }
            RecordedStep::Refused(code) => {
                self.carry(missing);
                Err(code.into())
            }
            RecordedStep::NotAsked => Err(End::Unknown(missing)),
        }
    }

    /// Handles a call that was only observed. A framework may have refused it by itself, so only its name came to the
    /// gate.
    fn observed(&self) -> Result<(), End> {
        let is_observed = self.call.reason.as_ref().is_some_and(|reason| reason.as_str() == OBSERVED);
        if self.refused != Some(RejectionCode::UndisclosedTool) || !is_observed {
            return Ok(());
        }
        let contract = self.session.contract.as_ref().map_err(|end| *end)?;
        let name = self.call.tool.name.as_str();
        if is_name_disclosed(contract, name) {
            return Err(End::Unknown(Missing::Call));
        }
        self.nowhere_else(name)?;
        Err(RejectionCode::UndisclosedTool.into())
    }

    /// Returns [`End::Unknown`] if a session that led to this one may have had a tool of this name to pass on.
    fn nowhere_else(&self, name: &str) -> Result<(), End> {
        let is_unclear = self.session.parents == Parents::Unclear;
        if is_unclear || self.session.more.iter().any(|tool| tool.name().as_str() == name) {
            return Err(End::Unknown(Missing::Parent));
        }
        Ok(())
    }

    /// Step 1.
    fn living_agent(&mut self) -> Result<Living<'a>, End> {
        let contract = self.session.contract.as_ref().map_err(|end| *end)?;
        check_contract(contract, self.view, self.call.time)?;
        match self.session.parents {
            Parents::Known => {}
            Parents::Lasted => self.carry(Missing::Parent),
            Parents::Unclear => return Err(End::Unknown(Missing::Parent)),
        }
        if let RecordedStep::Refused(code) = self.then(GateStep::Agent) {
            self.still_refused(code)?;
        }
        let entry = self.view.snapshot().agent(&self.call.agent);
        let entry = entry.ok_or(RejectionCode::AgentNotRegistered)?;
        Ok((contract, entry))
    }

    /// Step 0 reads ids and names before steps 1 and 2, and the rest after the tool is known. The record does not show
    /// which part refused, unless the name is malformed. A call that was refused before the rest has no arguments on
    /// record.
    fn read_call<T>(&mut self, before: Result<T, End>) -> Result<T, End> {
        match (self.then(GateStep::Ids), before) {
            (RecordedStep::Refused(_), Err(_)) if ToolName::new(self.call.tool.name.as_str()).is_ok() => {
                Err(End::Unknown(Missing::Call))
            }
            (RecordedStep::Refused(code), _) => {
                self.carry(Missing::Call);
                Err(code.into())
            }
            (RecordedStep::Passed | RecordedStep::NotAsked, Ok(_)) if self.call.args.is_none() => {
                Err(End::Unknown(Missing::Arguments))
            }
            (RecordedStep::Passed | RecordedStep::NotAsked, before) => before,
        }
    }

    /// Handles a call that step 1 refused, and that the other registry does not refuse there. The cause was the
    /// registry then, or it persists.
    fn still_refused(&mut self, code: RejectionCode) -> Result<(), End> {
        use RejectionCode::{
            AgentNotRegistered, AgentQuarantined, AgentRevoked, ContractExpired, RegistryStale,
        };
        if code == AgentQuarantined && self.standing == Standing::Quarantined {
            return Err(code.into());
        }
        let line = &self.session.line;
        let of_registry = if matches!(code, RegistryStale | ContractExpired) {
            // The other registry is in force, and its contract has time left.
            Some(true)
        } else if code == AgentQuarantined {
            Some(false)
        } else {
            self.was.map(|was| {
                (code == AgentRevoked && line.iter().any(|agent| was.is_agent_revoked(agent)))
                    || (code == AgentNotRegistered && line.iter().any(|agent| was.agent(agent).is_none()))
            })
        };
        match (of_registry, self.standing) {
            (None, _) => Err(End::Unknown(Missing::Registry)),
            // It is unknown whether the quarantine still held: step 1 refused for another reason.
            (Some(true), Standing::Quarantined) => Err(End::Unknown(Missing::Host)),
            (Some(true), Standing::Free) => Ok(()),
            (Some(false), _) => {
                self.carry(Missing::Host);
                Err(code.into())
            }
        }
    }

    /// Step 2, the tool.
    fn disclosed_tool(&self, contract: &SessionContract) -> Result<&'a ToolRules, End> {
        let named = &self.call.tool;
        let name = ToolName::new(named.name.as_str()).map_err(|_| End::Unknown(Missing::Call))?;
        let server = match named.server.as_str() {
            "?" => None,
            server => Some(ServerName::new(server).map_err(|_| End::Unknown(Missing::Call))?),
        };
        self.nowhere_else(name.as_str())?;
        let tool = meant_tool(contract, server.as_ref(), &name)?;
        let tool: &ToolId = &tool;
        let listed = listed_tool(contract, tool, contract.disclosed(self.view, tool));
        // The record has the server even if the call gave only the name, which may mean another tool here.
        if only_tool(&self.session.disclosed, &name) == Some(tool)
            && only_tool(contract.tools(), &name) != listed.is_ok().then_some(tool)
        {
            return Err(End::Unknown(Missing::Server));
        }
        listed.map_err(Into::into)
    }

    /// Step 2, the definition.
    fn same_definition(&self, rules: &ToolRules) -> Result<(), End> {
        use RejectionCode::{ToolDefinitionChanged, ToolDefinitionUnknown};
        // For a call that did not get this far, neither the definition nor the arguments are recorded.
        if self.is_passed(GateStep::Tool)
            || matches!(self.refused, Some(ToolDefinitionChanged | ToolDefinitionUnknown))
        {
            check_definition(rules, self.call.definition).map_err(|refusal| match self.refused {
                // Records of older versions have one code for both.
                Some(ToolDefinitionChanged) if refusal.code() == ToolDefinitionUnknown => {
                    ToolDefinitionChanged
                }
                _ => refusal.code(),
            })?;
        }
        Ok(())
    }

    /// Step 3.
    fn fitting_args(&mut self, rules: &ToolRules) -> Result<(), End> {
        if let Some(args) = recorded_args(self.call) {
            return Ok(check_args(rules, &args)?);
        }
        let is_same = |was: &ToolRules| {
            let (was, entry) = (was.entry(), rules.entry());
            was.args_schema() == entry.args_schema() && was.constraints() == entry.constraints()
        };
        if self.rules_then(rules).is_some_and(is_same) {
            self.stands(GateStep::Args, Missing::Arguments)
        } else {
            Err(End::Unknown(Missing::Arguments))
        }
    }

    /// Returns the tool's rules in the registry that was in force.
    fn rules_then(&self, rules: &ToolRules) -> Option<&'a ToolRules> {
        self.was?.tool(rules.entry().tool())
    }

    /// Step 4.
    fn place(&self, agent: &AgentEntry, rules: &ToolRules) -> Result<Reservation<'a>, End> {
        let (of_agent, of_tool) = (agent.limits(), rules.entry().limits());
        let is_unclear = self.session.history == CallHistory::Unclear
            || (self.session.gates == Gates::Several && !self.same_gate);
        if is_unclear && !(of_agent.is_none() && of_tool.is_none()) {
            return Err(End::Unknown(Missing::EarlierCall));
        }
        let tool: &ToolId = rules.entry().tool();
        Ok(self.session.usage.reserve(tool, self.call.time, of_agent, of_tool)?)
    }

    /// Step 5.
    fn pinned_goal(&mut self, rules: &ToolRules) -> Result<(), End> {
        use RejectionCode::{AskDrift, AskRequired};
        let is_pinned = self.call.ask.is_some();
        let goal = match self.then(GateStep::Goal) {
            RecordedStep::Passed if is_pinned && self.call.ask_restated.is_some() => Goal::Same,
            RecordedStep::Passed if is_pinned => Goal::Pinned,
            RecordedStep::Passed => Goal::Neither,
            RecordedStep::Refused(AskDrift) => return Err(AskDrift.into()),
            RecordedStep::Refused(AskRequired) if is_pinned => Goal::Pinned,
            RecordedStep::Refused(AskRequired) if rules.entry().ask().is_required() => Goal::Neither,
            RecordedStep::Refused(AskRequired) => match self.rules_then(rules) {
                Some(was) if !was.entry().ask().is_required() => Goal::Restated,
                _ => return Err(End::Unknown(Missing::Goal)),
            },
            RecordedStep::Refused(_) | RecordedStep::NotAsked => {
                return self.stands(GateStep::Goal, Missing::Goal);
            }
        };
        Ok(check_restated(rules, goal)?)
    }

    /// Step 6. A plan belongs to one registry, so it implies nothing under another one.
    fn next_step(&mut self, rules: &ToolRules) -> Result<(), End> {
        if self.call.plan.is_some() {
            return if self.same_gate {
                self.stands(GateStep::Plan, Missing::Plan)
            } else {
                Err(End::Unknown(Missing::Plan))
            };
        }
        if rules.entry().plan().is_required() {
            return Err(RejectionCode::PlanRequired.into());
        }
        match self.then(GateStep::Plan) {
            RecordedStep::Passed => Ok(()),
            // Refused for another reason than the tool's rule: the call claimed to be a step, or the gate refuses all
            // calls without a plan.
            RecordedStep::Refused(_)
                if self.rules_then(rules).is_some_and(|was| !was.entry().plan().is_required()) =>
            {
                self.stands(GateStep::Plan, Missing::Plan)
            }
            RecordedStep::Refused(_) | RecordedStep::NotAsked => Err(End::Unknown(Missing::Plan)),
        }
    }

    /// Step 7. An approval that verified then counts, unless its key was revoked since.
    fn approved(&mut self, rules: &ToolRules) -> Result<(), End> {
        use RejectionCode::{ApprovalDenied, ApprovalRequired, ApprovalsFull, StoreUnavailable};
        let is_same_rule = self.has_same_approval_terms(rules);
        if self.refused == Some(ApprovalDenied) {
            if !is_same_rule {
                // Perhaps no question would have been filed.
                return Err(End::Unknown(Missing::Approval));
            }
            if !self.same_gate {
                self.carry(Missing::Approval);
            }
            return Err(ApprovalDenied.into());
        }
        let Some(rule) = self.approval_rule(rules) else {
            let by_revoked_key = self.call.approval.is_some() && self.revokes_more_keys();
            if self.is_passed(GateStep::Approval) && by_revoked_key {
                return Err(End::Unknown(Missing::Approval));
            } else if !is_same_rule {
                return Err(End::Unknown(Missing::Arguments));
            }
            return self.stands(GateStep::Approval, Missing::Arguments);
        };
        if !rule.is_required() {
            return Ok(());
        }
        // The gate tried to ask a person for an approval and failed.
        if let Some(code @ (ApprovalsFull | StoreUnavailable)) = self.refused
            && self.call.approval.is_none()
        {
            let rule_then = self.rules_then(rules).and_then(|was| self.approval_rule(was));
            if !rule_then.is_some_and(ApprovalRule::is_required) {
                return Err(End::Unknown(Missing::Store));
            }
            self.carry(Missing::Store);
            return Err(code.into());
        }
        match self.then(GateStep::Approval) {
            RecordedStep::Passed if self.call.approval.is_some() && self.revokes_more_keys() => {
                Err(End::Unknown(Missing::Approval))
            }
            RecordedStep::Passed if self.call.approval.is_some() && self.has_other_approvers(rules) => {
                Err(End::Unknown(Missing::Approval))
            }
            RecordedStep::Passed if self.call.approval.is_some() => {
                self.stands(GateStep::Approval, Missing::Approval)
            }
            RecordedStep::Passed | RecordedStep::Refused(ApprovalRequired) => Err(ApprovalRequired.into()),
            RecordedStep::Refused(_) | RecordedStep::NotAsked => Err(End::Unknown(Missing::Approval)),
        }
    }

    /// Returns the approval that the call needs; `None` if that depends on arguments that are not recorded.
    fn approval_rule(&self, rules: &ToolRules) -> Option<ApprovalRule> {
        let entry = rules.entry();
        if entry.approval_terms().unless().is_empty() {
            return Some(entry.approval());
        }
        recorded_args(self.call).map(|args| entry.approval_of(&args, &[]))
    }

    fn has_same_approval_terms(&self, rules: &ToolRules) -> bool {
        let terms = rules.entry().approval_terms();
        self.rules_then(rules).is_some_and(|was| was.entry().approval_terms() == terms)
    }

    /// Returns `true` if approvals that were enough then may be too few, or of other persons.
    fn has_other_approvers(&self, rules: &ToolRules) -> bool {
        let approvers = rules.entry().approvers();
        let then = self.rules_then(rules).and_then(|was| was.entry().approvers());
        approvers.is_some() && then != approvers
    }

    /// Returns `true` if the other registry revokes a key that may have been valid then.
    fn revokes_more_keys(&self) -> bool {
        let keys_then = self.was.map(|was| was.revoked().keys());
        let is_new = |key| !keys_then.is_some_and(|keys| keys.contains(key));
        self.view.snapshot().revoked().keys().iter().any(is_new)
    }

    fn revokes_the_same_keys(&self) -> bool {
        let keys = self.view.snapshot().revoked().keys();
        self.was.is_some_and(|was| was.revoked().keys() == keys)
    }

    /// Step 8.
    fn backed(&mut self, rules: &ToolRules, reservation: &mut Reservation<'_>) -> Result<(), End> {
        let Some(proposal) = &self.call.proposal else { return Ok(takes_no_proposals(rules)?) };
        let came_without = match self.then(GateStep::Evidence) {
            RecordedStep::Passed => proposal.digest.is_none(),
            RecordedStep::Refused(_) => {
                self.call.reason.as_ref().is_some_and(|reason| reason.as_str() == NO_PROPOSAL)
            }
            RecordedStep::NotAsked => return Err(End::Unknown(Missing::Proposal)),
        };
        if came_without {
            came_without_proposal(rules, false)?;
        } else {
            reservation.charge();
        }
        let rule = rules.entry().evidence();
        let same_rule = self.rules_then(rules).is_some_and(|was| was.entry().evidence() == rule);
        let asks_no_more = same_rule || (self.is_passed(GateStep::Evidence) && !rule.is_required());
        // A key that is not recorded can make a file count, or can be the reason of a refusal.
        let same_keys = came_without
            || if self.is_passed(GateStep::Evidence) {
                !self.revokes_more_keys()
            } else {
                self.revokes_the_same_keys()
            };
        if self.is_same_impact(rules) && asks_no_more && same_keys {
            self.stands(GateStep::Evidence, Missing::Proposal)
        } else {
            Err(End::Unknown(Missing::Proposal))
        }
    }

    fn is_passed(&self, step: GateStep) -> bool {
        matches!(self.then(step), RecordedStep::Passed)
    }

    fn is_same_impact(&self, rules: &ToolRules) -> bool {
        self.call.impact.as_ref().is_some_and(|then| then.as_str() == rules.entry().impact().as_str())
    }

    /// Step 9.
    fn host_checks(&mut self, rules: &ToolRules) -> Result<(), End> {
        match self.then(GateStep::HostChecks) {
            RecordedStep::Passed if self.is_same_impact(rules) => Ok(()),
            RecordedStep::Refused(_) if self.is_same_impact(rules) => {
                self.stands(GateStep::HostChecks, Missing::Checks)
            }
            RecordedStep::Passed | RecordedStep::NotAsked if self.checks == HostChecks::None => Ok(()),
            RecordedStep::Passed | RecordedStep::Refused(_) | RecordedStep::NotAsked => {
                Err(End::Unknown(Missing::Checks))
            }
        }
    }

    /// Before step 7. Ids that have run are in a store, and a call that the other registry refuses has not used up its id.
    fn unused_id(&mut self) -> Result<(), End> {
        if self.refused != Some(RejectionCode::CallIdReused) {
            return Ok(());
        }
        if self.session.history == CallHistory::AsRecorded {
            self.stands(GateStep::CallId, Missing::Store)
        } else {
            Err(End::Unknown(Missing::Store))
        }
    }

    /// Step 10.
    fn spent(&mut self, rules: &ToolRules) -> Result<(), End> {
        let brings_proposal = self.call.proposal.as_ref().is_some_and(|proposal| proposal.digest.is_some());
        let needs_approval = self.approval_rule(rules).is_none_or(ApprovalRule::is_required);
        if !needs_approval && !brings_proposal {
            return Ok(());
        }
        match self.then(GateStep::Spend) {
            RecordedStep::Passed => Ok(()),
            // Another call that the other registry refuses has not used it up.
            RecordedStep::Refused(_) if self.session.history != CallHistory::AsRecorded => {
                Err(End::Unknown(Missing::Store))
            }
            RecordedStep::Refused(_) | RecordedStep::NotAsked => self.stands(GateStep::Spend, Missing::Store),
        }
    }
}

/// Returns all arguments, if the record has them: their digest proves it.
fn recorded_args(call: &CallRecord) -> Option<Canonical> {
    let text = call.values.get("")?.unescape()?;
    let args = read(text.as_bytes(), ARGS_RECIPE, &Limits::default()).ok()?;
    (Some(args.digest()) == call.args).then_some(args)
}
