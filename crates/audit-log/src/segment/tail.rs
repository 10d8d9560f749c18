use serde::de::IgnoredAny;

use super::line::{CHECKPOINT, CHECKPOINT_END, Head, is_checkpoint, parse_checkpoint};
use crate::line::parse_line;
use crate::line::record_prefix;
use crate::{Checkpoint, LogKey};

/// Most bytes that can follow the last checkpoint: a batch takes half of it.
pub(crate) const MAX_TAIL: u64 = 16 << 20;

/// Smallest part of a file that a power cut loses.
const SECTOR: u64 = 512;

/// Returns the offset of the first line that a crash cannot have left, in the bytes from the last checkpoint to the end
/// of the file; `None` if a crash can have left all of them. `start` is their offset in the file, and `due` the number
/// of the next record.
///
/// Only one batch is ever in flight to the disk. A power cut loses pages of it, which read as zeros, or its end. The
/// rest is as written: records in order, then one checkpoint, which `system` leaves out.
pub(crate) fn first_damage(bytes: &[u8], start: u64, due: u64, key: &LogKey) -> Option<usize> {
    if !are_lost_pages(bytes, start) {
        return Some(0);
    }
    let mut tail = TailLines { due, is_exact: true, key };
    let mut at = 0_usize;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at.saturating_add(line.len());
        if !tail.takes(line, end == bytes.len()) {
            return Some(at);
        }
        at = end;
    }
    None
}

/// Returns whether every run of zeros begins at a page or a batch, and ends at a page or the end of the file.
///
/// `start` begins a batch. If no checkpoint ends the file, so does each line: `system` may have written each line
/// separately.
fn are_lost_pages(bytes: &[u8], start: u64) -> bool {
    let (mut at, mut begins_batch) = (start, true);
    let (is_signed, end) = (bytes.ends_with(CHECKPOINT_END), start.saturating_add(bytes.len() as u64));
    bytes.chunk_by(|one, next| (*one == 0) == (*next == 0)).all(|run| {
        let begins = begins_batch || at.is_multiple_of(SECTOR);
        at = at.saturating_add(run.len() as u64);
        begins_batch = !is_signed && run.ends_with(b"\n");
        !run.starts_with(&[0]) || (begins && (at == end || at.is_multiple_of(SECTOR)))
    })
}

/// Lines after a checkpoint, read so far.
struct TailLines<'a> {
    /// Number of the next record; after a lost page, its lower bound.
    due: u64,
    is_exact: bool,
    key: &'a LogKey,
}

impl TailLines<'_> {
    /// Reads a line that may have lost pages; returns whether the rest is as written.
    fn takes(&mut self, line: &[u8], is_last: bool) -> bool {
        let text = line.strip_suffix(b"\n");
        let (ends, text) = (text.is_some(), text.unwrap_or(line));
        if text.iter().any(|byte| (1..b' ').contains(byte)) {
            return false;
        }
        if text.contains(&0) {
            let begins = text.split(|byte| *byte == 0).next().is_none_or(|first| self.begins(first));
            let end = text.rsplit(|byte| *byte == 0).next().unwrap_or_default();
            self.is_exact = false;
            return begins
                && (!ends || end.is_empty() || end.ends_with(b"}"))
                && (is_last || self.signed(end).is_none());
        }
        if !ends {
            return self.begins(text);
        }
        let read = self.due.saturating_sub(1);
        if is_checkpoint(text) {
            let counts = |size: u64| size == read || (!self.is_exact && size > read);
            return is_last && self.signed(text).is_some_and(counts);
        }
        let Some((seq, _)) = parse_line(text) else { return false };
        let follows = seq == self.due || (!self.is_exact && seq > self.due);
        (self.due, self.is_exact) = (seq.saturating_add(1), true);
        follows
    }

    /// Returns whether the next line can begin with this text.
    fn begins(&self, text: &[u8]) -> bool {
        let mut record = Vec::new();
        if self.is_exact {
            record_prefix(self.due, &mut record);
            record.push(b',');
        } else {
            record.extend_from_slice(b"{\"seq\":");
        }
        text.is_empty() || begins_line(text, &record) || begins_line(text, CHECKPOINT)
    }

    /// Returns the size of a checkpoint, if the log signed it.
    fn signed(&self, text: &[u8]) -> Option<u64> {
        let note = parse_checkpoint(text)?;
        Checkpoint::verify(&note, self.key).ok().map(|signed| signed.size())
    }
}

/// Returns whether a line with this prefix can begin with `text`. That includes a line that lacks only its newline.
pub(super) fn begins_line(text: &[u8], prefix: &[u8]) -> bool {
    prefix.iter().zip(text).all(|(due, found)| due == found)
        && match serde_json::from_slice::<IgnoredAny>(text) {
            Ok(_) => text.ends_with(b"}"),
            Err(error) => error.is_eof(),
        }
}

/// Returns whether a crash can have left a segment like this: nothing but an incomplete head.
pub(super) fn is_torn_head(bytes: &[u8], first: u64) -> bool {
    let ends = bytes.strip_suffix(b"\n");
    let text = ends.unwrap_or(bytes);
    let begin = text.split(|byte| *byte == 0).next().unwrap_or_default();
    are_lost_pages(bytes, 0)
        && !text.contains(&b'\n')
        && (ends.is_none() || text.contains(&0))
        && (begin.is_empty() || begins_line(begin, Head::prefix(first).as_bytes()))
}
