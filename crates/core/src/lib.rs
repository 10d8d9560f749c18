//! Shared vocabulary of the Countersign crates: ids, digests, recipes, impact classes, the facts of a call, time in whole
//! milliseconds, the clock and the spent set.
//!
//! This crate does no I/O but reading the system's clock, and contains no policy. Every value of its types is valid by
//! construction: `FromStr`, `TryFrom` and `Deserialize` run the same check.

mod approvers;
mod call_facts;
mod clock;
mod coded;
mod digest;
mod error_chain;
mod evidence_gap;
mod id;
mod impact;
mod recipe;
pub mod rfc3339;
mod signal;
mod spent;
mod text;
mod thread_number;
mod time;
mod tool;

#[cfg(test)]
mod tests;

pub use approvers::{Approvers, ApproversError};
pub use call_facts::CallFacts;
pub use clock::{Clock, ClockError, ManualClock, SystemClock};
pub use coded::Coded;
pub use digest::{Digest, DigestBuilder, DigestError, SeenDigests};
pub use error_chain::error_chain;
pub use evidence_gap::EvidenceGap;
pub use id::{
    AgentId, Audience, CallId, IdError, KeyId, OperatorId, OutputTag, Principal, RequestId, RunId, SessionId,
    StoreId, TokenId,
};
pub use impact::{ImpactClass, ImpactError};
pub use recipe::{Recipe, RecipeError};
pub use signal::Signal;
pub use spent::{SpendError, SpentId, SpentTokens, Ticket};
pub use text::{escape_hidden, is_hidden, look_alike, lookalike_keys};
pub use thread_number::thread_number;
pub use time::{Millis, TimeError, Timestamp};
pub use tool::{ServerName, ToolId, ToolName};
