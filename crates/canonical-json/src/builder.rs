use std::cmp::Ordering;
use std::mem;

use countersign_core::Recipe;

use crate::error::{JsonError, JsonErrorKind};
use crate::limits::Limits;
use crate::number::{self, Number, write_number};
use crate::scan::Scanner;
use crate::tape::{Node, Tape, compare_utf16, narrow};

/// Builds the tape of one text while a scanner passes over it.
#[derive(Debug)]
pub(crate) struct TapeBuilder<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) recipe: Recipe,
    pub(crate) tape: &'a mut Tape,
    pub(crate) stacks: &'a mut Stacks,
}

/// Containers and names that are open at one place of the text.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// The containers around the innermost one.
    open: Vec<Frame>,
    /// Names of all open objects, the innermost object's last.
    names: Vec<MemberName>,
}

/// An array or object that is not closed yet.
#[derive(Clone, Copy, Debug)]
struct Frame {
    container: Container,
    /// No number in it was rounded.
    exact: bool,
    /// Its names so far are in canonical order.
    sorted: bool,
    at: u32,
    count: u32,
    /// Number of names that belong to outer objects.
    outer_names: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    /// Around the whole value.
    Outside,
    Array,
    Object,
}

/// A name of an open object: its node, its text in the arena, and its member in the canonical text.
#[derive(Clone, Copy, Debug)]
struct MemberName {
    /// The first eight bytes of the name, by which most names compare.
    key: u64,
    node: u32,
    start: u32,
    len: u32,
    member: u32,
    /// End of the member, known when the next one begins.
    member_end: u32,
}

impl Stacks {
    pub(crate) const fn new() -> Self {
        Self { open: Vec::new(), names: Vec::new() }
    }

    /// Bytes of memory.
    pub(crate) const fn footprint(&self) -> usize {
        let open = self.open.capacity().saturating_mul(size_of::<Frame>());
        open.saturating_add(self.names.capacity().saturating_mul(size_of::<MemberName>()))
    }

    /// Number of names of open objects.
    #[cfg(test)]
    pub(crate) const fn held_names(&self) -> usize {
        self.names.len()
    }
}

