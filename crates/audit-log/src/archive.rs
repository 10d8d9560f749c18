use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use countersign_canonical_json::to_canonical;
use countersign_core::Timestamp;
use countersign_keys::state_file::LockWait;

use crate::closing::parent_of_numbered;
use crate::folder_disk::sync_folder;
use crate::log_files::{FileSum, copy_file, remove, step, write_bytes};
use crate::log_state::LogProgress;
use crate::log_state::StateStore;
use crate::segment::{list_segments, read_head, segment_name};
use crate::{
    ArchivedRecord, AuditError, AuditSink as _, FolderDisk, KnownLog, Log, LogError, LogKey, LogOptions,
    LogStateError, LogStateFile, LogStates, Record, read_log, verify_log,
};

/// Format name in the manifest.
const FORMAT: &str = "countersign-archive-1";

/// Limit of the entries to archive. Only whole segments before it are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveBefore {
    /// Entries before this sequence number.
    Entry(u64),
    /// Entries before the first entry with this time or a later one.
    Time(Timestamp),
}

/// Segments that were moved into an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Archived {
    /// First sequence number in them.
    pub first: u64,
    /// Last sequence number in them.
    pub last: u64,
    /// The segments' files.
    pub files: Vec<FileSum>,
    /// The manifest's file.
    pub manifest: FileSum,
}

/// Reason why segments could not be archived. No segment was removed unless the archive has it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The log cannot be opened or written.
    #[error(transparent)]
    Log(#[from] AuditError),
    /// No whole segment lies before the limit, or only the one that is being written.
    #[error("no complete segment before that entry; the segment in use is never archived")]
    Nothing,
    /// The target is the folder of a log, or lies in one.
    #[error("the target is a log's folder, or inside the log's folder")]
    Folder,
    /// The target has a file of that name with other content, or segments of another log.
    #[error("the target has a different `{name}`")]
    Conflict {
        /// Name of the file.
        name: String,
    },
    /// A file cannot be copied or written.
    #[error("`{name}` cannot be archived")]
    File {
        /// Name of the file.
        name: String,
        /// Reason of the failure.
        source: io::Error,
    },
}

impl ArchiveError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Log(error) => error.code(),
            Self::Nothing => "ARCHIVE_NOTHING",
            Self::Folder => "ARCHIVE_FOLDER",
            Self::Conflict { .. } => "ARCHIVE_CONFLICT",
            Self::File { .. } => "ARCHIVE_FILE",
        }
    }
}

countersign_core::coded!(ArchiveError);

/// Manifest of an archive, as canonical JSON.
#[derive(serde::Serialize)]
struct Manifest<'a> {
    checkpoint: &'a str,
    files: &'a [FileSum],
    first: u64,
    format: &'a str,
    last: u64,
    origin: &'a str,
}

