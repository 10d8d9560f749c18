use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use crate::read::parse_line;
use crate::{AuditError, Record};

/// The longest line, its newline included. A session record names every disclosed tool, and a tool's name takes up to
/// 300 bytes.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// How much of the end is read at first.
const FIRST_WINDOW: u64 = 8 << 10;

/// The most that is read: a torn line behind a whole one, each as long as can be.
const MOST_READ: u64 = (MAX_LINE_BYTES as u64) << 1;

/// Where a file of records can be continued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Length of the file up to and including the last whole line.
    pub(crate) end: u64,
    /// Sequence number of that line; 0 when there is none.
    pub(crate) last: u64,
}

/// Reads the end of a file, and no more of it than two lines can take.
pub(crate) fn find_tail(file: &mut File) -> Result<Tail, AuditError> {
    let length = file.seek(SeekFrom::End(0)).map_err(AuditError::Unavailable)?;
    let mut window = FIRST_WINDOW;
    loop {
        let start = length.saturating_sub(window);
        let bytes = read_from(file, start, length).map_err(AuditError::Unavailable)?;
        if let Some(tail) = judge(&bytes, start)? {
            return Ok(tail);
        }
        if window >= MOST_READ {
            return Err(AuditError::Corrupt { at: start });
        }
        window = window.saturating_mul(4).min(MOST_READ);
    }
}

fn read_from(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Looks at the last bytes of a file, which begin at offset `start`. `None` when they do not reach back far enough.
fn judge(bytes: &[u8], start: u64) -> Result<Option<Tail>, AuditError> {
    let offset = |at: usize| start.saturating_add(at as u64);
    let Some(newline) = bytes.iter().rposition(|b| *b == b'\n') else {
        if start > 0 {
            return Ok(None);
        }
        // An empty file, or the first line of all was torn.
        return if can_be_torn(bytes, 0) {
            Ok(Some(Tail { end: 0, last: 0 }))
        } else {
            Err(AuditError::Corrupt { at: 0 })
        };
    };
    let (lines, torn) = bytes.split_at(newline.saturating_add(1));
    let before = lines.split_last().map_or(lines, |(_, before)| before);
    let line_start = before.iter().rposition(|b| *b == b'\n').map(|at| at.saturating_add(1));
    if line_start.is_none() && start > 0 {
        return Ok(None);
    }
    let line_start = line_start.unwrap_or(0);
    let line = before.get(line_start..).unwrap_or_default();
    let Some((last, _)) = parse_line(line).filter(|(last, _): &(u64, Record)| *last > 0) else {
        return Err(AuditError::Corrupt { at: offset(line_start) });
    };
    let end = offset(lines.len());
    if last == u64::MAX {
        return Err(AuditError::Corrupt { at: offset(line_start) });
    }
    if can_be_torn(torn, last) { Ok(Some(Tail { end, last })) } else { Err(AuditError::Corrupt { at: end }) }
}

/// Says whether an unterminated line can be what is left of the record after number `last` (0: of the first one): its
/// beginning, perhaps with zeros behind it. Anything else was not written here, and is not for us to cut.
pub(crate) fn can_be_torn(bytes: &[u8], last: u64) -> bool {
    let Some(next) = last.checked_add(1) else {
        return false;
    };
    let written = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at.saturating_add(1));
    if written == 0 {
        // A file system that grows a file before its data arrives leaves zeros behind, after a crash. A file of
        // nothing else is none of ours.
        return last > 0 || bytes.is_empty();
    }
    let due = format!("{{\"seq\":{next},\"type\":\"");
    bytes.iter().take(written).zip(due.as_bytes()).all(|(a, b)| a == b)
}
