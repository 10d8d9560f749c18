use std::fmt;
use std::io;
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions};

use crate::resolver::plain_names;
use crate::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};

/// Failure to open an evidence folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder does not exist, is not a folder, or may not be opened.
    #[error("the evidence folder cannot be opened")]
    Open(#[source] io::Error),
}

impl FolderError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Open(_) => "EVIDENCE_FOLDER",
        }
    }
}

countersign_core::coded!(FolderError);

/// Evidence in the files of one folder and its subfolders.
///
/// ```
/// use countersign_action_proposal::{EvidenceBudget, EvidenceFolder, EvidenceResolver};
/// use countersign_core::{Digest, Millis, SystemClock};
///
/// # let place = tempfile::tempdir()?;
/// # let path = place.path();
/// std::fs::write(path.join("invoice.txt"), "42 EUR")?;
/// let folder = EvidenceFolder::open(path)?;
/// let clock = SystemClock::new();
/// let mut budget = EvidenceBudget::start(&clock, 1_024, 4_096, Millis::from_secs(5))?;
/// assert_eq!(folder.resolve("file://invoice.txt", &mut budget)?.digest(), Digest::of(b"42 EUR"));
/// assert!(folder.resolve("file://../invoice.txt", &mut budget).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The folder is opened once and then fixed, whatever happens to its path. From there each name is opened without
/// following links, and the opened file is checked: a regular file with one link, on the folder's own file system. It
/// is read once, and refused if it changed meanwhile. The process must be allowed to list the folders.
///
/// Does not protect against a party that may add files to the folder: trust in a file comes from its digest. A second
/// mount of the folder's own file system inside of it looks like a folder. Opening a device can have effects of its
/// own: keep devices out of the folder. Reading waits for a file system that never answers. If timestamps are no
/// finer than a clock tick, a second change within one tick shows only in length and links.
pub struct EvidenceFolder {
    root: Dir,
    pub(crate) device: u64,
}

impl EvidenceFolder {
    /// Opens the folder. `path` may contain links; it is resolved once.
    ///
    /// # Errors
    /// [`FolderError::Open`] if the folder does not exist or may not be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let root = Dir::open_ambient_dir(path, cap_std::ambient_authority()).map_err(FolderError::Open)?;
        let device = root.dir_metadata().map_err(FolderError::Open)?.dev();
        Ok(Self { root, device })
    }
}

impl EvidenceResolver for EvidenceFolder {
    fn resolve(
        &self,
        reference: &str,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<ResolvedEvidence, ResolveError> {
        let mut names = plain_names(reference)?;
        let last = names.next_back().ok_or(ResolveError::Reference)?;
        let mut inner = None;
        for name in names {
            budget.check_time()?;
            let outer = inner.as_ref().unwrap_or(&self.root);
            inner = Some(self.enter(outer, name)?);
        }
        let (file, before) = self.open_file(inner.as_ref().unwrap_or(&self.root), last)?;
        let evidence = budget.read_about(&file, before.size)?;
        let read = evidence.bytes().len() as u64;
        // Virtual files of a kernel report size 0; they are refused as changed.
        let after = EvidenceStamp::from(&file.metadata().map_err(ResolveError::Io)?);
        if read == before.size && after == before { Ok(evidence) } else { Err(ResolveError::Changed) }
    }
}

impl EvidenceFolder {
    fn enter(&self, outer: &Dir, name: &str) -> Result<Dir, ResolveError> {
        let inner = outer.open_dir_nofollow(name).map_err(refusal)?;
        let device = inner.dir_metadata().map_err(ResolveError::Io)?.dev();
        if device == self.device { Ok(inner) } else { Err(ResolveError::NotPlain) }
    }

    /// Opens without waiting for the other end of a pipe, and checks the opened file.
    fn open_file(&self, folder: &Dir, name: &str) -> Result<(File, EvidenceStamp), ResolveError> {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No).nonblock(true);
        let file = folder.open_with(name, &options).map_err(refusal)?;
        let metadata = file.metadata().map_err(ResolveError::Io)?;
        let stamp = EvidenceStamp::from(&metadata);
        if !metadata.is_file() || stamp.links != 1 || stamp.device != self.device {
            return Err(ResolveError::NotPlain);
        }
        // why: one link is not enough. A second name of a file outside could be opened and then removed before the
        // links are counted. So the one link must be this name. The name is checked after listing the folder, which
        // waits for a change in progress. Restoring the name for that moment changes the stamp.
        if let Some(Err(error)) = folder.entries().map_err(refusal)?.next() {
            return Err(ResolveError::Io(error));
        }
        let named = folder.symlink_metadata(name).map_err(refusal)?;
        if EvidenceStamp::from(&named) == stamp { Ok((file, stamp)) } else { Err(ResolveError::Changed) }
    }
}

/// why: the folder may be secret, so nothing is printed.
impl fmt::Debug for EvidenceFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EvidenceFolder")
    }
}

/// Metadata that changes when a file is written, truncated, linked, unlinked, renamed over, or has its permissions
/// changed.
#[derive(PartialEq, Eq)]
struct EvidenceStamp {
    device: u64,
    inode: u64,
    links: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for EvidenceStamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            links: metadata.nlink(),
            size: metadata.size(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// `ELOOP` for a link that is not followed; `ENXIO`, `ENOTSUP` and `EOPNOTSUPP` for a socket. `io::ErrorKind` has no
/// stable names for them. On a system with other numbers the refusal has a less specific code.
const NOT_PLAIN: &[i32] =
    if cfg!(any(target_os = "linux", target_os = "android")) { &[40, 6] } else { &[62, 6, 45, 102] };

/// Names the object that could not be opened. A system error has a number and no path.
fn refusal(error: io::Error) -> ResolveError {
    let kind = error.kind();
    if kind == io::ErrorKind::NotFound {
        return ResolveError::NotFound;
    }
    let not_plain = error.raw_os_error().is_some_and(|number| NOT_PLAIN.contains(&number));
    if not_plain || kind == io::ErrorKind::NotADirectory {
        return ResolveError::NotPlain;
    }
    ResolveError::Io(error)
}
