use std::io::{self, Read as _};

use crate::disk::{Disk, DiskFile};
use crate::segment::side_name;

/// Bytes written at once.
const BUFFER: usize = 64 << 10;

/// Opens or creates the side file of a segment for writing, and keeps its first `kept` bytes. A link, or a file with a
/// second name, is replaced by a copy: a write must not reach the other file.
pub(crate) fn open_side(disk: &dyn Disk, first: u64, kept: u64) -> io::Result<Box<dyn DiskFile>> {
    use io::ErrorKind::{AlreadyExists, InvalidInput};
    let name = side_name(first);
    match disk.create(&name) {
        Err(error) if matches!(error.kind(), AlreadyExists | InvalidInput) => {}
        other => return other,
    }
    let refused = match disk.open_only(&name) {
        Err(refused) => refused,
        opened => return opened,
    };
    let before = disk.read(&name, 0).ok();
    // The first failure says why the file cannot be written.
    disk.remove(&name).map_err(|_| refused)?;
    let (mut file, mut at) = (disk.create(&name)?, 0);
    let Some(before) = before else { return Ok(file) };
    let (mut before, mut buffer) = (before.take(kept), vec![0; BUFFER]);
    loop {
        let read = before.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { return Ok(file) };
        file.write_at(at, part)?;
        at = at.saturating_add(part.len() as u64);
    }
}

/// Side file that is written in order.
#[derive(Debug)]
pub(super) struct SideWriter {
    file: Box<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
}

impl SideWriter {
    /// Opens the file, of which the first `kept` bytes are valid.
    pub(super) fn open(disk: &dyn Disk, first: u64, kept: u64) -> io::Result<Self> {
        Ok(Self { file: open_side(disk, first, kept)?, at: 0, buffer: Vec::new() })
    }

    /// Continues at an offset up to which the file is valid.
    pub(super) fn go_on_at(&mut self, offset: u64) -> io::Result<()> {
        self.flush()?;
        self.at = offset;
        Ok(())
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush().map(drop) } else { Ok(()) }
    }

    /// Writes the buffer, and returns the offset after it.
    pub(super) fn flush(&mut self) -> io::Result<u64> {
        self.file.write_at(self.at, &self.buffer)?;
        self.at = self.at.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(self.at)
    }

    /// Cuts the file here.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.file.truncate(self.at)
    }
}
