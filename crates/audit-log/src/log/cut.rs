use std::io::{self, Read as _};

use countersign_core::Digest;
use sha2::{Digest as _, Sha256};

use crate::disk::Disk;

/// Bytes copied at once.
const CHUNK: usize = 64 << 10;

/// Bytes that a log cut after its last checkpoint, and the file that keeps them. The log's record of the cut has the
/// same members.
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

/// Saves bytes that are about to be cut, before record `seq`, and syncs them. They are appended to bytes already saved
/// before that record, by a process that ended in between. Returns `None` if there is nothing to save.
pub(super) fn keep(disk: &dyn Disk, seq: u64, bytes: &[u8]) -> io::Result<Option<CutBytes>> {
    let file = format!("cut-{seq}");
    let kept = match disk.size(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        kept => Some(kept?),
    };
    let mut open = match kept {
        None if bytes.is_empty() => return Ok(None),
        None => disk.create(&file)?,
        // Refuses a file with a second name: a planted link leads to another file.
        Some(_) => disk.open_only(&file)?,
    };
    let (kept, size) = (kept.unwrap_or_default(), bytes.len() as u64);
    let at = if kept >= size && holds(disk, &file, kept.saturating_sub(size), bytes)? {
        kept.saturating_sub(size)
    } else if kept < size && holds(disk, &file, 0, bytes)? {
        0
    } else {
        kept
    };
    // Bytes that a read returns may not be on the disk: all of them are written again.
    let (mut hash, mut buffer, mut written) = (Sha256::new(), vec![0; CHUNK], 0_u64);
    let mut before = if at > 0 { Some(disk.read(&file, 0)?.take(at)) } else { None };
    while let Some(before) = before.as_mut().filter(|_| written < at) {
        let chunk = match before.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => buffer.get(..read).unwrap_or_default(),
        };
        hash.update(chunk);
        open.write_at(written, chunk)?;
        written = written.saturating_add(chunk.len() as u64);
    }
    hash.update(bytes);
    open.write_at(at, bytes)?;
    open.sync()?;
    disk.sync_folder()?;
    let digest = Digest::from_bytes(hash.finalize().into());
    Ok(Some(CutBytes { file, bytes: at.saturating_add(size), digest }))
}

/// Returns whether the file's content from an offset is a prefix of the bytes.
fn holds(disk: &dyn Disk, name: &str, from: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut found = Vec::new();
    disk.read(name, from)?.take(bytes.len() as u64).read_to_end(&mut found)?;
    Ok(bytes.starts_with(&found))
}

/// Reads a file of at most `most` bytes.
pub(super) fn read_all(disk: &dyn Disk, name: &str, most: u64) -> io::Result<Vec<u8>> {
    if disk.size(name)? > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    disk.read(name, 0)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
