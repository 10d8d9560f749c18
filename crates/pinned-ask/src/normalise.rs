use unicode_normalization::UnicodeNormalization as _;

use crate::PinError;

/// Maximum size of the goal before normalisation, which can shorten a text.
const MAX_RAW_BYTES: usize = 256 << 10;

/// Maximum size of the normalised goal.
const MAX_BYTES: usize = 64 << 10;

// INVARIANT: the label of `ask-1` names the Unicode version of both tables: lower-casing is the standard library's,
// form C is the crate's. A toolchain or crate with other tables does not build.
const _: () = assert!(
    matches!((char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION), ((17, 0, 0), (17, 0, 0))),
    "recipe `ask-1` needs the tables of Unicode 17.0.0"
);

/// Bytes that are looked at together.
const CHUNK: usize = 32;

/// Normalises a goal by recipe `ask-1` and calls `then` with its bytes. A goal in ASCII of at most 2 KiB needs no
/// allocation.
pub(crate) fn with_normalised<T>(text: &str, then: impl FnOnce(&[u8]) -> T) -> Result<T, PinError> {
    // why: checked before any work, since normalising can lengthen a text and sorts its combining marks.
    if text.len() > MAX_RAW_BYTES {
        return Err(PinError::TooLong);
    }
    // why: zeroing 2 KiB takes as long as hashing a short goal.
    match text.len() {
        0..=256 => with_room(text, &mut [0; 256], then),
        257..=1_024 => with_room(text, &mut [0; 1_024], then),
        1_025..=2_048 => with_room(text, &mut [0; 2_048], then),
        length => with_room(text, &mut vec![0; length], then),
    }
}

/// Normalises the text in a room at least as long.
fn with_room<T>(text: &str, room: &mut [u8], then: impl FnOnce(&[u8]) -> T) -> Result<T, PinError> {
    let bytes = text.as_bytes().trim_ascii();
    let length = if lower_single_spaced(bytes, room) {
        bytes.len()
    } else if text.is_ascii() {
        ascii(bytes, room)
    } else {
        return within_limits(unicode(text).as_bytes(), then);
    };
    within_limits(room.get(..length).unwrap_or_default(), then)
}

fn within_limits<T>(normalised: &[u8], then: impl FnOnce(&[u8]) -> T) -> Result<T, PinError> {
    match normalised.len() {
        0 => Err(PinError::Empty),
        1..=MAX_BYTES => Ok(then(normalised)),
        _ => Err(PinError::TooLong),
    }
}

