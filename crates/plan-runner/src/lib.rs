//! Runs a plan that a model makes: the scaffold owns the control flow, and models only answer.
//!
//! [`PlanRunner`] takes a prompt through one route, in this order, and ends at the first fault:
//!
//! 1. The [`Planner`] answers the prompt, which ends the run, or writes a plan ([`PlanText`]) for the session's pinned goal.
//! 2. The plan is checked against the authority that the operator gives the session, and committed as a Merkle root.
//! 3. Every [`Inspector`] must pass it: the operator's [`FlowRules`], a second model ([`ModelInspector`]), or the host's own.
//! 4. An [`Approver`], if there is one, sees the whole plan and may return a token for it. A denial is recorded with the plan's
//!    root and the person's name ([`Approval::DenyBy`]) before it ends the run. The gate starts the plan.
//! 5. For each step, verified against the root, the [`Responder`] writes one turn ([`TurnText`]). The turn's call goes unchanged to
//!    the [`ToolGate`](countersign_tool_gate::ToolGate), which compares it with the plan. [`Tools`] run only the calls that the gate
//!    accepted.
//! 6. The tool's result goes to the responder's next turn and into the gate's trace. The planner does not see it.
//! 7. After the last step the gate recomputes the root and returns the trace, and the planner writes the answer from it.
//!
//! A mismatch is never retried. A run that ends before its plan does, even if it is dropped or panics, halts the plan at the gate
//! ([`ToolGate::halt_plan`](countersign_tool_gate::ToolGate::halt_plan)), so that no one can continue it. An observer receives each
//! [`RunEvent`] as it happens; no event holds an argument's value or a text of a tool or a model. [`PlanRunner::run_async`] does
//! the same for asynchronous models and tools, on any runtime. [`StartedPlan`] is the part without models: a host that has a plan
//! and its calls runs them by the same machine.
//!
//! ```
//! use std::sync::Arc;
//! use countersign_canonical_json::Canonical;
//! use countersign_core::ToolId;
//! use countersign_plan_runner::*;
//! # use countersign_core::{AgentId, Clock, ManualClock, Millis, Principal, SessionId, Timestamp};
//! # use countersign_keys::{SigningKey, TrustRoot};
//! # use countersign_registry::*;
//! # let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)?));
//! # let operator = SigningKey::from_seed([7; 32]);
//! # let root = TrustRoot::new(1, 1, vec![operator.verifying_key()])?;
//! # let draft = RegistryDraft::from_json(br#"{"format":"countersign-registry-1","version":1,
//! #   "agents":[{"agent":"bot","version":1,"registered_by":"ops","max_session":"1h","output_tags":[],
//! #     "tools":[{"server":"desk","name":"read_ticket"}]}],
//! #   "tools":[{"server":"desk","name":"read_ticket","impact":"read","approval":"not_required",
//! #     "args_schema":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],
//! #                    "additionalProperties":false}}],
//! #   "revoked":{"agents":[],"keys":[],"snapshots":[]}}"#)?;
//! # let now = clock.now()?;
//! # let signed = draft.sign(now, now.checked_add(Millis::from_secs(3_600))?, &[&operator])?.to_json();
//! # let marks = Arc::new(MemoryHighWater::new());
//! # let registry = Arc::new(CapabilityRegistry::load(signed.as_bytes(), &root, marks, LoadOptions::default(), now)?);
//! # let session = SessionId::new("session-1")?;
//! # let contract = registry.negotiate(&NegotiationRequest::new(session.clone(), AgentId::new("bot")?), now)?;
//! # let pin = countersign_pinned_ask::PinnedAsk::pin("What does ticket T-7 ask?", &session, Millis::from_secs(60), now)?;
//! # let sink = Arc::new(countersign_audit_log::MemorySink::new());
//! # let principal = Principal::new("ada@example.com")?;
//! # let gate = countersign_tool_gate::ToolGate::builder(Arc::clone(&registry), contract, principal, clock.clone(), sink)
//! #     .pinned_ask(pin).plan_first().open()?;
//! struct Desk;
//! impl Tools for Desk {
//!     fn run(&mut self, tool: &ToolId, args: &Canonical) -> Result<Vec<u8>, ToolError> {
//!         Ok(format!("{tool} {}: Where is my parcel?", args.as_str()).into_bytes())
//!     }
//! }
//! // A language model, in three parts. The example `chat_model` has one over HTTP.
//! struct Model;
//! impl Planner for Model {
//!     fn plan(&mut self, request: &PlanRequest<'_>) -> Result<String, ModelError> {
//!         Ok(format!(r#"<planthenexecute>{{"goal": "{}", "steps": [
//!             {{"id": 1, "tool": "read_ticket", "args": {{"id": "T-7"}}, "description": "Look"}}
//!         ]}}</planthenexecute>"#, request.task().stated_goal()))
//!     }
//!     fn answer(&mut self, request: &AnswerRequest<'_>) -> Result<String, ModelError> {
//!         let steps = request.trace().steps();
//!         Ok(steps.iter().map(|step| String::from_utf8_lossy(step.observation())).collect())
//!     }
//! }
//! impl Responder for Model {
//!     fn turn(&mut self, request: &TurnRequest<'_>) -> Result<String, ModelError> {
//!         let step = request.step().step();
//!         Ok(format!("Thought: as planned\nAction: {}\nArgs: {}", step.tool(), step.args().as_str()))
//!     }
//! }
//!
//! let mut rules = FlowRules::builder().no_egress_after_private().build(registry.view().snapshot())?;
//! let (mut planner, mut responder, mut tools) = (Model, Model, Desk);
//! let mut verified = 0;
//! let mut observer = |event: &RunEvent<'_>| verified += u32::from(matches!(event, RunEvent::StepVerified { .. }));
//! let actors = Actors::new(&mut planner, vec![&mut rules], &mut responder, &mut tools).observer(&mut observer);
//! let end = PlanRunner::new(gate, clock).run(&Task::new("What does ticket T-7 ask?"), actors)?;
//! assert_eq!(end.answer(), r#"desk:read_ticket {"id":"T-7"}: Where is my parcel?"#);
//! assert_eq!(verified, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Non-goals: the runner decides no call itself; the gate does. It does not judge a plan beyond the verdicts of its inspectors.
//! It does not sanitise the results of tools. A manipulated responder can still write any value into the arguments that the plan
//! leaves open. The operator lists those arguments, and they can only be data. The final answer is a model's text, written after
//! the model has read the results of tools.

