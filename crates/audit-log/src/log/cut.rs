use std::io::{self, Read as _};

use countersign_core::Digest;

use crate::disk::Disk;
use crate::segment::MAX_TAIL;

/// The most bytes that one file keeps.
const MAX_CUT: u64 = 2 * MAX_TAIL;

/// Bytes that a log cut behind its last checkpoint, and the file that keeps them. Its record has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutBytes {
    /// Name of the file in the log's folder.
    pub file: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub digest: Digest,
}

/// Keeps bytes that are cut next, before the record of that number, synced, behind what was kept before that record already:
/// by a process that ended in between. Without either there is no cut.
pub(super) fn keep(disk: &dyn Disk, seq: u64, bytes: &[u8]) -> io::Result<Option<CutBytes>> {
    let file = format!("cut-{seq}");
    let kept = match read_all(disk, &file, MAX_CUT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        kept => Some(kept?),
    };
    let mut open = match kept {
        None if bytes.is_empty() => return Ok(None),
        None => disk.create(&file)?,
        Some(_) => disk.open(&file)?,
    };
    let kept = kept.unwrap_or_default();
    let all = if kept.ends_with(bytes) {
        kept
    } else if bytes.starts_with(&kept) {
        bytes.to_vec()
    } else {
        [kept.as_slice(), bytes].concat()
    };
    // What a read shows need not be on the disk: all of it is written again.
    open.write_at(0, &all)?;
    open.sync()?;
    disk.sync_folder()?;
    Ok(Some(CutBytes { file, bytes: all.len() as u64, digest: Digest::of(&all) }))
}

/// Reads a file of so many bytes at most.
pub(super) fn read_all(disk: &dyn Disk, name: &str, most: u64) -> io::Result<Vec<u8>> {
    if disk.size(name)? > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    disk.read(name, 0)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
