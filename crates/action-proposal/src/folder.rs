use std::fmt;
use std::io;
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions};

use crate::reference::plain_names;
use crate::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};

/// Why an evidence folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// Nothing is there, it is not a folder, or it may not be opened.
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

/// Evidence in the files of one folder and of the folders in it.
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
/// The folder is opened once and then fixed, whatever later becomes of its path. From there each name is opened without
/// following a link, and what was opened is what is judged: a regular file, with one name, on the folder's own file system.
/// It is read once, and refused if it changed meanwhile. The folders must be such that they may be listed.
///
/// It does not protect against whoever may put files of their own into the folder: what those files are worth is a matter of
/// their digests. A second mount of the folder's own file system inside of it is not told apart from a folder. Opening a
/// device can have effects of its own: keep devices out of the folder. A file system that never answers is waited for.
/// Where its times are no finer than a clock tick, a second change within one tick shows only by length and links.
pub struct EvidenceFolder {
    root: Dir,
    pub(crate) device: u64,
}

impl EvidenceFolder {
    /// Opens the folder. `path` may lead through links; it is not looked at again.
    ///
    /// # Errors
    /// [`FolderError::Open`] when there is no folder, or it may not be opened.
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
        // Files that a kernel makes up say that they have no bytes; they are refused with those that changed.
        let after = Stamp::from(&file.metadata().map_err(ResolveError::Io)?);
        if read == before.size && after == before { Ok(evidence) } else { Err(ResolveError::Changed) }
    }
}

impl EvidenceFolder {
    fn enter(&self, outer: &Dir, name: &str) -> Result<Dir, ResolveError> {
        let inner = outer.open_dir_nofollow(name).map_err(refusal)?;
        let device = inner.dir_metadata().map_err(ResolveError::Io)?.dev();
        if device == self.device { Ok(inner) } else { Err(ResolveError::NotPlain) }
    }

    /// Opens without waiting for a pipe's other end, and judges what it opened.
    fn open_file(&self, folder: &Dir, name: &str) -> Result<(File, Stamp), ResolveError> {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No).nonblock(true);
        let file = folder.open_with(name, &options).map_err(refusal)?;
        let metadata = file.metadata().map_err(ResolveError::Io)?;
        let stamp = Stamp::from(&metadata);
        if !metadata.is_file() || stamp.links != 1 || stamp.device != self.device {
            return Err(ResolveError::NotPlain);
        }
        // One link is not enough: a second name of a file outside can be opened and then taken away before the links are
        // counted. So the one link must be this name, which is asked once nobody is in the midst of taking it away: reading
        // the folder's list waits for whoever changes the folder. To put the name back for that moment changes the stamp.
        if let Some(Err(error)) = folder.entries().map_err(refusal)?.next() {
            return Err(ResolveError::Io(error));
        }
        let named = folder.symlink_metadata(name).map_err(refusal)?;
        if Stamp::from(&named) == stamp { Ok((file, stamp)) } else { Err(ResolveError::Changed) }
    }
}

/// The folder may be secret: nothing of it is shown.
impl fmt::Debug for EvidenceFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EvidenceFolder")
    }
}

/// What is another once a file was written, cut, linked, unlinked, renamed over or had its rights changed.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    links: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for Stamp {
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

/// `ELOOP` for a link that is not followed; `ENXIO`, `ENOTSUP` and `EOPNOTSUPP` for a socket. `io::ErrorKind` has no stable
/// names for them. Where a system has other numbers, the refusal is only named less well.
const NOT_PLAIN: &[i32] =
    if cfg!(any(target_os = "linux", target_os = "android")) { &[40, 6] } else { &[62, 6, 45, 102] };

/// Names what an open that failed has met. The system's error has a number and no path.
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
