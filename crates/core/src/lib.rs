//! Ids, digests, impact classes, whole-millisecond time, the clock and the spent set: the words that every other
//! Countersign crate uses.
//!
//! This crate does no I/O, hashes nothing but what [`Digest::of`] is given, and knows nothing of agents, tools'
//! implementations or policy. A value of one of its types is valid by construction: every wire string comes in
//! through `FromStr`, `TryFrom` or `Deserialize`, and all three run the same check.

mod clock;
mod digest;
mod hidden;
mod id;
mod impact;
mod lookalike;
mod spent;
mod time;
mod tool;

#[cfg(test)]
mod tests;

pub use clock::{Clock, ClockError, ManualClock, SystemClock};
pub use digest::{Digest, DigestBuilder, DigestError};
pub use hidden::{escape_hidden, is_hidden};
pub use id::{
    AgentId, Audience, CallId, IdError, KeyId, OperatorId, OutputTag, Principal, RequestId, RunId, SessionId,
    StoreId, TokenId,
};
pub use impact::{ImpactClass, ImpactError};
pub use lookalike::{look_alike, lookalike_keys};
pub use spent::{SpendError, SpentId, SpentTokens, Ticket};
pub use time::{Millis, TimeError, Timestamp};
pub use tool::{ServerName, ToolId, ToolName};
