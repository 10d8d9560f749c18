use std::io::{self, BufRead as _, BufReader, Read as _};

use countersign_core::Timestamp;
use countersign_merkle::{Frontier, NodeHash};

use super::segment_name;
use crate::{Disk, LogError, Place};

/// Longest line, without its newline: the length of an entry in a C2SP tlog-tiles bundle has two bytes.
pub(crate) const MAX_LINE: usize = 65_535;

/// Prefix of a checkpoint line.
pub(super) const CHECKPOINT: &[u8] = b"{\"checkpoint\":";

/// Suffix of a checkpoint line. No record ends like that.
pub(super) const CHECKPOINT_END: &[u8] = b"\\n\"}\n";

/// Returns the checkpoint line of a note, newline included.
pub(crate) fn checkpoint_line(note: &str) -> io::Result<Vec<u8>> {
    let mut line = CHECKPOINT.to_vec();
    serde_json::to_writer(&mut line, note)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Returns whether a line is a checkpoint line, judged by its prefix.
pub(crate) fn is_checkpoint(line: &[u8]) -> bool {
    line.starts_with(CHECKPOINT)
}

/// Reads the note of a checkpoint line without its newline, if the line has the canonical spelling.
pub(crate) fn parse_checkpoint(line: &[u8]) -> Option<String> {
    let note: String = serde_json::from_slice(line.strip_prefix(CHECKPOINT)?.strip_suffix(b"}")?).ok()?;
    let same = checkpoint_line(&note).ok()?.strip_suffix(b"\n")? == line;
    // Three lines, an empty one and one signature: a log does not store cosignatures.
    (same && note.bytes().filter(|b| *b == b'\n').count() == 5).then_some(note)
}

/// First line of a segment.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) segment: HeadSegment,
    /// Note of the checkpoint from which the segment continues.
    pub(crate) checkpoint: String,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadSegment {
    /// Sequence number of the segment's first record.
    pub(crate) first: u64,
    /// Roots of the full subtrees of all records before it.
    pub(crate) peaks: Vec<NodeHash>,
}

impl Head {
    pub(crate) fn new(frontier: &Frontier, note: &str) -> Self {
        let first = frontier.size().saturating_add(1);
        Self { segment: HeadSegment { first, peaks: frontier.peaks().to_vec() }, checkpoint: note.to_owned() }
    }

    /// Returns the line, newline included.
    pub(crate) fn to_line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Parses a line without its newline, if it is a head in canonical spelling.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(line).ok()?;
        (head.to_line().ok()?.strip_suffix(b"\n")? == line).then_some(head)
    }

    /// Returns the prefix of the head line of the segment.
    pub(crate) fn prefix(first: u64) -> String {
        format!("{{\"segment\":{{\"first\":{first},\"peaks\":[")
    }
}

/// Reads the head of a segment. Nothing is verified.
pub(crate) fn read_head(disk: &dyn Disk, first: u64) -> Result<Head, LogError> {
    let (most, mut line) = ((MAX_LINE as u64).saturating_add(1), Vec::new());
    BufReader::new(disk.read(&segment_name(first), 0)?).take(most).read_until(b'\n', &mut line)?;
    let head = line.strip_suffix(b"\n").and_then(Head::parse);
    head.ok_or(LogError::Malformed(Place { segment: first, line: 1, byte: 0, entry: first }))
}

/// Reads the notes of the head and the checkpoint lines of a segment that may be damaged, in order. Nothing is
/// verified.
pub(crate) fn read_notes(disk: &dyn Disk, first: u64) -> Result<Vec<String>, LogError> {
    let (mut input, mut line, mut notes) =
        (BufReader::new(disk.read(&segment_name(first), 0)?), Vec::new(), Vec::new());
    loop {
        line.clear();
        // No line of a log is longer; a longer one is read in parts.
        let most = (MAX_LINE as u64).saturating_add(1);
        if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(notes);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        notes.extend(parse_checkpoint(text).or_else(|| Head::parse(text).map(|head| head.checkpoint)));
    }
}

/// Returns whether a record line ends like an object and has no control character.
pub(crate) fn is_object(line: &[u8]) -> bool {
    // No early exit, so the loop vectorises.
    line.ends_with(b"}") && line.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= b' '
}

/// Parses the time of a record line. `rest` follows its sequence number.
pub(crate) fn time_of(rest: &[u8]) -> Option<Timestamp> {
    let rest = rest.strip_prefix(b"\"type\":\"")?;
    let quote = rest.iter().position(|b| !b.is_ascii_lowercase())?;
    let rest = rest.get(quote..)?.strip_prefix(b"\",\"time\":")?;
    let mut millis = 0_u64;
    for byte in rest {
        if !byte.is_ascii_digit() {
            break;
        }
        millis = millis.checked_mul(10)?.checked_add(u64::from(byte.wrapping_sub(b'0')))?;
    }
    Timestamp::from_millis(millis).ok()
}
