//! The gate: decides about every tool call in one fixed order, fails closed, and records each decision before the
//! caller gets it. Refusals beyond a rate are recorded as sums ([`Refusals`]).
//!
//! One [`ToolGate`] serves one session of one agent on behalf of one principal. Its input is a [`ToolCall`],
//! unchecked. Its output is an [`AcceptedCall`], which only the gate can make and which dispatch consumes, or a
//! [`Rejection`] with a stable code.
//!
//! The gate runs no tool by itself and uses no network. It cannot detect whether the agent understood the pinned goal,
//! or whether a tool does what its definition says.

mod accepted;
mod agent_row;
mod answering;
mod approvals;
mod async_gate;
mod batch;
mod builder;
mod call;
mod call_approvals;
mod call_desk;
mod call_ids;
mod code;
mod conduct;
mod counts;
mod decide;
mod findings;
mod gate;
mod gate_state;
mod histogram;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics_off.rs"]
mod metrics;
mod needs;
mod observe;
mod observed;
mod order;
mod owned_call;
mod parts;
mod pending_questions;
mod plan;
mod plan_approval;
mod plan_commit;
mod plan_denial;
mod plan_end;
mod plan_error;
mod plan_questions;
mod plan_settings;
mod plan_start;
mod plan_walk;
mod progress;
mod quarantine;
mod question;
mod recent;
mod recent_answers;
mod recorded_fields;
mod recorder;
mod refusals;
mod refuse;
mod rejection;
mod renewal;
mod replay;
mod request_json;
mod rows;
pub mod rules;
mod session_end;
mod settings;
mod snapshot;
mod stats;
mod steps;
mod terms;
mod used_tools;
mod user_check;

#[cfg(test)]
mod tests;

pub use accepted::{AcceptedCall, InFlight};
pub use answering::AnswerError;
pub use async_gate::{AsyncCall, AsyncGate, AsyncInFlight, BlockingPool};
pub use builder::{OpenError, ToolGateBuilder};
pub use call::{CallArgs, PROPOSAL_MEMBER, REQUEST_ID_MEMBER, ToolCall, own_arguments};
pub use call_approvals::{ApproverAnswer, CallApprovals, EditedCall, FiledQuestion};
pub use call_desk::{CallDesk, DeskHost};
pub use code::{RejectionCode, Retry};
pub use conduct::ReplayedAlarm;
pub use countersign_audit_log::{OutcomeKind, Signal};
pub use countersign_signals::{
    Alarm, AlarmAction, AlarmRule, AlarmRuleError, AlarmState, SavedReplay, SignalRule, SignalRuleError,
};
pub use counts::{Counts, Window};
pub use gate::ToolGate;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use histogram::SystemTicks;
pub use histogram::{ANSWER_SECONDS, HistogramSnapshot, Ticks};
#[cfg(feature = "metrics")]
pub use metrics::METRIC_NAMES;
pub use observe::Observed;
pub use order::GateStep;
pub use owned_call::OwnedToolCall;
pub use pending_questions::PendingQuestions;
pub use plan_approval::PLAN_TOOL;
pub use plan_commit::{commit_plan, step_approval};
pub use plan_error::{FinishPlanError, HaltPlanError, StartPlanError};
pub use plan_settings::{PlanRootSettings, PlanSettings};
pub use quarantine::{BY_ALARM, BY_SIGNAL, KeptStanding, MemoryQuarantines, QuarantineError, Quarantines};
pub use recent_answers::UndisclosedAttempts;
pub use recorded_fields::{RecordedFields, RecordedFieldsError};
pub use refusals::{RefusalRate, RefusalRateError, Refusals};
pub use rejection::{ApprovalDesk, ApprovalRequest, CallError, NotFiled, Rejection};
pub use renewal::RenewError;
pub use replay::AgentReplay;
pub use request_json::RequestError;
pub use settings::{ApprovalSettings, GateLimits, ProposalSettings};
pub use snapshot::{AgentSnapshot, CountsSnapshot, Standing, StatsSnapshot};
pub use stats::CallStats;
pub use user_check::{CheckedCall, UserCheck};
