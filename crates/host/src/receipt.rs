//! Receipts of a record's entries.

use std::fs::File;
use std::io;
use std::path::Path;

use countersign_audit_log::{FolderDisk, LogError, LogNumber, LogProver, Receipt, key_of_log};

use crate::config_file::ConfigFile;
use crate::error::HostError;
use crate::inputs::read_trust_root;
use crate::report::Reporter;
use crate::states::side_rebuilt;
use crate::time::now;

impl ConfigFile {
    /// Verifies one log of the record and makes the receipt of an entry under its last checkpoint. The log is synced first: the
    /// other party keeps the receipt.
    ///
    /// # Errors
    /// `AUDIT_MISSING` or `AUDIT_NO_SUCH_SIZE` if there is no such log or entry, and a log that cannot be read or does not verify.
    pub fn receipt(&self, number: LogNumber, seq: u64, reporter: &Reporter) -> Result<Receipt, HostError> {
        let record =
            self.record.plan().prepare(&read_trust_root(&self.registry.trust_root)?, now()?, reporter)?;
        let key = number.key(&key_of_log(&record.folder, &record.options.log_key()))?;
        let folder = number.folder_in(&record.folder);
        let failed = |error: LogError| HostError::from(error).about(folder.display());
        if folder.symlink_metadata().is_err() {
            return Err(HostError::new("AUDIT_MISSING", "log missing").about(folder.display()));
        }
        let disk = FolderDisk::existing(&folder).map_err(|error| failed(error.into()))?;
        let mut prover = LogProver::open(disk, &key, &[]).map_err(failed)?;
        let size = prover.checkpoint().size();
        if !(1..=size).contains(&seq) {
            return Err(failed(LogError::NoSuchSize));
        }
        make_durable(&folder).map_err(|error| failed(error.into()))?;
        let entry = prover.entry(seq).map_err(failed)?;
        let proof = prover.prove_inclusion(seq, size).map_err(failed)?;
        let receipt = Receipt::new(entry.line(), &proof, prover.note())?;
        prover.take_rebuilt().iter().for_each(|side| reporter.note(&side_rebuilt(&folder, side)));
        Ok(receipt)
    }
}

/// Syncs the segments of a log that was read. Their writer may not have synced them yet.
///
/// # Errors
/// The system's error.
pub fn make_durable(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Opening a FIFO would block until its writer opens it.
        if path.extension().is_some_and(|kind| kind == "jsonl") && entry.file_type()?.is_file() {
            open_to_sync(&path)?.sync_all()?;
        }
    }
    sync_folder(folder)
}

#[cfg(unix)]
fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn open_to_sync(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

#[cfg(not(unix))]
const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
