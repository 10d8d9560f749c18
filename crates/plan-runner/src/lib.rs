//! Runs a plan of a model's making: the scaffold owns the control flow, models only answer.
//!
//! [`PlanRunner`] takes a prompt through one route, in this order, and ends at the first thing that is wrong:
//!
//! 1. The [`Planner`] answers the prompt, which is the end of it, or writes a plan ([`PlanText`]) for the session's pinned goal.
//! 2. The plan is checked against what the operator allows the session, and committed as a Merkle root.
//! 3. Every [`Inspector`] lets it pass: [`FlowRules`] of the operator's, a second model ([`ModelInspector`]), or one's own.
//! 4. An [`Approver`], where there is one, sees the whole plan and may give a token for it. A no is on record, with the plan's root
//!    and who said it ([`Approval::DenyBy`]), before the run ends of it. The gate starts the plan.
//! 5. For each step, verified against the root, the [`Responder`] writes one turn ([`TurnText`]). What the turn says goes to the
//!    [`ToolGate`](countersign_tool_gate::ToolGate) as it is, which compares it with the plan; [`Tools`] run what the gate
//!    accepted, and nothing else.
//! 6. What the tool returned goes to the responder's next turn and into the gate's trace. The planner does not see it.
//! 7. After the last step the gate recomputes the root and gives out the trace, and the planner writes the answer from it.
//!
//! A mismatch is never tried again. A run that ends before its plan does, be it dropped or in a panic, halts the plan at the gate
//! ([`ToolGate::halt_plan`](countersign_tool_gate::ToolGate::halt_plan)), so that nobody goes on with it. Whoever watches is told each
//! [`RunEvent`] as it happens; none holds an argument's value or anything that a tool or a model said. [`PlanRunner::run_async`] does
//! the same for models and tools that are waited for, on any runtime.
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
//! // A language model, in three parts. Over HTTP it is a `ChatModel` (feature `chat`).
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
//! What it does not do: it decides no call itself, that is the gate's; it does not know whether a plan is a good one beyond what
//! its inspectors say; it does not clean what tools return. A responder that was talked into something can still write what it
//! likes into the arguments that the plan leaves open, which the operator lists and which can only be data. The final answer is a
//! model's text, written after reading what tools returned.

mod approver;
mod async_actors;
mod chat;
#[cfg(feature = "chat")]
mod chat_answer;
#[cfg(feature = "chat")]
mod chat_endpoint;
#[cfg(feature = "chat")]
mod chat_error;
#[cfg(feature = "chat")]
mod chat_key;
#[cfg(feature = "chat")]
mod chat_model;
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
mod task;
mod tools;
mod turn_text;
mod watch;
mod written_tool;

#[cfg(test)]
mod tests;

pub use approver::{Approval, Approver};
pub use async_actors::{
    AsyncActors, AsyncApprover, AsyncInspector, AsyncPlanner, AsyncResponder, AsyncTools, BoxFuture,
};
pub use chat::{Chat, ChatMessage, ChatRole};
#[cfg(feature = "chat")]
pub use chat_error::ChatError;
#[cfg(feature = "chat")]
pub use chat_model::{ChatModel, ChatModelBuilder};
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
pub use task::{OfferedTool, Task};
pub use tools::{ToolError, Tools};
pub use turn_text::{NEXT_STEP, TurnAction, TurnText, TurnTextError};
pub use written_tool::WrittenTool;
