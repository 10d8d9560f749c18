use std::fmt;
use std::path::{Path, PathBuf};

use countersign_core::Timestamp;
use countersign_keys::trusted::FileError;
use parking_lot::Mutex;

use crate::load::RegistryError;
use crate::mark::MarkError;

/// Wait between retries, in milliseconds: doubled each time, from the first to the last.
const FIRST_WAIT: u32 = 100;
const LAST_WAIT: u32 = 5_000;

/// Failure to reload the registry's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The file cannot be read, or is not trusted.
    #[error(transparent)]
    File(#[from] FileError),
    /// The registry does not verify.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The registry was not loaded, and an earlier verified one is not in force because its mark is not stored.
    #[error(
        "version {version} is verified and its mark not stored: its revocations count, other calls are refused"
    )]
    Unstored {
        /// Version of the verified registry.
        version: u64,
        /// Failure of the last attempt.
        #[source]
        source: Box<Self>,
    },
}

impl RefreshError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::File(error) => error.code(),
            Self::Registry(error) => error.code(),
            Self::Unstored { source, .. } => source.code(),
        }
    }

    /// Returns `true` if the same bytes fail at every attempt: the bytes are invalid, or their version
    /// is not above the accepted one.
    const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Registry(
                RegistryError::Envelope(_)
                    | RegistryError::RevokedSigners
                    | RegistryError::Json(_)
                    | RegistryError::NotCanonical
                    | RegistryError::Content(_)
                    | RegistryError::Mark(MarkError::Rollback { .. } | MarkError::Fork { .. })
            )
        )
    }
}

countersign_core::coded!(RefreshError);

/// Callback for failures.
pub(crate) type ReportFailure = Box<dyn Fn(&RefreshError) + Send + Sync>;

/// File that a registry is loaded from, with the state of the last attempt.
pub(crate) struct RegistryFile {
    path: PathBuf,
    report: ReportFailure,
    tried: Mutex<Tried>,
}

#[derive(Debug, Default)]
struct Tried {
    /// Last attempt; `None` if the next call of [`look`](RegistryFile::look) must read the file in any case.
    last: Option<Try>,
    /// Last reported failure, with the state of the file.
    reported: Option<(Option<FileStamp>, &'static str)>,
}

#[derive(Debug)]
struct Try {
    stamp: Option<FileStamp>,
    at: Timestamp,
    /// Wait before the next attempt, in milliseconds; `None` if it would fail the same way.
    wait: Option<u32>,
}

impl Tried {
    /// Returns whether the file was tried in this state, and no retry is due.
    fn is_tried(&self, stamp: Option<&FileStamp>, now: Timestamp) -> bool {
        self.last.as_ref().is_some_and(|last| last.stamp.as_ref() == stamp && !last.is_due(now))
    }
}

impl Try {
    fn is_due(&self, now: Timestamp) -> bool {
        // why: a clock that was set back must not postpone a retry.
        self.wait.is_some_and(|wait| now < self.at || now.since(self.at).as_millis() >= wait.into())
    }
}

impl fmt::Debug for RegistryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Way to load the registry at one attempt.
pub(crate) enum LoadAttempt<'a> {
    /// Read the file and load its content.
    Read(&'a Path),
    /// Store the mark of the registry verified before.
    Confirm,
}

impl RegistryFile {
    pub(crate) fn new(path: PathBuf, report: ReportFailure) -> Self {
        Self { path, report, tried: Mutex::default() }
    }

    /// Makes an attempt if the file changed or a retry is due. `pending` returns the version of a verified registry
    /// whose mark is not stored.
    pub(crate) fn look(
        &self,
        now: Timestamp,
        pending: impl Fn() -> Option<u64>,
        attempt: impl FnOnce(LoadAttempt<'_>) -> Result<u64, RefreshError>,
    ) {
        // why: looked at without the lock, which all sessions under this registry share.
        let seen = FileStamp::at(&self.path);
        // why: held while loading, so that no concurrent call is decided by the previous registry.
        let mut tried = self.tried.lock();
        if tried.is_tried(seen.as_ref(), now) {
            return;
        }
        // why: taken before the file is read. If the file changes in between, the next look sees another stamp. Another
        // thread may have read it meanwhile.
        let stamp = FileStamp::at(&self.path);
        if tried.is_tried(stamp.as_ref(), now) {
            return;
        }
        let waited = tried.last.as_ref().filter(|last| last.stamp == stamp).and_then(|last| last.wait);
        let confirms = waited.is_some() && pending().is_some();
        let done = attempt(if confirms { LoadAttempt::Confirm } else { LoadAttempt::Read(&self.path) });
        let done = done.map_err(|error| match pending() {
            Some(version) => RefreshError::Unstored { version, source: Box::new(error) },
            None => error,
        });
        let wait = match &done {
            Ok(_) => None,
            Err(error) if error.is_lasting() => None,
            Err(_) => Some(waited.map_or(FIRST_WAIT, |wait| wait.saturating_mul(2).min(LAST_WAIT))),
        };
        // why: the file may hold another registry than the one just confirmed, so it must be read again.
        tried.last = (!confirms || done.is_err()).then_some(Try { stamp: stamp.clone(), at: now, wait });
        let failed = done.as_ref().err().map(|error| (stamp, error.code()));
        if tried.reported != failed {
            tried.reported = failed;
            drop(tried);
            if let Err(error) = done {
                (self.report)(&error);
            }
        }
    }
}

/// Distinguishes states of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    len: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
}

impl FileStamp {
    fn at(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        let about = std::fs::metadata(path).ok()?;
        Some(Self {
            len: about.len(),
            modified: about.modified().ok(),
            #[cfg(unix)]
            identity: (about.dev(), about.ino(), about.ctime(), about.ctime_nsec()),
        })
    }
}
