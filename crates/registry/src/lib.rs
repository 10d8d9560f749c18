//! Registry of agents and tools, signed by operators, and the session contract derived from it alone.
//!
//! An operator writes a draft ([`RegistryDraft`]), signs it with a threshold of keys and loads it
//! ([`CapabilityRegistry`]). Size, signatures, version, age and content are checked in this order. The highest
//! accepted version is remembered ([`HighWaterStore`]), so an older or forked registry is refused. A session is
//! negotiated ([`NegotiationRequest`], [`SessionContract`]) from the agent's entry; the agent's statements about
//! itself ([`AgentClaims`]) go into the record only. Schemas and constraints of tools are compiled at load
//! ([`ToolRules`]).
//!
//! This crate decides no call: it counts no limits, requests no approval and writes no record. It fetches nothing and
//! reads no clock. It does not protect against a compromised threshold of operator keys, nor against the loss of the
//! high-water mark between two runs.

mod agent_entry;
mod approval_terms;
mod args_error;
#[cfg(feature = "schema")]
mod args_json;
mod claims;
mod constraint;
mod content;
mod contract;
mod cut;
mod definition;
mod draft;
mod entry_index;
#[cfg(feature = "schema")]
mod evaluator;
mod fields;
mod finding;
mod follow;
mod host_rules;
mod limits;
mod lint;
mod lint_gaps;
mod lint_mentions;
mod lint_rules;
mod load;
mod mark;
mod mark_file;
mod name_table;
mod names;
mod negotiate;
#[cfg(not(feature = "schema"))]
mod no_evaluator;
mod path_rule;
mod place;
mod plain_schema;
mod range_rule;
mod reads;
mod registry;
mod revoked;
mod rule;
mod schema;
mod schema_bounds;
mod schema_graph;
mod schema_place;
mod server_entry;
mod snapshot;
mod tier;
mod tool_entry;
mod uri_rule;
mod view;
mod wire;

#[cfg(test)]
#[cfg(feature = "schema")]
mod tests;

pub use agent_entry::{AgentEntry, Capabilities, agent_fingerprint};
pub use approval_terms::{ApprovalBranch, ApprovalChange, ApprovalTerms};
pub use args_error::ArgsError;
pub use claims::AgentClaims;
pub use constraint::Constraint;
pub use content::{ApprovalTermsError, ConstraintError, ContentError, ContentProblem};
pub use contract::{ContractError, SessionContract};
pub use definition::{DefinitionError, ListedTool, definition_digest};
pub use draft::{DraftError, RegistryDraft};
pub use finding::{Finding, Severity};
pub use follow::RefreshError;
pub use limits::{LimitError, Limits, Rate};
pub use load::{LoadOptions, RegistryError, verify_registry};
pub use mark::{HighWaterStore, Mark, MarkError, MemoryHighWater};
pub use mark_file::FileHighWater;
pub use negotiate::{NegotiateError, NegotiationRequest, Wanted};
pub use place::{ArgPlace, PlaceError};
pub use reads::is_read_name;
pub use registry::CapabilityRegistry;
pub use revoked::Revoked;
pub use rule::{ApprovalRule, AskRule, EvidenceRule, PlanRule, TaskRule};
pub use server_entry::ServerEntry;
pub use snapshot::{FreshnessError, RegistrySnapshot};
pub use tier::ToolTier;
pub use tool_entry::{ToolEntry, ToolEntryBuilder, ToolRules, tool_fingerprint};
pub use view::{AgentError, BorrowedView, RegistryView};
pub use wire::{FORMAT, PAYLOAD_TYPE, draft_schema};
