//! Transparency logs as C2SP specifies them: signed notes ([`note`]), checkpoints, cosignatures of witnesses, tiles.
//!
//! [`Checkpoint`] is the signed statement of a log: its origin, size and root. [`WitnessedCheckpoint`] is one with
//! cosignatures of witnesses. [`WitnessedLog`] has the rules by which a witness cosigns, [`Submission`] builds the
//! requests of a log to a witness and verifies the answers. [`TileWriter`] converts a log into static files.
//!
//! The crate keeps no log, sends nothing and reads no clock. A verified checkpoint shows what a log stated once, not
//! that every reader sees the same log: for that, compare checkpoints, or ask witnesses.

pub mod base64;
mod checkpoint;
mod cosignature;
pub mod note;
mod submission;
mod tiles;
mod witness;

#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, CheckpointError, LogKey};
pub use cosignature::{Cosignature, WitnessKey, WitnessedCheckpoint, attach_cosignatures, cosign};
pub use submission::{MAX_WITNESS_ANSWER_BYTES, Submission, SubmissionError};
pub use tiles::{TileWriter, TilesError, full_tiles};
pub use witness::{AddCheckpoint, WitnessRefusal, WitnessedLog};
