use std::path::Path;
use std::sync::Arc;

use countersign_merkle::{ConsistencyProof, Frontier, InclusionProof, LeafHash, TreeHead};

use crate::line::parse_line;
use crate::segment::{
    Head, MAX_TAIL, call_tag, first_damage, is_checkpoint, list_segments, parse_checkpoint, read_range,
    segment_name,
};
use crate::side_files::{RebuiltSide, SideFiles};
use crate::{
    Checkpoint, Disk, Escaped, FolderDisk, LogEntries, LogEntry, LogError, LogKey, Place, Record, verify_disk,
};

/// Bytes read at once from the end of a log. A line is shorter.
const BLOCK: u64 = 128 << 10;

/// Proves records of a log under its last checkpoint, in time that grows with the logarithm of its size. It uses the
/// side files of the segments, which name the places of records and hold the nodes of the tree.
///
/// A side file is never trusted. Every result was verified under the checkpoint, and the checkpoint's signature was
/// verified. If that fails, or nothing is found, the whole log is verified and the side files are rebuilt
/// ([`take_rebuilt`](Self::take_rebuilt)). A side file that is missing or short is completed from its segment.
///
/// The oldest segments may be missing: the head of the first segment in the folder stands for them.
///
/// Not covered: it reads no other records, so damage in them is not noticed; [`verify_disk`] finds it. If a side file
/// leaves out one of several decisions on a call id, that is not noticed while it still names another one.
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, FolderDisk, GatewayRecord, Log, LogOptions, LogProver, Record};
/// use countersign_core::Timestamp;
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("log");
/// let log = Log::open(&folder, LogOptions::new(KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32])))?;
/// let record = GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, "MALFORMED_CALL");
/// log.record(&Record::Gateway(record))?;
/// let mut prover = LogProver::open(FolderDisk::existing(&folder)?, &log.key(), &[])?;
/// assert_eq!(prover.entry(1)?.seq(), 1);
/// assert_eq!(prover.prove_inclusion(1, 1)?.size(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogProver {
    disk: Arc<dyn Disk>,
    key: LogKey,
    /// Checkpoints that the log must continue from: those kept elsewhere, and the one that proofs are under.
    known: Vec<Checkpoint>,
    checkpoint: Checkpoint,
    note: String,
    sides: SideFiles,
    /// The whole log was verified, and the side files were rebuilt from it.
    is_verified: bool,
    rebuilt: Vec<RebuiltSide>,
}

