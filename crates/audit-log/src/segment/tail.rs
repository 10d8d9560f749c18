use super::{Head, is_checkpoint, parse_checkpoint};
use crate::{Checkpoint, LogKey};

/// The most bytes that can follow the last checkpoint: a batch takes half of it.
pub(crate) const MAX_TAIL: u64 = 16 << 20;

/// Says whether a crash can have left these bytes behind the last checkpoint, or where a segment's head should be.
///
/// Only one batch is ever on its way to the disk. It ends with its checkpoint, so that nothing follows a checkpoint
/// that the log signed; and what is lost of it are pages, which read as zeros, or its end. `torn` says that all of it
/// is as it should be as far as it goes.
pub(crate) fn is_crash(rest: &[u8], torn: bool, key: &LogKey) -> bool {
    if !rest.contains(&0) {
        return torn;
    }
    let mut lines = rest.split_inclusive(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() && is_signed(line, key) {
            return false;
        }
    }
    true
}

fn is_signed(line: &[u8], key: &LogKey) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    // The line before it may have been lost with its end.
    let line = line.rsplit(|b| *b == 0).next().unwrap_or(line);
    is_checkpoint(line) && parse_checkpoint(line).is_some_and(|note| Checkpoint::verify(&note, key).is_ok())
}

/// Says whether a crash can have left a segment like this: nothing was in it yet but its head.
pub(crate) fn is_torn_head(bytes: &[u8], first: u64) -> bool {
    let lines = bytes.iter().filter(|b| **b == b'\n').count();
    let begun = Head::prefix(first).bytes().zip(bytes).all(|(due, found)| due == *found);
    if bytes.contains(&0) {
        lines == 0 || (lines == 1 && bytes.ends_with(b"\n"))
    } else {
        lines == 0 && begun
    }
}
