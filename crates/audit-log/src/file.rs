use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::read::WireLine;
use crate::tail::{MAX_LINE_BYTES, find_tail};
use crate::{AuditError, AuditSink, Record};

/// Writes records to a file, one JSON object a line, and syncs each before it answers.
///
/// One writer has the file, by an advisory lock that ends with the sink. After a failed write or sync, every later
/// record is refused ([`AuditError::Poisoned`]) until the file is opened anew: a system that lost data once may
/// say "synced" the next time. The same holds when the file was truncated or appended to by others, and when the path
/// no longer leads to it ([`AuditError::Replaced`]; where the system has file numbers, as Unix has): a second writer
/// would have opened another file there. To begin a new file, end the sink, move the file and open a new sink.
///
/// A last line without its newline was never acknowledged, so [`FileSink::open`] cuts it off. A last line that is
/// whole is kept even where its sync failed: the record then names a decision that its caller turned into a refusal.
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, FileSink, GatewayRecord, Record, verify};
/// use countersign_core::Timestamp;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("record.jsonl");
/// let sink = FileSink::open(&path)?;
/// let record = GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, "MALFORMED_CALL");
/// assert_eq!(sink.record(&Record::Gateway(record))?, 1);
/// assert_eq!(verify(&path)?.records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileSink {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Absolute: it must lead to the same file after the process has changed its folder.
    path: PathBuf,
    /// How long the file is, as far as this writer knows.
    end: u64,
    /// Sequence number of the last record.
    last: u64,
    poisoned: bool,
    /// Holds one line; kept to spare an allocation for each.
    line: Vec<u8>,
}

impl FileSink {
    /// Opens a file of records to be continued, or makes an empty one that nobody else can read (mode 0600).
    ///
    /// Reads only the end of the file, however long it is: [`verify`](crate::verify) reads all of it.
    ///
    /// # Errors
    /// [`AuditError::Unavailable`] when it cannot be opened for writing, [`AuditError::NotAFile`] for anything but a
    /// regular file, [`AuditError::Locked`] while another sink has it, [`AuditError::Replaced`] when it is moved away
    /// meanwhile, [`AuditError::Corrupt`] when the last line is not a record; the file is then left as it was.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AuditError> {
        let path = std::path::absolute(path).map_err(AuditError::Unavailable)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(AuditError::Unavailable)?;
        if !file.metadata().map_err(AuditError::Unavailable)?.is_file() {
            return Err(AuditError::NotAFile);
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(AuditError::Locked),
            Err(TryLockError::Error(error)) => return Err(AuditError::Unavailable(error)),
        }
        // Another writer may have moved it between opening and locking.
        check_place(&file.metadata().map_err(AuditError::Unavailable)?, &path)?;
        let tail = find_tail(&mut file)?;
        settle(&mut file, &path, tail.end).map_err(AuditError::Write)?;
        Ok(Self::continuing(file, path, tail.end, tail.last))
    }

    /// Goes on with the open file at `path`, of `end` bytes, whose last record is number `last`.
    pub(crate) const fn continuing(file: File, path: PathBuf, end: u64, last: u64) -> Self {
        let state = State { file, path, end, last, poisoned: false, line: Vec::new() };
        Self { state: Mutex::new(state) }
    }
}

impl AuditSink for FileSink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let mut state = self.state.lock();
        if state.poisoned {
            return Err(AuditError::Poisoned);
        }
        state.compose(record)?;
        // INVARIANT: poisoned until everything below has succeeded, so that no early return leaves it usable.
        state.poisoned = true;
        let sequence = state.append()?;
        state.poisoned = false;
        Ok(sequence)
    }
}

impl State {
    /// Makes the line of the next record.
    fn compose(&mut self, record: &Record) -> Result<(), AuditError> {
        let seq = self.last.checked_add(1).ok_or(AuditError::TooLong)?;
        self.line.clear();
        let wire = WireLine { seq, record };
        serde_json::to_writer(&mut self.line, &wire).map_err(|e| AuditError::Write(e.into()))?;
        self.line.push(b'\n');
        if self.line.len() > MAX_LINE_BYTES { Err(AuditError::TooLong) } else { Ok(()) }
    }

    fn append(&mut self) -> Result<u64, AuditError> {
        let metadata = self.file.metadata().map_err(AuditError::Write)?;
        check_place(&metadata, &self.path)?;
        if metadata.len() != self.end {
            return Err(AuditError::Corrupt { at: self.end.min(metadata.len()) });
        }
        self.file.write_all(&self.line).map_err(AuditError::Write)?;
        self.file.sync_data().map_err(AuditError::Write)?;
        self.end = self.end.saturating_add(self.line.len() as u64);
        self.last = self.last.saturating_add(1);
        Ok(self.last)
    }
}

/// Makes sure that the path leads to the open file. Links are followed, as they were when it was opened.
fn check_place(open: &Metadata, path: &Path) -> Result<(), AuditError> {
    match path.metadata() {
        Ok(there) if is_same(open, &there) => Ok(()),
        Ok(_) => Err(AuditError::Replaced),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(AuditError::Replaced),
        Err(error) => Err(AuditError::Write(error)),
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
const fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Cuts off a torn line, and makes what is left, and the file's name, outlive a crash.
fn settle(file: &mut File, path: &Path, end: u64) -> io::Result<()> {
    if file.metadata()?.len() != end {
        file.set_len(end)?;
    }
    file.sync_all()?;
    file.seek(SeekFrom::Start(end))?;
    sync_folder(path)
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