impl LogProver {
    /// Reads the last checkpoint of a log, which must continue from the checkpoints kept elsewhere.
    ///
    /// # Errors
    /// As [`verify_disk`].
    pub fn open(disk: impl Disk + 'static, key: &LogKey, known: &[Checkpoint]) -> Result<Self, LogError> {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        if let Some(prover) = Self::at_end(&disk, key, known) {
            return Ok(prover);
        }
        let summary = verify_disk(&*disk, key, known)?;
        let segments = list_segments(&*disk)?;
        let mut prover = Self::new(disk, segments, key, known, (summary.checkpoint, summary.note))?;
        prover.rebuild()?;
        Ok(prover)
    }

    fn new(
        disk: Arc<dyn Disk>,
        segments: Vec<u64>,
        key: &LogKey,
        known: &[Checkpoint],
        (checkpoint, note): (Checkpoint, String),
    ) -> Result<Self, LogError> {
        let sides = SideFiles::new(&*disk, segments, checkpoint.size())?;
        let known = [known, std::slice::from_ref(&checkpoint)].concat();
        let (key, rebuilt) = (key.clone(), Vec::new());
        Ok(Self { disk, key, known, checkpoint, note, sides, is_verified: false, rebuilt })
    }

    /// Takes the checkpoint at the end of the log, if the side files lead to it and from there to the known ones.
    fn at_end(disk: &Arc<dyn Disk>, key: &LogKey, known: &[Checkpoint]) -> Option<Self> {
        let segments = list_segments(&**disk).ok()?;
        let last = *segments.last()?;
        let LogEnd { checkpoint, note, line } = LogEnd::find(&**disk, key, last)?;
        let size = checkpoint.size();
        let mut prover = Self::new(Arc::clone(disk), segments, key, known, (checkpoint, note)).ok()?;
        let leads_there = match line {
            // Directly after the records that it counts, with no others in between.
            Some(line) => prover.sides.line_and_end(&**disk, size).is_ok_and(|(_, end)| end == line),
            None => size == last.saturating_sub(1),
        };
        (leads_there && known.iter().all(|known| prover.goes_on_from(known))).then_some(prover)
    }

    /// Last checkpoint of the log when it was opened. All proofs are under it.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Signed note of that checkpoint.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Sequence number of the first record in the folder: 1, unless older segments were archived.
    #[must_use]
    pub const fn first_here(&self) -> u64 {
        self.sides.archived().saturating_add(1)
    }

    /// Returns a record under the last checkpoint.
    ///
    /// # Errors
    /// [`LogError::NoSuchSize`] if no record has that number, and [`LogError::Archived`] if it is in an archived
    /// segment; otherwise as [`verify_disk`].
    pub fn entry(&mut self, seq: u64) -> Result<LogEntry, LogError> {
        let size = self.checkpoint.size();
        self.require(seq, size)?;
        let line = self.proved(|this| {
            let line = this.sides.line(&*this.disk, seq).ok()?;
            this.inclusion(seq, size, &LeafHash::of(&line)).map(|_| line)
        })?;
        let place = Place { segment: self.first_here(), line: 0, byte: 0, entry: seq };
        let (found, record) = parse_line(&line).ok_or(LogError::Malformed(place))?;
        if found == seq { Ok(LogEntry::new(seq, line, record)) } else { Err(LogError::Malformed(place)) }
    }

    /// Proves that a record was in the log when the log had `size` records.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn prove_inclusion(&mut self, seq: u64, size: u64) -> Result<InclusionProof, LogError> {
        self.require(seq, size)?;
        self.proved(|this| {
            let leaf = LeafHash::of(&this.sides.line(&*this.disk, seq).ok()?);
            this.inclusion(seq, size, &leaf)
        })
    }

    /// Proves that the log at `new_size` records extends the log at `old_size`.
    ///
    /// # Errors
    /// [`LogError::NoSuchSize`] if the log never had these sizes, or `old_size` is 0; [`LogError::Archived`] if
    /// `old_size` lies before the first segment in the folder; otherwise as [`verify_disk`].
    pub fn prove_consistency(&mut self, old_size: u64, new_size: u64) -> Result<ConsistencyProof, LogError> {
        if old_size == 0 || old_size > new_size || new_size > self.checkpoint.size() {
            return Err(LogError::NoSuchSize);
        }
        self.require_here(old_size, self.sides.archived())?;
        self.proved(|this| {
            let (old, new) = (this.head(old_size)?, this.head(new_size)?);
            let proof = this.sides.nodes(&*this.disk).prove_consistency(old_size, new_size).ok()?;
            proof.verify(&old, &new).is_ok().then_some(proof)
        })
    }

    /// Returns size and root of the log when it had `size` records.
    ///
    /// # Errors
    /// As [`prove_consistency`](Self::prove_consistency).
    pub fn head_at(&mut self, size: u64) -> Result<TreeHead, LogError> {
        if size > self.checkpoint.size() {
            return Err(LogError::NoSuchSize);
        }
        self.require_here(size, self.sides.archived())?;
        self.proved(|this| this.head(size))
    }

    /// Reads the records from number `seq` to the last one under the checkpoint. All of them are verified before the
    /// first one is returned, and again while they are read: [`VerifiedEntries`] ends with an error if the log changed
    /// in between.
    ///
    /// # Errors
    /// As [`head_at`](Self::head_at) of the size before them, and as [`verify_disk`].
    pub fn entries_from(&mut self, seq: u64) -> Result<VerifiedEntries, LogError> {
        let (size, before) = (self.checkpoint.size(), seq.checked_sub(1).ok_or(LogError::NoSuchSize)?);
        if before > size {
            return Err(LogError::NoSuchSize);
        }
        self.require_here(before, self.sides.archived())?;
        self.proved(|this| {
            let head = *this.checkpoint.head();
            let first = this.frontier(before)?;
            let mut tree = first.clone();
            for entry in this.entries(seq)? {
                tree.append(entry.ok()?.leaf()).ok()?;
            }
            let place = Place { segment: seq, line: 1, byte: 0, entry: seq };
            let entries = this.entries(seq)?;
            (tree.head() == head).then_some(VerifiedEntries { entries, tree: first, head, place })
        })
    }

    /// Returns the sequence numbers of the decisions on a call id among the first `size` records, in order. Before it
    /// returns an empty list, it verifies and searches the whole log.
    ///
    /// # Errors
    /// As [`verify_disk`].
    pub fn decisions_on(&mut self, call_id: &str, size: u64) -> Result<Vec<u64>, LogError> {
        // Ids are recorded with invisible characters escaped.
        let id = Escaped::new(call_id);
        let tag = call_tag(id.as_str());
        loop {
            let (was_verified, mut found) = (self.is_verified, Vec::new());
            for seq in self.proved(|this| this.sides.tagged(&*this.disk, tag).ok())? {
                if seq > size {
                    break;
                }
                let entry = self.entry(seq)?;
                if matches!(entry.record(), Record::Decision(call) if call.call_id == id) {
                    found.push(seq);
                }
            }
            // If the side files were rebuilt in the meantime, ask the new ones.
            let is_settled = was_verified == self.is_verified;
            if is_settled && (was_verified || !found.is_empty()) {
                return Ok(found);
            }
            if is_settled {
                self.verify()?;
            }
        }
    }

    /// Takes the list of side files that were rebuilt since the last call.
    pub fn take_rebuilt(&mut self) -> Vec<RebuiltSide> {
        self.keep_rebuilt();
        std::mem::take(&mut self.rebuilt)
    }

    fn require(&self, seq: u64, size: u64) -> Result<(), LogError> {
        if seq == 0 || seq > size || size > self.checkpoint.size() {
            return Err(LogError::NoSuchSize);
        }
        self.require_here(seq, self.sides.archived().saturating_add(1))
    }

    const fn require_here(&self, asked: u64, least: u64) -> Result<(), LogError> {
        if asked < least {
            return Err(LogError::Archived { first: self.sides.archived(), asked });
        }
        Ok(())
    }

    /// Tries by the side files; if that fails, verifies the log, rebuilds them and tries once more.
    fn proved<T>(&mut self, prove: impl Fn(&mut Self) -> Option<T>) -> Result<T, LogError> {
        if let Some(proved) = prove(self) {
            return Ok(proved);
        }
        if !self.is_verified {
            self.verify()?;
        }
        // The log changed after it was verified.
        let segment = self.first_here();
        prove(self).ok_or(LogError::Root(Place { segment, line: 1, byte: 0, entry: segment }))
    }

    /// Verifies the whole log and rebuilds the side files.
    fn verify(&mut self) -> Result<(), LogError> {
        verify_disk(&*self.disk, &self.key, &self.known)?;
        self.rebuild()
    }

    /// Rebuilds the side files of a verified log.
    fn rebuild(&mut self) -> Result<(), LogError> {
        self.keep_rebuilt();
        self.sides = SideFiles::new(&*self.disk, list_segments(&*self.disk)?, self.checkpoint.size())?;
        self.sides.rebuild(&*self.disk)?;
        self.is_verified = true;
        Ok(())
    }

    /// Keeps rebuilt side files until the caller takes them. A file that was completed and then found wrong is listed
    /// once.
    fn keep_rebuilt(&mut self) {
        for side in self.sides.take_rebuilt() {
            self.rebuilt.retain(|earlier| earlier.file != side.file);
            self.rebuilt.push(side);
        }
    }

    fn goes_on_from(&mut self, known: &Checkpoint) -> bool {
        known.size() == 0 || self.head(known.size()).is_some_and(|head| head == *known.head())
    }

    fn inclusion(&mut self, seq: u64, size: u64, leaf: &LeafHash) -> Option<InclusionProof> {
        let head = self.head(size)?;
        let proof = self.sides.nodes(&*self.disk).prove_inclusion(seq.checked_sub(1)?, size).ok()?;
        proof.verify(leaf, &head).is_ok().then_some(proof)
    }

    /// Head of the log at a size, under the last checkpoint.
    fn head(&mut self, size: u64) -> Option<TreeHead> {
        let last = *self.checkpoint.head();
        if size == last.size() { Some(last) } else { self.frontier(size).map(|tree| tree.head()) }
    }

    /// Tree of the log at a size, under the last checkpoint.
    fn frontier(&mut self, size: u64) -> Option<Frontier> {
        let last = *self.checkpoint.head();
        let tree = self.sides.nodes(&*self.disk).frontier(size).ok()?;
        if size == last.size() {
            return (tree.head() == last).then_some(tree);
        }
        if size > 0 {
            let proof = self.sides.nodes(&*self.disk).prove_consistency(size, last.size()).ok()?;
            proof.verify(&tree.head(), &last).ok()?;
        }
        Some(tree)
    }

    /// Reads the records from number `seq` to the last one under the checkpoint. Nothing is verified.
    fn entries(&mut self, seq: u64) -> Option<LogEntries> {
        let (disk, last) = (Arc::clone(&self.disk), self.checkpoint.size());
        let place = if seq > last { None } else { Some(self.sides.place(&*disk, seq).ok()?) };
        LogEntries::between(disk, self.sides.segments().to_vec(), place, seq, last).ok()
    }
}

