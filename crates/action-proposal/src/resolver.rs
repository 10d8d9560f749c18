use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::Split;

use countersign_core::{Clock, Digest, Millis, Timestamp, is_hidden};
use sha2::{Digest as _, Sha256};

/// Scheme of every reference.
const SCHEME: &str = "file://";
/// Longest reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 1_024;
/// Most names in a reference.
const MAX_COMPONENTS: usize = 32;
/// Longest name in a reference, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Bytes per read.
const CHUNK: usize = 64 * 1_024;
/// Largest initial buffer, in bytes.
const MOST_ROOM_AT_ONCE: usize = 8 * 1_024 * 1_024;

/// Failure to read a piece of evidence. In every case the evidence does not verify.
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

countersign_core::coded!(ResolveError);

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

/// Evidence in memory, for hosts that already have the bytes, and for tests. The limits of files apply.
///
/// ```
/// use countersign_action_proposal::{EvidenceBudget, EvidenceResolver, MemoryEvidence};
/// use countersign_core::{Digest, Millis, SystemClock};
///
/// let evidence = MemoryEvidence::new().with("file://invoice.txt", *b"42 EUR");
/// let clock = SystemClock::new();
/// let mut budget = EvidenceBudget::start(&clock, 1_024, 4_096, Millis::from_secs(5))?;
/// let resolved = evidence.resolve("file://invoice.txt", &mut budget)?;
/// assert_eq!(resolved.digest(), Digest::of(b"42 EUR"));
/// # Ok::<(), countersign_action_proposal::ResolveError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryEvidence {
    held: BTreeMap<Box<str>, Box<[u8]>>,
}

impl MemoryEvidence {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `bytes` under `reference` and replaces earlier bytes. Only plain relative `file://` references are ever
    /// looked up.
    #[must_use]
    pub fn with(mut self, reference: impl Into<Box<str>>, bytes: impl Into<Box<[u8]>>) -> Self {
        self.held.insert(reference.into(), bytes.into());
        self
    }
}

impl EvidenceResolver for MemoryEvidence {
    fn resolve(
        &self,
        reference: &str,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<ResolvedEvidence, ResolveError> {
        plain_names(reference)?;
        let bytes = self.held.get(reference).ok_or(ResolveError::NotFound)?;
        budget.read_about(&**bytes, bytes.len() as u64)
    }
}

/// why: evidence may be confidential, so only the number of entries is printed.
impl fmt::Debug for MemoryEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryEvidence({} held)", self.held.len())
    }
}

/// Splits a reference into the names from the evidence folder to the file. All resolvers share this grammar.
///
/// A reference is `file://` and 1 to 32 names separated by `/`, 1,024 bytes in all. A name has 1 to 255 bytes, is not
/// `.` or `..`, and is taken literally: it is not decoded, folded or normalised, so a file has one reference.
/// Characters with a meaning to URL parsers are refused everywhere.
pub(crate) fn plain_names(reference: &str) -> Result<Split<'_, char>, ResolveError> {
    let path = reference.strip_prefix(SCHEME).ok_or(ResolveError::Reference)?;
    if reference.len() > MAX_REFERENCE_BYTES || path.chars().any(is_refused) {
        return Err(ResolveError::Reference);
    }
    let names = path.split('/');
    if names.clone().count() > MAX_COMPONENTS || !names.clone().all(is_name) {
        return Err(ResolveError::Reference);
    }
    Ok(names)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name != "." && name != ".."
}

/// Escapes, other separators, query, fragment, authority and its brackets, and invisible characters.
const fn is_refused(c: char) -> bool {
    is_hidden(c) || is_refused_folded(c) || matches!(c, '%' | '\\' | '?' | '#' | ':' | '@' | '[' | ']')
}

/// Characters that become one of these, or `/`, under NFKC, which some URL parsers apply (complete for Unicode 17).
const fn is_refused_folded(c: char) -> bool {
    matches!(
        c,
        '\u{2047}'..='\u{2049}'
            | '\u{2100}'..='\u{2101}'
            | '\u{2105}'..='\u{2106}'
            | '\u{2A74}'
            | '\u{FE13}'
            | '\u{FE16}'
            | '\u{FE47}'..='\u{FE48}'
            | '\u{FE55}'..='\u{FE56}'
            | '\u{FE5F}'
            | '\u{FE68}'
            | '\u{FE6A}'..='\u{FE6B}'
            | '\u{FF03}'
            | '\u{FF05}'
            | '\u{FF0F}'
            | '\u{FF1A}'
            | '\u{FF1F}'..='\u{FF20}'
            | '\u{FF3B}'..='\u{FF3D}'
    )
}
