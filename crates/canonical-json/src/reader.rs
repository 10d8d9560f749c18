use std::cmp::Ordering;

use countersign_core::{Digest, Recipe};

use crate::canonical::Canonical;
use crate::error::{JsonError, JsonErrorKind};
use crate::limits::Limits;
use crate::number;
use crate::scan::Scanner;
use crate::tape::{Node, Tape, compare_utf16, narrow};
use crate::write::write_value;

/// Reads one JSON text, whose value may be of any kind.
///
/// # Errors
/// [`JsonError`] with a code and a byte offset, if `recipe` or `limits` refuse the bytes.
pub fn read(bytes: &[u8], recipe: Recipe, limits: &Limits) -> Result<Canonical, JsonError> {
    let mut reader = Reader::with_room_for(bytes.len().min(limits.max_bytes()), *limits);
    reader.fill(bytes, recipe)?;
    reader.write();
    Ok(Canonical::new(reader.tape, reader.out, recipe))
}

/// Returns the SHA-256 digest of a text's canonical bytes, as [`read`], without keeping the value.
///
/// # Errors
/// As [`read`].
pub fn digest(bytes: &[u8], recipe: Recipe, limits: &Limits) -> Result<Digest, JsonError> {
    Reader::new(*limits).digest(bytes, recipe)
}

impl Canonical {
    /// Checks the value against other limits than those under which it was read. The size is that of the canonical text.
    ///
    /// # Errors
    /// The [`JsonError`] with which [`read`] refuses the canonical text under these limits.
    pub fn check_limits(&self, limits: &Limits) -> Result<(), JsonError> {
        if self.bytes().len() <= limits.max_bytes()
            && self.tape().is_within(limits.max_depth(), limits.max_width())
        {
            return Ok(());
        }
        // Only a refused value is read again, for the place of the fault.
        read(self.bytes(), self.recipe(), limits).map(drop)
    }
}

/// Reads many texts with the same buffers. Reading a text no larger than an earlier one allocates nothing.
///
/// The buffers keep the size that the largest text needed, within the [`Limits`].
///
/// ```
/// use countersign_canonical_json::{Limits, Reader, Recipe};
/// let mut reader = Reader::new(Limits::default());
/// let a = reader.digest(br#"{"a":1,"b":2}"#, Recipe::Jcs1)?;
/// let b = reader.digest(br#"{"b":2.0,"a":1e0}"#, Recipe::Jcs1)?;
/// assert_eq!(a, b);
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
pub struct Reader {
    limits: Limits,
    tape: Tape,
    out: String,
    open: Vec<Frame>,
    /// Names of all open objects, the innermost object's last.
    names: Vec<u32>,
    /// Whether the input so far is its own canonical text.
    verbatim: bool,
}

/// An array or object that is not closed yet.
#[derive(Clone, Copy, Debug)]
struct Frame {
    at: u32,
    count: u32,
    exact: bool,
    container: Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    /// With the number of names in `Reader::names` that belong to outer objects.
    Object(usize),
}