/// Entries of a log that were verified under its checkpoint, returned by [`LogProver::entries_from`].
#[derive(Debug)]
pub struct VerifiedEntries {
    entries: LogEntries,
    /// Tree of the entries before the next one.
    tree: Frontier,
    head: TreeHead,
    place: Place,
}

impl Iterator for VerifiedEntries {
    type Item = Result<LogEntry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let changed = LogError::Root(self.place);
        match self.entries.next() {
            Some(Ok(entry)) => Some(self.tree.append(entry.leaf()).map(|_| entry).map_err(|_| changed)),
            Some(failed) => Some(failed),
            None if self.tree.head() == self.head => None,
            None => {
                self.head = self.tree.head();
                Some(Err(changed))
            }
        }
    }
}

/// Proves that a record was in a log when it had `size` records. It opens a [`LogProver`] of its own; use that type to
/// learn which side files were rebuilt.
///
/// # Errors
/// As [`LogProver::open`] and [`LogProver::prove_inclusion`].
pub fn prove_inclusion(
    folder: impl AsRef<Path>,
    key: &LogKey,
    seq: u64,
    size: u64,
) -> Result<InclusionProof, LogError> {
    LogProver::open(FolderDisk::existing(folder)?, key, &[])?.prove_inclusion(seq, size)
}