/// Moves the oldest segments of a log to another folder. It verifies the log, copies, syncs and reads back each
/// segment, writes a manifest, adds an [`ArchivedRecord`] and sets the state's first entry. Only then does it remove
/// the segments, the oldest first. The segment that is being written stays. After an interruption, the same call
/// finishes the work.
///
/// `options` name the state of the log's writers. The log must also continue from each of the `others` that know it;
/// these states are updated too.
///
/// The archive verifies on its own: pass its folder to [`verify_log`](crate::verify_log).
///
/// # Errors
/// [`ArchiveError`].
pub fn archive_log(
    folder: impl AsRef<Path>,
    options: LogOptions,
    others: &[LogStateFile],
    before: ArchiveBefore,
    to: impl AsRef<Path>,
    now: Timestamp,
) -> Result<Archived, ArchiveError> {
    let (folder, to) = (folder.as_ref(), to.as_ref());
    let source = FolderDisk::existing(folder).map_err(AuditError::Unavailable)?;
    if list_segments(&source).map_err(AuditError::Unavailable)?.is_empty() {
        return Err(unread(LogError::Missing));
    }
    require_apart(folder, to)?;
    let log = Log::open_existing(source.clone(), options)?;
    verify_log(folder, &log.key(), &[]).map_err(unread)?;
    let others = others_that_know(others, folder, &log.key())?;
    let segments = list_segments(&source).map_err(AuditError::Unavailable)?;
    let past = past(folder, before)?;
    let (whole, next) = whole_segments(&segments, past.limit).ok_or(ArchiveError::Nothing)?;
    let (first, last) = (*whole.first().ok_or(ArchiveError::Nothing)?, next.saturating_sub(1));
    let head = read_head(&source, next).map_err(unread)?;

    make_folder(to)?;
    require_one_log(to, log.key().origin().as_str())?;
    let mut files = Vec::new();
    for name in whole.iter().map(|segment| segment_name(*segment)) {
        let sum = FileSum::of(folder, &name).map_err(failed(&name))?;
        put(&sum, to, || copy_file(&sum, folder, to))?;
        files.push(sum);
        step().map_err(failed(&name))?;
    }
    let origin = log.key().origin().as_str().to_owned();
    let (checkpoint, files) = (head.checkpoint.as_str(), files);
    let manifest = Manifest { checkpoint, files: &files, first, format: FORMAT, last, origin: &origin };
    let mut text = to_canonical(&manifest).map_err(|_| AuditError::TooLong)?.bytes().to_vec();
    text.push(b'\n');
    let mut manifest = FileSum::of_bytes(&manifest_name(first, last), &text);
    // An interrupted call may have recorded the manifest, and removed the first of the segments.
    if let Some(earlier) = past.earlier(first, last, to) {
        manifest = earlier;
    } else {
        put(&manifest, to, || write_bytes(to, &manifest.name, &text))?;
        step().map_err(failed(&manifest.name))?;
        log.record(&Record::Archived(ArchivedRecord::new(now, first, last, manifest.sha256)))?;
    }
    let name = manifest.name.clone();
    // Under `System` nothing is synced before this.
    log.checkpoint()?;
    step().map_err(failed(&name))?;
    log.begin_at(next)?;
    for (other, known) in others {
        let gap = known.gap.filter(|gap| !past.gaps.contains(&gap.from));
        let stand = LogProgress { gap, ..log.stand() };
        let set = &mut |states: &mut LogStates| states.set(log.key().origin(), next, &stand);
        other.update(LockWait::Start, set).map_err(state_failed(other))?;
        step().map_err(failed(&name))?;
    }
    step().map_err(failed(&name))?;
    for file in &files {
        remove_segment(folder, &file.name).map_err(failed(&file.name))?;
        step().map_err(failed(&file.name))?;
    }
    sync_folder(folder).map_err(failed(&name))?;
    Ok(Archived { first, last, files, manifest })
}

/// Returns the other states that know the log, and checks that the log continues from them.
fn others_that_know<'a>(
    others: &'a [LogStateFile],
    folder: &Path,
    key: &LogKey,
) -> Result<Vec<(&'a LogStateFile, KnownLog)>, ArchiveError> {
    let mut knowing = Vec::new();
    for other in others {
        let states = StateStore::read(other).and_then(|states| states.log(key));
        let Some(known) = states.map_err(state_failed(other))? else { continue };
        verify_log(folder, key, std::slice::from_ref(&known.checkpoint))
            .map_err(|source| AuditError::NotContinued { state: other.name(), source: Box::new(source) })?;
        knowing.push((other, known));
    }
    Ok(knowing)
}

fn state_failed(state: &LogStateFile) -> impl FnOnce(LogStateError) -> AuditError + use<> {
    let state = state.name();
    |source| AuditError::State { state, source }
}

/// Findings in the log's entries: earlier archives and gaps, and the end of the entries to archive.
struct ArchiveFindings {
    /// Sequence number before which entries may be archived.
    limit: u64,
    archived: Vec<ArchivedRecord>,
    /// Begin times of all gaps.
    gaps: BTreeSet<Timestamp>,
}

impl ArchiveFindings {
    /// Returns the manifest of segments up to entry `last` that an earlier call wrote and recorded.
    fn earlier(&self, first: u64, last: u64, to: &Path) -> Option<FileSum> {
        self.archived.iter().filter(|record| record.last == last && record.first <= first).find_map(
            |record| {
                let manifest = FileSum::of(to, &manifest_name(record.first, last)).ok()?;
                (manifest.sha256 == record.manifest).then_some(manifest)
            },
        )
    }
}

/// Returns the manifest's file name for segments with these entries.
fn manifest_name(first: u64, last: u64) -> String {
    format!("archive-{first:012}-{last:012}.json")
}

