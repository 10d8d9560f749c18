use std::fmt;
use std::io;

use countersign_core::{Clock, Digest, Millis, Timestamp};
use sha2::{Digest as _, Sha256};

/// Why a piece of evidence could not be read. Whatever the variant: it does not verify.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The reference is not a plain relative `file://` one.
    #[error("the reference is not a plain relative file reference")]
    Reference,
    /// Nothing is there.
    #[error("nothing is there")]
    NotFound,
    /// Something is there that evidence cannot be: a link, a folder, a pipe, a socket, a device, a file with a second name,
    /// or something on another file system.
    #[error("what is there is not a plain file of the evidence folder")]
    NotPlain,
    /// It changed while it was read, or has not the length that it says.
    #[error("it changed while it was read")]
    Changed,
    /// It has more bytes than one file may have.
    #[error("it has more bytes than one file may have")]
    TooLarge,
    /// All evidence of the proposal together has more bytes than it may have.
    #[error("the proposal's evidence has more bytes than it may have")]
    Budget,
    /// The time for the verification is over, or cannot be told.
    #[error("the time for the verification is over")]
    Time,
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[source] io::Error),
}

impl ResolveError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Reference => "EVIDENCE_REFERENCE",
            Self::NotFound => "EVIDENCE_NOT_FOUND",
            Self::NotPlain => "EVIDENCE_NOT_PLAIN",
            Self::Changed => "EVIDENCE_CHANGED",
            Self::TooLarge => "EVIDENCE_TOO_LARGE",
            Self::Budget => "EVIDENCE_BUDGET",
            Self::Time => "EVIDENCE_TIME",
            Self::Io(_) => "EVIDENCE_IO",
        }
    }
}

/// Fetches evidence by reference.
///
/// An implementation hands every byte through [`EvidenceBudget::read`], which counts and hashes in one pass: what was
/// hashed is what comes back, and nothing is read twice.
pub trait EvidenceResolver: Send + Sync + fmt::Debug {
    /// Reads what `reference` (`file://...`) names.
    ///
    /// # Errors
    /// [`ResolveError`] when it is nothing that may be read, or too much.
    fn resolve(
        &self,
        reference: &str,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<ResolvedEvidence, ResolveError>;
}

/// Bytes that were read once, with the digest of exactly those bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedEvidence {
    bytes: Vec<u8>,
    digest: Digest,
}

impl ResolvedEvidence {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of the bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Evidence may be confidential: only its size and digest are shown.
impl fmt::Debug for ResolvedEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedEvidence({} bytes, {})", self.bytes.len(), self.digest)
    }
}

const CHUNK: usize = 64 * 1_024;
const MOST_ROOM_AT_ONCE: usize = 8 * 1_024 * 1_024;

/// What one verification may still read, and until when.
#[derive(Debug)]
pub struct EvidenceBudget<'c> {
    file_bytes: u64,
    total_left: u64,
    deadline: Timestamp,
    clock: &'c dyn Clock,
}

impl<'c> EvidenceBudget<'c> {
    /// Begins now: at most `file_bytes` for each file, `total_bytes` for all, within `time`.
    ///
    /// # Errors
    /// [`ResolveError::Time`] when the time cannot be told.
    pub fn start(
        clock: &'c dyn Clock,
        file_bytes: u64,
        total_bytes: u64,
        time: Millis,
    ) -> Result<Self, ResolveError> {
        let now = clock.now().map_err(|_| ResolveError::Time)?;
        Ok(Self { file_bytes, total_left: total_bytes, deadline: now.saturating_add(time), clock })
    }

    /// Says whether there is time left.
    ///
    /// # Errors
    /// [`ResolveError::Time`] when there is none, or it cannot be told.
    pub fn check_time(&self) -> Result<(), ResolveError> {
        let now = self.clock.now().map_err(|_| ResolveError::Time)?;
        if now > self.deadline { Err(ResolveError::Time) } else { Ok(()) }
    }

    /// Reads one piece of evidence to its end, counting and hashing while reading.
    ///
    /// # Errors
    /// [`ResolveError`] as soon as a limit is passed: no more than one byte beyond it is ever asked for.
    pub fn read(&mut self, source: impl io::Read) -> Result<ResolvedEvidence, ResolveError> {
        self.read_about(source, CHUNK as u64)
    }

    /// Reads as [`read`](Self::read) does. `size`, which need not be true, is how much room the bytes get to begin with.
    pub(crate) fn read_about(
        &mut self,
        mut source: impl io::Read,
        size: u64,
    ) -> Result<ResolvedEvidence, ResolveError> {
        let most = usize::try_from(self.file_bytes.min(self.total_left)).unwrap_or(usize::MAX);
        let expected = usize::try_from(size).unwrap_or(usize::MAX).min(most).min(MOST_ROOM_AT_ONCE);
        // One more than expected: the end shows itself only to who asks for a byte after it.
        let mut bytes = vec![0; expected.saturating_add(1)];
        let mut filled = 0_usize;
        let mut hasher = Sha256::new();
        loop {
            self.check_time()?;
            if filled == bytes.len() {
                bytes.resize(filled.saturating_add(CHUNK).min(most.saturating_add(1)), 0);
            }
            let end = filled.saturating_add(CHUNK).min(bytes.len());
            let count = match source.read(bytes.get_mut(filled..end).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ResolveError::Io(error)),
            };
            let after = filled.saturating_add(count);
            let read = bytes
                .get(filled..after)
                .ok_or_else(|| ResolveError::Io(io::ErrorKind::InvalidData.into()))?;
            self.total_left = self.total_left.saturating_sub(count as u64);
            if after > most {
                let file_is_full = after as u64 > self.file_bytes;
                return Err(if file_is_full { ResolveError::TooLarge } else { ResolveError::Budget });
            }
            hasher.update(read);
            filled = after;
        }
        bytes.truncate(filled);
        Ok(ResolvedEvidence { bytes, digest: Digest::from_bytes(hasher.finalize().into()) })
    }
}