mod approver;
mod async_actors;
mod chat;
mod error;
mod event;
mod flow_rules;
mod inspect;
mod limits;
mod model;
mod model_inspector;
mod model_planner;
mod model_responder;
mod plan_text;
mod plan_text_error;
mod prompt;
mod runner;
mod runner_async;
mod stage;
mod started;
mod task;
mod tools;
mod turn_text;
mod written_tool;

#[cfg(test)]
mod tests;

pub use approver::{Approval, Approver};
pub use async_actors::{
    AsyncActors, AsyncApprover, AsyncInspector, AsyncPlanner, AsyncResponder, AsyncTools, BoxFuture,
};
pub use chat::{Chat, ChatMessage, ChatRole};
pub use error::RunError;
pub use event::{PlanApproval, RunEvent};
pub use flow_rules::{FlowRules, FlowRulesBuilder, FlowRulesError};
pub use inspect::{Halt, InspectedStep, Inspection, Inspector};
pub use limits::RunLimits;
pub use model::{AnswerRequest, ModelError, Observation, PlanRequest, Planner, Responder, TurnRequest};
pub use model_inspector::ModelInspector;
pub use model_planner::ModelPlanner;
pub use model_responder::ModelResponder;
pub use plan_text::{PLAN_END_TOKEN, PLAN_TOKEN, PlanText, PlanTextStep};
pub use plan_text_error::{PlanTextError, PlanTextProblem};
pub use runner::{Actors, PlanRunner, RunEnd};
pub use started::{PlanWatch, StartedPlan};
pub use task::{OfferedTool, Task};
pub use tools::{ToolError, Tools};
pub use turn_text::{NEXT_STEP, TurnAction, TurnText, TurnTextError};
pub use written_tool::WrittenTool;