/// Reads the entries. They were verified when the log was opened.
fn past(folder: &Path, before: ArchiveBefore) -> Result<ArchiveFindings, ArchiveError> {
    let (mut limit, mut archived, mut gaps) = (None, Vec::new(), BTreeSet::new());
    for entry in read_log(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if let Record::Archived(record) = entry.record() {
            archived.push(record.clone());
        } else if let Record::Gap(gap) = entry.record() {
            gaps.insert(gap.from);
        }
        match before {
            ArchiveBefore::Time(time) if entry.record().time() >= time => {
                limit.get_or_insert(entry.seq());
            }
            ArchiveBefore::Time(_) | ArchiveBefore::Entry(_) => {}
        }
    }
    let limit = match before {
        ArchiveBefore::Entry(seq) => seq,
        ArchiveBefore::Time(_) => limit.unwrap_or(u64::MAX),
    };
    Ok(ArchiveFindings { limit, archived, gaps })
}

/// Returns the oldest segments whose entries all lie before the limit, and the first segment that stays.
fn whole_segments(segments: &[u64], limit: u64) -> Option<(&[u64], u64)> {
    let ends = segments.iter().skip(1).take_while(|next| **next <= limit);
    let count = ends.count();
    Some((segments.get(..count).filter(|whole| !whole.is_empty())?, *segments.get(count)?))
}

/// Writes a file unless the target has it, and refuses one that differs.
fn put(sum: &FileSum, to: &Path, write: impl FnOnce() -> io::Result<()>) -> Result<(), ArchiveError> {
    match sum.is_in(to).map_err(failed(&sum.name))? {
        None => write().map_err(failed(&sum.name)),
        // Its name, or even its content, may not be synced yet.
        Some(true) => sync_file(to, &sum.name).map_err(failed(&sum.name)),
        Some(false) => Err(ArchiveError::Conflict { name: sum.name.clone() }),
    }
}

fn sync_file(folder: &Path, name: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(folder.join(name))?.sync_all()?;
    sync_folder(folder)
}

/// Refuses a target inside the folder of the log, or of all logs that belong together, and a target that is itself a
/// log's folder: readers would take the segments for that log's.
fn require_apart(folder: &Path, to: &Path) -> Result<(), ArchiveError> {
    let resolved = |path: &Path| -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        for parent in path.ancestors() {
            if let (Ok(found), Ok(rest)) = (parent.canonicalize(), path.strip_prefix(parent)) {
                return Ok(found.join(rest));
            }
        }
        Ok(path.clone())
    };
    // why: next to a numbered log, the target could pass for another log of the same folder.
    let logs = parent_of_numbered(folder).filter(|parent| parent.join("lock").symlink_metadata().is_ok());
    let (log, target) = (resolved(logs.as_deref().unwrap_or(folder)), resolved(to));
    let (log, target) =
        (log.map_err(AuditError::Unavailable)?, target.map_err(failed(&to.display().to_string()))?);
    if target.starts_with(&log) || target.join("lock").symlink_metadata().is_ok() {
        return Err(ArchiveError::Folder);
    }
    Ok(())
}

fn make_folder(to: &Path) -> Result<(), ArchiveError> {
    FolderDisk::create(to).map(drop).map_err(failed(&to.display().to_string()))
}

/// Refuses a folder with segments of another log: together they would verify as neither.
fn require_one_log(to: &Path, origin: &str) -> Result<(), ArchiveError> {
    let disk = FolderDisk::existing(to).map_err(failed(&to.display().to_string()))?;
    let segments = list_segments(&disk).map_err(failed(&to.display().to_string()))?;
    for segment in segments {
        let head = read_head(&disk, segment);
        if !head.is_ok_and(|head| head.checkpoint.lines().next() == Some(origin)) {
            return Err(ArchiveError::Conflict { name: segment_name(segment) });
        }
    }
    Ok(())
}

/// Removes a segment and its side file, which is rebuilt where it is needed.
fn remove_segment(folder: &Path, segment: &str) -> io::Result<()> {
    remove(&folder.join(segment).with_extension("side"))?;
    remove(&folder.join(segment))
}

fn failed(name: &str) -> impl FnOnce(io::Error) -> ArchiveError + use<> {
    let name = name.to_owned();
    |source| ArchiveError::File { name, source }
}

fn unread(error: LogError) -> ArchiveError {
    AuditError::from(error).into()
}