/// Proves that a log at `new_size` records extends the log at `old_size`. It opens a [`LogProver`] of its own.
///
/// # Errors
/// As [`LogProver::open`] and [`LogProver::prove_consistency`].
pub fn prove_consistency(
    folder: impl AsRef<Path>,
    key: &LogKey,
    old_size: u64,
    new_size: u64,
) -> Result<ConsistencyProof, LogError> {
    LogProver::open(FolderDisk::existing(folder)?, key, &[])?.prove_consistency(old_size, new_size)
}

/// Last checkpoint of a log, as its last segment has it.
struct LogEnd {
    checkpoint: Checkpoint,
    note: String,
    /// Offset of the checkpoint's line; `None` if the checkpoint is in the head.
    line: Option<u64>,
}

impl LogEnd {
    /// Finds the last checkpoint, if a crash can have left the bytes after it. Reads from the end, a block at a time,
    /// no farther than a crash can reach.
    fn find(disk: &dyn Disk, key: &LogKey, first: u64) -> Option<Self> {
        let size = disk.size(&segment_name(first)).ok()?;
        let mut end = size;
        while size.saturating_sub(end) <= MAX_TAIL {
            let from = end.saturating_sub(BLOCK);
            let bytes = read_range(disk, first, from, end).ok()?;
            if let Some((begin, line)) = last_signed_line(&bytes, from == 0) {
                let behind = begin.saturating_add(line.len()).saturating_add(1);
                let behind = from.saturating_add(behind as u64);
                let line_at = from.saturating_add(begin as u64);
                return Self::read(line, line_at, first, key)
                    .filter(|end| end.is_last(disk, key, first, behind, size));
            }
            if from == 0 {
                return None;
            }
            // Bytes before the first newline belong to a line that begins in an earlier block. If all do, the line is
            // longer than a line may be: lost pages.
            let whole = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
            end = from.saturating_add(if whole < bytes.len() { whole as u64 } else { 0 });
        }
        None
    }

    fn read(line: &[u8], at: u64, first: u64, key: &LogKey) -> Option<Self> {
        let (note, line) = match parse_checkpoint(line) {
            None => (Head::parse(line).filter(|head| head.segment.first == first)?.checkpoint, None),
            Some(note) => (note, Some(at)),
        };
        Some(Self { checkpoint: Checkpoint::verify(&note, key).ok()?, note, line })
    }

    /// Returns whether a crash can have left everything after the checkpoint.
    fn is_last(&self, disk: &dyn Disk, key: &LogKey, first: u64, behind: u64, size: u64) -> bool {
        if size.saturating_sub(behind) > MAX_TAIL {
            return false;
        }
        let due = self.checkpoint.size().saturating_add(1);
        read_range(disk, first, behind, size)
            .is_ok_and(|tail| first_damage(&tail, behind, due, key).is_none())
    }
}

/// Returns the last checkpoint line of the bytes, or the head that they begin with, without its newline, and its
/// offset.
fn last_signed_line(bytes: &[u8], is_start: bool) -> Option<(usize, &[u8])> {
    let newline = |upto: usize| bytes.get(..upto)?.iter().rposition(|byte| *byte == b'\n');
    // Bytes at the end without a newline are not a line.
    let mut end = newline(bytes.len())?;
    loop {
        let before = newline(end);
        let begin = before.map_or(0, |at| at.saturating_add(1));
        let line = bytes.get(begin..end)?;
        if (before.is_some() && is_checkpoint(line)) || (before.is_none() && is_start) {
            return Some((begin, line));
        }
        end = before?;
    }
}
