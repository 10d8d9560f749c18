use std::fmt;
use std::io;

use countersign_core::{Clock, Digest, Millis, Timestamp};
use sha2::{Digest as _, Sha256};

/// Failure to read a piece of evidence. It does not verify, whatever the variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The reference is not a plain relative `file://` one.
    #[error("the reference is not a plain relative file reference")]
    Reference,
    /// The file does not exist.
    #[error("nothing is there")]
    NotFound,
    /// The object is not a plain file: a link, a folder, a pipe, a socket, a device, a file with a second name, or on
    /// another file system.
    #[error("what is there is not a plain file of the evidence folder")]
    NotPlain,
    /// The file changed while it was read, or does not have its reported length.
    #[error("it changed while it was read")]
    Changed,
    /// The file exceeds the limit for one file.
    #[error("it has more bytes than one file may have")]
    TooLarge,
    /// All evidence of the proposal together exceeds the limit.
    #[error("the proposal's evidence has more bytes than it may have")]
    Budget,
    /// The time limit of the verification has passed, or the clock is unavailable.
    #[error("the time for the verification is over")]
    Time,
    /// The file cannot be read.
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
/// An implementation passes every byte through [`EvidenceBudget::read`], which counts and hashes in one pass: the
/// returned bytes are the hashed ones, and nothing is read twice.
pub trait EvidenceResolver: Send + Sync + fmt::Debug {
    /// Reads the evidence that `reference` (`file://...`) names.
    ///
    /// # Errors
    /// [`ResolveError`] if it may not be read, or exceeds a limit.
    fn resolve(
        &self,
        reference: &str,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<ResolvedEvidence, ResolveError>;
}

/// Bytes read once, with the digest of exactly those bytes.
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

/// why: evidence may be confidential, so only its size and digest are printed.
impl fmt::Debug for ResolvedEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedEvidence({} bytes, {})", self.bytes.len(), self.digest)
    }
}

const CHUNK: usize = 64 * 1_024;
const MOST_ROOM_AT_ONCE: usize = 8 * 1_024 * 1_024;

/// Remaining bytes and time of one verification.
#[derive(Debug)]
pub struct EvidenceBudget<'c> {
    file_bytes: u64,
    total_left: u64,
    deadline: Timestamp,
    clock: &'c dyn Clock,
}

impl<'c> EvidenceBudget<'c> {
    /// Starts now: at most `file_bytes` per file and `total_bytes` for all files, within `time`.
    ///
    /// # Errors
    /// [`ResolveError::Time`] if the clock is unavailable.
    pub fn start(
        clock: &'c dyn Clock,
        file_bytes: u64,
        total_bytes: u64,
        time: Millis,
    ) -> Result<Self, ResolveError> {
        let now = clock.now().map_err(|_| ResolveError::Time)?;
        Ok(Self { file_bytes, total_left: total_bytes, deadline: now.saturating_add(time), clock })
    }

    /// Checks that time is left.
    ///
    /// # Errors
    /// [`ResolveError::Time`] after the deadline, or if the clock is unavailable.
    pub fn check_time(&self) -> Result<(), ResolveError> {
        let now = self.clock.now().map_err(|_| ResolveError::Time)?;
        if now > self.deadline { Err(ResolveError::Time) } else { Ok(()) }
    }

    /// Reads one piece of evidence to its end, counting and hashing while reading.
    ///
    /// # Errors
    /// [`ResolveError`] as soon as a limit is passed: at most one byte beyond it is requested.
    pub fn read(&mut self, source: impl io::Read) -> Result<ResolvedEvidence, ResolveError> {
        self.read_about(source, CHUNK as u64)
    }

    /// Reads like [`read`](Self::read). `size` is a hint for the initial buffer and may be wrong.
    pub(crate) fn read_about(
        &mut self,
        mut source: impl io::Read,
        size: u64,
    ) -> Result<ResolvedEvidence, ResolveError> {
        let most = usize::try_from(self.file_bytes.min(self.total_left)).unwrap_or(usize::MAX);
        let expected = usize::try_from(size).unwrap_or(usize::MAX).min(most).min(MOST_ROOM_AT_ONCE);
        // why: one byte more than expected, since only a read past the last byte shows the end.
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