impl Reader {
    /// Creates a reader with empty buffers.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        let tape = Tape::new();
        Self { limits, tape, out: String::new(), open: Vec::new(), names: Vec::new(), verbatim: false }
    }

    /// Creates a reader with buffers large enough for a typical text of that many bytes: growing them costs more than
    /// reading.
    fn with_room_for(bytes: usize, limits: Limits) -> Self {
        Self {
            limits,
            tape: Tape::with_room_for(bytes),
            out: String::with_capacity(bytes),
            open: Vec::with_capacity(8),
            names: Vec::with_capacity(32),
            verbatim: false,
        }
    }

    /// Reads one JSON text, whose value may be of any kind, and keeps the buffers.
    ///
    /// # Errors
    /// [`JsonError`] with a code and a byte offset, if `recipe` or the limits refuse the bytes.
    pub fn read(&mut self, bytes: &[u8], recipe: Recipe) -> Result<Canonical, JsonError> {
        self.fill(bytes, recipe)?;
        self.write();
        Ok(Canonical::new(self.tape.clone(), self.out.clone(), recipe))
    }

    /// Returns the SHA-256 digest of a text's canonical bytes.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn digest(&mut self, bytes: &[u8], recipe: Recipe) -> Result<Digest, JsonError> {
        self.fill(bytes, recipe)?;
        self.write();
        Ok(Digest::of(self.out.as_bytes()))
    }

    /// Number of names of open objects.
    #[cfg(test)]
    pub(crate) const fn held_names(&self) -> usize {
        self.names.len()
    }

    fn write(&mut self) {
        self.out.clear();
        if self.verbatim {
            self.out.push_str(self.tape.arena());
        } else {
            write_value(&mut self.out, &self.tape, 0);
        }
    }

    /// Fills the tape with the value of `bytes`.
    fn fill(&mut self, bytes: &[u8], recipe: Recipe) -> Result<(), JsonError> {
        self.open.clear();
        self.names.clear();
        self.verbatim = true;
        let text = decode(bytes, &self.limits)?;
        self.tape.start(text);
        let mut scanner = Scanner::new(text);
        scanner.skip_white_space();
        loop {
            let opened = self.value(&mut scanner, recipe)?;
            if !opened && self.close_and_go_on(&mut scanner)? {
                break;
            }
        }
        scanner.skip_white_space();
        self.verbatim &= scanner.is_verbatim();
        match scanner.peek() {
            None => Ok(()),
            Some(_) => Err(JsonError::new(JsonErrorKind::TrailingData, scanner.offset())),
        }
    }

    /// Reads a scalar, or opens a container and stops at its first value. Returns `true` if it opened a container
    /// that is not empty.
    fn value(&mut self, scanner: &mut Scanner<'_>, recipe: Recipe) -> Result<bool, JsonError> {
        let offset = scanner.offset();
        match scanner.peek() {
            Some(b'{') => return self.open_object(scanner),
            Some(b'[') => return self.open_array(scanner),
            Some(b'"') => {
                let text = scanner.string(self.tape.arena_mut())?;
                self.tape.push(Node::Text {
                    start: narrow(text.start),
                    len: narrow(text.len),
                    plain: text.plain,
                });
            }
            Some(b'-' | b'0'..=b'9') => {
                let literal = scanner.number()?;
                let Some(number) = number::evaluate(literal) else {
                    return Err(JsonError::new(JsonErrorKind::NumberOverflow, offset));
                };
                if recipe == Recipe::PicCjson1 && number::is_unsafe_integer(literal, number.value) {
                    return Err(JsonError::new(JsonErrorKind::UnsafeInteger, offset));
                }
                if !number.exact {
                    if recipe == Recipe::Jcs1 {
                        return Err(JsonError::new(JsonErrorKind::InexactNumber, offset));
                    }
                    if let Some(frame) = self.open.last_mut() {
                        frame.exact = false;
                    }
                }
                self.tape.push(Node::Number { value: number.value, exact: number.exact });
            }
            Some(b't') => {
                scanner.word("true")?;
                self.tape.push(Node::Bool(true));
            }
            Some(b'f') => {
                scanner.word("false")?;
                self.tape.push(Node::Bool(false));
            }
            Some(b'n') => {
                scanner.word("null")?;
                self.tape.push(Node::Null);
            }
            _ => return Err(scanner.unexpected()),
        }
        Ok(false)
    }

    fn open_array(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        let at = self.tape.push(Node::Array { count: 0, span: 1, exact: true });
        self.open(scanner, at, Container::Array)?;
        scanner.skip_white_space();
        if scanner.peek() == Some(b']') {
            return Ok(false);
        }
        self.count_entry(scanner)?;
        Ok(true)
    }

    fn open_object(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        let at = self.tape.push(Node::Object { count: 0, span: 1, exact: true, first: 0 });
        self.open(scanner, at, Container::Object(self.names.len()))?;
        scanner.skip_white_space();
        if scanner.peek() == Some(b'}') {
            return Ok(false);
        }
        self.name(scanner)?;
        Ok(true)
    }

    /// Opens a container at its bracket.
    fn open(&mut self, scanner: &mut Scanner<'_>, at: u32, container: Container) -> Result<(), JsonError> {
        if self.open.len() >= self.limits.max_depth() {
            return Err(JsonError::new(JsonErrorKind::TooDeep, scanner.offset()));
        }
        scanner.bump();
        self.open.push(Frame { at, count: 0, exact: true, container });
        Ok(())
    }

    /// Reads a member's name and colon, and stops at its value.
    fn name(&mut self, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        let offset = scanner.offset();
        if scanner.peek() != Some(b'"') {
            return Err(scanner.unexpected());
        }
        self.count_entry(scanner)?;
        let name = scanner.string(self.tape.arena_mut())?;
        let at = self.tape.push(Node::Name {
            start: narrow(name.start),
            len: narrow(name.len),
            plain: name.plain,
            offset: narrow(offset),
        });
        self.names.push(at);
        scanner.skip_white_space();
        if scanner.peek() != Some(b':') {
            return Err(scanner.unexpected());
        }
        scanner.bump();
        scanner.skip_white_space();
        Ok(())
    }

    /// Counts an entry of the innermost container, which starts at the next byte, and checks the width limit.
    fn count_entry(&mut self, scanner: &Scanner<'_>) -> Result<(), JsonError> {
        let Some(frame) = self.open.last_mut() else {
            return Ok(());
        };
        if frame.count as usize >= self.limits.max_width() {
            return Err(JsonError::new(JsonErrorKind::TooWide, scanner.offset()));
        }
        frame.count = frame.count.saturating_add(1);
        Ok(())
    }

    /// After a value: closes the containers that end here and stops at the next value. Returns `true` if no container
    /// is open.
    fn close_and_go_on(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        while let Some(frame) = self.open.last().copied() {
            scanner.skip_white_space();
            match (frame.container, scanner.peek()) {
                (Container::Array, Some(b',')) => {
                    scanner.bump();
                    scanner.skip_white_space();
                    self.count_entry(scanner)?;
                    return Ok(false);
                }
                (Container::Object(_), Some(b',')) => {
                    scanner.bump();
                    scanner.skip_white_space();
                    self.name(scanner)?;
                    return Ok(false);
                }
                (Container::Array, Some(b']')) => {
                    self.tape.close_array(frame.at, frame.count, frame.exact);
                }
                (Container::Object(outer), Some(b'}')) => {
                    let names = self.names.get_mut(outer..).unwrap_or_default();
                    self.verbatim &= sort_names(&self.tape, names)?;
                    self.tape.close_object(frame.at, names, frame.exact);
                    self.names.truncate(outer);
                }
                _ => return Err(scanner.unexpected()),
            }
            scanner.bump();
            self.open.pop();
            if let Some(parent) = self.open.last_mut() {
                parent.exact &= frame.exact;
            }
        }
        Ok(true)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Checks the size, the byte order mark and the encoding of the input.
fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<&'a str, JsonError> {
    if bytes.len() > limits.max_bytes() {
        return Err(JsonError::new(JsonErrorKind::TooLarge, limits.max_bytes()));
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(JsonError::new(JsonErrorKind::Bom, 0));
    }
    std::str::from_utf8(bytes).map_err(|e| JsonError::new(JsonErrorKind::InvalidUtf8, e.valid_up_to()))
}

/// Sorts an object's names canonically and refuses a repeated one. Returns whether they were sorted already.
///
/// Sorting puts equal names side by side, so there is no hash table that chosen names could flood.
fn sort_names(tape: &Tape, names: &mut [u32]) -> Result<bool, JsonError> {
    let compare = |a: &u32, b: &u32| compare_utf16(tape.name(*a), tape.name(*b));
    let in_turn = names.iter().map(|at| tape.name(*at));
    if in_turn.is_sorted_by(|a, b| compare_utf16(a, b) == Ordering::Less) {
        return Ok(true);
    }
    names.sort_unstable_by(|a, b| compare(a, b).then(a.cmp(b)));
    let repeated = |pair: &&[u32]| matches!(pair, [a, b] if compare(a, b) == Ordering::Equal);
    let first = names.windows(2).filter(repeated).filter_map(|pair| pair.last().copied()).min();
    match first.map(|at| tape.node(at)) {
        Some(Node::Name { offset, .. }) => Err(JsonError::new(JsonErrorKind::DuplicateName, offset as usize)),
        _ => Ok(false),
    }
}
