use std::io;

use crate::disk::{Disk, DiskFile};
use crate::segment::side_name;

/// Bytes written at once.
const BUFFER: usize = 64 << 10;

/// Opens or creates the side file of a segment for writing. Refuses a file with a second name.
pub(crate) fn open_side(disk: &dyn Disk, first: u64) -> io::Result<Box<dyn DiskFile>> {
    let name = side_name(first);
    match disk.create(&name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open_only(&name),
        other => other,
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
    pub(super) fn open(disk: &dyn Disk, first: u64) -> io::Result<Self> {
        Ok(Self { file: open_side(disk, first)?, at: 0, buffer: Vec::new() })
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
