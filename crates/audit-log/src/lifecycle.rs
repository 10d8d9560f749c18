use countersign_core::{Digest, Timestamp};

use crate::Escaped;

/// First entry of a log that replaced another one, which a note closed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BeganRecord {
    /// Time at which the log was begun.
    pub time: Timestamp,
    /// Origin of the log before it.
    pub previous: Escaped<256>,
    /// SHA-256 of the note that closed that log ([`ClosingNote`](crate::ClosingNote)).
    pub closing: Digest,
}

impl BeganRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub fn new(time: Timestamp, previous: &str, closing: Digest) -> Self {
        Self { time, previous: previous.into(), closing }
    }
}

/// The oldest segments of the log were copied to an archive, and are about to be removed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ArchivedRecord {
    /// Time at which they were archived.
    pub time: Timestamp,
    /// First sequence number in them.
    pub first: u64,
    /// Last sequence number in them.
    pub last: u64,
    /// SHA-256 of the archive's manifest, which has the digest of each file.
    pub manifest: Digest,
}

impl ArchivedRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub const fn new(time: Timestamp, first: u64, last: u64, manifest: Digest) -> Self {
        Self { time, first, last, manifest }
    }
}
