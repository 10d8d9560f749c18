#![doc = include_str!("../README.md")]

mod load;
mod session;

#[cfg(test)]
mod tests;

pub use countersign_action_proposal as action_proposal;
pub use countersign_approval_token as approval_token;
pub use countersign_audit_log as audit_log;
pub use countersign_canonical_json as canonical_json;
pub use countersign_committed_plan as committed_plan;
pub use countersign_core as core;
pub use countersign_pinned_ask as pinned_ask;
pub use countersign_registry as registry;
pub use countersign_tlog as tlog;
pub use countersign_tool_gate as tool_gate;

/// Keys and signatures, with the signed notes of [`tlog`].
pub mod keys {
    pub use countersign_keys::*;
    pub use countersign_tlog::note;
}

pub use load::{Countersign, CountersignBuilder, LoadError};
pub use session::{NegotiatedSession, SessionBuilder, SessionError};