/// The recipe for any text.
pub(crate) fn unicode(text: &str) -> String {
    let composed: String = text.nfc().collect();
    let lower: String = composed.to_lowercase().nfc().collect();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Lower-cases ASCII that has no whitespace at its ends and only single spaces between its words, as most goals: that is
/// all of the recipe then. Returns `false` for other texts and for those of at most 32 bytes; `out` is then unusable.
fn lower_single_spaced(text: &[u8], out: &mut [u8]) -> bool {
    let (Some(last), Some(out)) = (text.last(), out.get_mut(..text.len())) else { return false };
    if text.len() <= CHUNK || is_odd(*last, 0) {
        return false;
    }
    let mut odd = [false; CHUNK];
    let mut lower = |(bytes, behind, out): (&[u8; CHUNK], &[u8; CHUNK], &mut [u8; CHUNK])| {
        // No early exit and a fixed length, so the loop vectorises.
        for (((byte, behind), out), odd) in bytes.iter().zip(behind).zip(out).zip(&mut odd) {
            *odd |= is_odd(*byte, *behind);
            *out = byte.to_ascii_lowercase();
        }
    };
    let behind = text.get(1..).unwrap_or_default();
    let chunks = text.as_chunks().0.iter().zip(behind.as_chunks().0).zip(out.as_chunks_mut().0);
    chunks.for_each(|((bytes, behind), out)| lower((bytes, behind, out)));
    // The last chunk overlaps the one before. No byte is behind the last one.
    let Some((end, out)) = out.split_last_mut() else { return false };
    let before = text.get(..out.len()).and_then(<[u8]>::last_chunk);
    let (Some(bytes), Some(behind), Some(out)) = (before, text.last_chunk(), out.last_chunk_mut()) else {
        return false;
    };
    lower((bytes, behind, out));
    *end = last.to_ascii_lowercase();
    !odd.contains(&true)
}

/// Returns whether a byte is not ASCII, or is whitespace other than a single space.
///
/// why: it has no branches, so the loops over it vectorise.
const fn is_odd(byte: u8, behind: u8) -> bool {
    (byte >= 0x80) | (byte.wrapping_sub(b'\t') <= b'\r' - b'\t') | ((byte == b' ') & (behind == b' '))
}

/// The recipe for ASCII, which form C does not change. `out` is at least as long as the text. Returns the normalised length.
///
/// why: most of a goal is words with single spaces between them, which are copied a chunk at a time.
pub(crate) fn ascii(text: &[u8], out: &mut [u8]) -> usize {
    let mut goal = AsciiGoal { out, length: 0, blank: true };
    let mut rest = text;
    loop {
        if goal.blank {
            let words = rest.iter().position(|byte| !is_white_space(*byte)).unwrap_or(rest.len());
            rest = rest.get(words..).unwrap_or_default();
        }
        if rest.is_empty() {
            break;
        }
        let mut unread = rest;
        while is_single_spaced(unread) {
            unread = unread.get(CHUNK..).unwrap_or_default();
        }
        let chunk = unread.get(..CHUNK).unwrap_or(unread);
        let unread = unread.len().saturating_sub(single_spaced_length(chunk));
        let (copied, behind) =
            rest.split_at_checked(rest.len().saturating_sub(unread)).unwrap_or((rest, &[]));
        match copied {
            [words @ .., b' '] => {
                goal.push(words);
                goal.blank = true;
            }
            words => goal.push(words),
        }
        goal.blank |= behind.first().is_some_and(|byte| is_white_space(*byte) && *byte != b' ');
        rest = behind;
    }
    let AsciiGoal { out, length, .. } = goal;
    out.get_mut(..length).unwrap_or_default().make_ascii_lowercase();
    length
}

/// `White_Space` includes the vertical tab, `is_ascii_whitespace` does not.
const fn is_white_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Number of bytes before whitespace that is not a single space.
fn single_spaced_length(chunk: &[u8]) -> usize {
    let mut after_space = false;
    let ends = |byte: &u8| {
        let is_extra = is_white_space(*byte) && (after_space || *byte != b' ');
        after_space = *byte == b' ';
        is_extra
    };
    chunk.iter().position(ends).unwrap_or(chunk.len())
}

/// Returns whether a whole chunk comes next whose only whitespace is single spaces. `false` may be too careful.
fn is_single_spaced(rest: &[u8]) -> bool {
    let next = rest.get(1..).and_then(<[u8]>::first_chunk::<CHUNK>);
    let (Some(chunk), Some(next)) = (rest.first_chunk::<CHUNK>(), next) else { return false };
    // No early exit and a fixed length, so the loop vectorises.
    !chunk.iter().zip(next).fold(false, |found, (byte, next)| found | is_odd(*byte, *next))
}

/// A goal in ASCII, normalised but for its case.
struct AsciiGoal<'b> {
    out: &'b mut [u8],
    length: usize,
    /// Whether whitespace, or nothing, comes before the next word.
    blank: bool,
}

impl AsciiGoal<'_> {
    /// Appends words, behind one space if whitespace separates them from the words before.
    fn push(&mut self, words: &[u8]) {
        if self.blank && self.length > 0 {
            self.copy(b" ");
        }
        self.copy(words);
        self.blank = false;
    }

    /// INVARIANT: no more bytes are copied than were read, and `out` is at least as long as the text.
    fn copy(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if let Some(room) = self.out.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
            self.length = end;
        }
    }
}