impl TapeBuilder<'_> {
    /// Reads one value and the whitespace around it, to the end of the text.
    pub(crate) fn build(&mut self, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        self.stacks.open.clear();
        self.stacks.names.clear();
        let mut frame = Frame {
            container: Container::Outside,
            exact: true,
            sorted: true,
            at: 0,
            count: 0,
            outer_names: 0,
        };
        scanner.token();
        loop {
            match frame.container {
                Container::Object => self.name(&mut frame, scanner)?,
                Container::Array => self.count_entry(&mut frame, scanner)?,
                Container::Outside => {}
            }
            let opened = self.value(&mut frame, scanner)?;
            if !opened && self.close_and_go_on(&mut frame, scanner)? {
                break;
            }
        }
        match scanner.token() {
            None => Ok(()),
            Some(_) => Err(JsonError::new(JsonErrorKind::TrailingData, scanner.offset())),
        }
    }

    /// Reads a scalar, or opens a container and stops at its first entry. Returns `true` if it opened a container
    /// that is not empty.
    #[inline]
    fn value(&mut self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        let node = match scanner.peek() {
            Some(b'"') => {
                let text = scanner.string(self.tape.arena_mut())?;
                Node::Text { start: narrow(text.start), len: narrow(text.len), plain: text.plain }
            }
            Some(b'-' | b'0'..=b'9') => self.number(frame, scanner)?,
            Some(b'{') => return self.open_object(frame, scanner),
            Some(b'[') => return self.open_array(frame, scanner),
            Some(b't') => {
                scanner.word("true")?;
                Node::Bool(true)
            }
            Some(b'f') => {
                scanner.word("false")?;
                Node::Bool(false)
            }
            Some(b'n') => {
                scanner.word("null")?;
                Node::Null
            }
            _ => return Err(scanner.unexpected()),
        };
        self.tape.push(node);
        Ok(false)
    }

    #[inline]
    fn number(&self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<Node, JsonError> {
        let offset = scanner.offset();
        let number = match scanner.number()? {
            Some(number) => number,
            None => self.long_number(frame, scanner.piece(offset)?, offset)?,
        };
        if !number.canonical {
            scanner.respell(offset, |out| write_number(out, number.value));
        }
        Ok(Node::Number { value: number.value, exact: number.exact })
    }

    /// Evaluates a literal that can be inexact, unsafe or too large.
    fn long_number(&self, frame: &mut Frame, literal: &str, offset: usize) -> Result<Number, JsonError> {
        let Some(number) = number::evaluate(literal) else {
            return Err(JsonError::new(JsonErrorKind::NumberOverflow, offset));
        };
        if self.recipe == Recipe::PicCjson1 && number::is_unsafe_integer(literal, number.value) {
            return Err(JsonError::new(JsonErrorKind::UnsafeInteger, offset));
        }
        if !number.exact && self.recipe == Recipe::Jcs1 {
            return Err(JsonError::new(JsonErrorKind::InexactNumber, offset));
        }
        frame.exact &= number.exact;
        Ok(number)
    }

    #[inline]
    fn open_array(&mut self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        let at = self.tape.push(Node::Array { count: 0, span: 1, exact: true });
        self.open(frame, scanner, at, Container::Array)?;
        Ok(scanner.token() != Some(b']'))
    }

    #[inline]
    fn open_object(&mut self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        let at = self.tape.push(Node::Object { count: 0, span: 1, exact: true, first: 0 });
        self.open(frame, scanner, at, Container::Object)?;
        Ok(scanner.token() != Some(b'}'))
    }

    /// Opens a container at its bracket.
    fn open(
        &mut self,
        frame: &mut Frame,
        scanner: &mut Scanner<'_>,
        at: u32,
        container: Container,
    ) -> Result<(), JsonError> {
        if self.stacks.open.len() >= self.limits.max_depth() {
            return Err(JsonError::new(JsonErrorKind::TooDeep, scanner.offset()));
        }
        scanner.bump();
        let outer_names = narrow(self.stacks.names.len());
        let inner = Frame { container, exact: true, sorted: true, at, count: 0, outer_names };
        self.stacks.open.push(mem::replace(frame, inner));
        self.tape.note_depth(self.stacks.open.len());
        Ok(())
    }

    /// Reads a member's name and colon, and stops at its value.
    #[inline]
    fn name(&mut self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        if scanner.peek() != Some(b'"') {
            return Err(scanner.unexpected());
        }
        self.count_entry(frame, scanner)?;
        let (offset, member) = (scanner.offset(), narrow(scanner.place()));
        let text = scanner.string(self.tape.arena_mut())?;
        let (start, len) = (narrow(text.start), narrow(text.len));
        let node = self.tape.push(Node::Name { start, len, plain: text.plain, offset: narrow(offset) });
        let key = key_of(self.tape, start, len);
        let name = MemberName { key, node, start, len, member, member_end: 0 };
        if frame.count > 1
            && let Some(before) = self.stacks.names.last_mut()
        {
            // The comma stands between them, and no whitespace.
            before.member_end = member.saturating_sub(1);
            frame.sorted = frame.sorted && compare_names(self.tape, before, &name) == Ordering::Less;
        }
        self.stacks.names.push(name);
        if scanner.token() != Some(b':') {
            return Err(scanner.unexpected());
        }
        scanner.bump();
        scanner.token();
        Ok(())
    }

    /// Counts an entry of the innermost container, which starts at the next byte, and checks the width limit.
    #[inline]
    fn count_entry(&self, frame: &mut Frame, scanner: &Scanner<'_>) -> Result<(), JsonError> {
        if frame.count as usize >= self.limits.max_width() {
            return Err(JsonError::new(JsonErrorKind::TooWide, scanner.offset()));
        }
        frame.count = frame.count.saturating_add(1);
        Ok(())
    }

    /// After a value: closes the containers that end here and stops at the next entry. Returns `true` if no container
    /// is open.
    #[inline]
    fn close_and_go_on(&mut self, frame: &mut Frame, scanner: &mut Scanner<'_>) -> Result<bool, JsonError> {
        loop {
            match (frame.container, scanner.token()) {
                (Container::Outside, _) => return Ok(true),
                (Container::Array | Container::Object, Some(b',')) => {
                    scanner.bump();
                    scanner.token();
                    return Ok(false);
                }
                (Container::Array, Some(b']')) => self.tape.close_array(frame.at, frame.count, frame.exact),
                (Container::Object, Some(b'}')) => self.close_object(frame, scanner)?,
                _ => return Err(scanner.unexpected()),
            }
            scanner.bump();
            let Some(outer) = self.stacks.open.pop() else { return Ok(true) };
            let exact = frame.exact;
            *frame = outer;
            frame.exact &= exact;
        }
    }

    fn close_object(&mut self, frame: &Frame, scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        let outer = frame.outer_names as usize;
        let names = self.stacks.names.get_mut(outer..).unwrap_or_default();
        if !frame.sorted {
            let first = names.first().map_or(0, |name| name.member as usize);
            if let Some(last) = names.last_mut() {
                last.member_end = narrow(scanner.place());
            }
            sort_names(self.tape, names)?;
            scanner.reorder(first, names.iter().map(|name| name.member as usize..name.member_end as usize));
        }
        self.tape.close_object(frame.at, names.iter().map(|name| name.node), frame.exact);
        self.stacks.names.truncate(outer);
        Ok(())
    }
}

/// The first eight bytes of a name as a number, with zeros behind a shorter one.
#[inline]
fn key_of(tape: &Tape, start: u32, len: u32) -> u64 {
    let bytes = tape.bytes_from(start);
    let key = match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            bytes.iter().zip([56, 48, 40, 32, 24, 16, 8]).fold(0, |key, (b, by)| key | u64::from(*b) << by)
        }
    };
    if len < 8 { key & !(u64::MAX >> len.wrapping_mul(8)) } else { key }
}

#[inline]
fn compare_names(tape: &Tape, a: &MemberName, b: &MemberName) -> Ordering {
    const NOT_ASCII: u64 = u64::from_be_bytes([0x80; 8]);
    // why: ASCII sorts alike as bytes and as UTF-16, and the first byte that differs decides. A shorter name comes first, as
    // zeros do.
    if a.key != b.key && (a.key | b.key) & NOT_ASCII == 0 {
        return a.key.cmp(&b.key);
    }
    compare_utf16(tape.bytes(a.start, a.len), tape.bytes(b.start, b.len))
}

/// Sorts an object's names canonically and refuses a repeated one.
///
/// Sorting puts equal names side by side, so there is no hash table that chosen names could flood.
fn sort_names(tape: &Tape, names: &mut [MemberName]) -> Result<(), JsonError> {
    names.sort_unstable_by(|a, b| compare_names(tape, a, b).then(a.node.cmp(&b.node)));
    let repeated =
        |pair: &&[MemberName]| matches!(pair, [a, b] if compare_names(tape, a, b) == Ordering::Equal);
    let first = names.windows(2).filter(repeated).filter_map(|pair| Some(pair.last()?.node)).min();
    match first.map(|at| tape.node(at)) {
        Some(Node::Name { offset, .. }) => Err(JsonError::new(JsonErrorKind::DuplicateName, offset as usize)),
        _ => Ok(()),
    }
}
