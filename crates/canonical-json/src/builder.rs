use std::cmp::Ordering;
use std::mem;

use countersign_core::Recipe;

use crate::error::{JsonError, JsonErrorKind};
use crate::limits::Limits;
use crate::number::{self, Number, write_number};
use crate::output::{CanonicalOutput, MemberPlace};
use crate::scan::{PaddedText, name_key};
use crate::tape::{Node, Tape, compare_utf16, narrow};
use crate::unescape::{Unescaped, unescape};

/// The bits that no ASCII byte has.
const NOT_ASCII: u64 = u64::from_ne_bytes([0x80; 8]);

/// Most names of an object that are sorted by insertion.
const FEW_NAMES: usize = 16;

/// Builds the tape of one text and writes its canonical text.
///
/// Recursion is bounded by the depth limit, at most 128.
#[derive(Debug)]
pub(crate) struct TapeBuilder<'a> {
    limits: &'a Limits,
    recipe: Recipe,
    output: CanonicalOutput<'a>,
    /// Its arena is not in it yet.
    tape: &'a mut Tape,
    stacks: &'a mut Stacks,
    /// No number in the innermost container was rounded.
    exact: bool,
}

/// Names of open objects and texts that had escapes.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// Names of all open objects, the innermost object's last.
    names: Vec<MemberName>,
    /// Unescaped texts, which follow the input in the arena.
    pub(crate) texts: String,
}

/// A name of an open object.
#[derive(Clone, Copy, Debug)]
struct MemberName {
    /// The first eight bytes of the name, by which most names compare.
    key: u64,
    node: u32,
    member: MemberPlace,
}

impl Stacks {
    pub(crate) const fn new() -> Self {
        Self { names: Vec::new(), texts: String::new() }
    }

    /// Bytes of memory.
    pub(crate) const fn footprint(&self) -> usize {
        self.names.capacity().saturating_mul(size_of::<MemberName>()).saturating_add(self.texts.capacity())
    }

    /// Number of names of open objects.
    #[cfg(test)]
    pub(crate) const fn held_names(&self) -> usize {
        self.names.len()
    }
}

impl<'a> TapeBuilder<'a> {
    pub(crate) fn new(
        limits: &'a Limits,
        recipe: Recipe,
        output: CanonicalOutput<'a>,
        tape: &'a mut Tape,
        stacks: &'a mut Stacks,
    ) -> Self {
        stacks.names.clear();
        stacks.texts.clear();
        Self { limits, recipe, output, tape, stacks, exact: true }
    }

    /// Reads one value and the whitespace around it, to the end of the text. Returns whether the text was not its own
    /// canonical text.
    pub(crate) fn build(mut self, source: PaddedText<'_>) -> Result<bool, JsonError> {
        let at = self.token(source, 0);
        let behind = self.value(source, at, 0)?;
        let at = self.token(source, behind);
        if at < source.end() {
            return Err(JsonError::new(JsonErrorKind::TrailingData, at));
        }
        Ok(self.output.finish(source))
    }

    /// Reads a value at its first byte, inside of `depth` containers. Returns the position behind it.
    #[inline(always)]
    fn value(&mut self, source: PaddedText<'_>, at: usize, depth: usize) -> Result<usize, JsonError> {
        match source.byte(at) {
            b'"' => self.text(source, at),
            b'-' | b'0'..=b'9' => self.number(source, at),
            b'{' => self.object(source, at, depth),
            b'[' => self.array(source, at, depth),
            b't' => self.word(source, "true", Node::Bool(true), at),
            b'f' => self.word(source, "false", Node::Bool(false), at),
            b'n' => self.word(source, "null", Node::Null, at),
            _ => Err(source.unexpected(at)),
        }
    }

    #[inline(never)]
    fn object(
        &mut self,
        source: PaddedText<'_>,
        start: usize,
        outer_depth: usize,
    ) -> Result<usize, JsonError> {
        let depth = self.go_in(outer_depth, start)?;
        let object = self.tape.push(Node::Object { count: 0, span: 1, exact: true, first: 0 });
        let outer_exact = mem::replace(&mut self.exact, true);
        let outer_names = self.stacks.names.len();
        let mut order = NameOrder { outer_names, latest: 0, sorted: true };
        let mut at = self.token(source, start.wrapping_add(1));
        if source.byte(at) != b'}' {
            loop {
                if source.byte(at) != b'"' {
                    return Err(source.unexpected(at));
                }
                self.check_width(self.stacks.names.len().wrapping_sub(outer_names), at)?;
                at = self.name(source, &mut order, at)?;
                at = self.value(source, at, depth)?;
                at = self.token(source, at);
                match source.byte(at) {
                    b',' => at = self.token(source, at.wrapping_add(1)),
                    b'}' => break,
                    _ => return Err(source.unexpected(at)),
                }
            }
            if !order.sorted {
                self.sort_members(source, outer_names, at)?;
            }
        }
        let names = self.stacks.names.get(outer_names..).unwrap_or_default();
        self.tape.close_object(object, names.iter().map(|name| name.node), self.exact);
        self.stacks.names.truncate(outer_names);
        self.exact &= outer_exact;
        Ok(at.wrapping_add(1))
    }

    #[inline(never)]
    fn array(
        &mut self,
        source: PaddedText<'_>,
        start: usize,
        outer_depth: usize,
    ) -> Result<usize, JsonError> {
        let depth = self.go_in(outer_depth, start)?;
        let array = self.tape.push(Node::Array { count: 0, span: 1, exact: true });
        let outer_exact = mem::replace(&mut self.exact, true);
        let mut count = 0_usize;
        let mut at = self.token(source, start.wrapping_add(1));
        if source.byte(at) != b']' {
            loop {
                self.check_width(count, at)?;
                count = count.wrapping_add(1);
                at = self.value(source, at, depth)?;
                at = self.token(source, at);
                match source.byte(at) {
                    b',' => at = self.token(source, at.wrapping_add(1)),
                    b']' => break,
                    _ => return Err(source.unexpected(at)),
                }
            }
        }
        self.tape.close_array(array, narrow(count), self.exact);
        self.exact &= outer_exact;
        Ok(at.wrapping_add(1))
    }

    /// Counts a level of nesting at the bracket that opens it.
    #[inline(always)]
    fn go_in(&mut self, depth: usize, at: usize) -> Result<usize, JsonError> {
        if depth >= self.limits.max_depth() {
            return Err(JsonError::new(JsonErrorKind::TooDeep, at));
        }
        let inner = depth.wrapping_add(1);
        self.tape.note_depth(inner);
        Ok(inner)
    }

    /// Checks that a container with `count` entries can have another one.
    #[inline(always)]
    fn check_width(&self, count: usize, at: usize) -> Result<(), JsonError> {
        if count < self.limits.max_width() { Ok(()) } else { Err(JsonError::new(JsonErrorKind::TooWide, at)) }
    }

    /// Skips whitespace before a token.
    #[inline(always)]
    fn token(&mut self, source: PaddedText<'_>, at: usize) -> usize {
        if source.byte(at) <= b' ' { self.after_white_space(source, at) } else { at }
    }

    #[inline(never)]
    fn after_white_space(&mut self, source: PaddedText<'_>, start: usize) -> usize {
        let mut at = start;
        while let b' ' | b'\n' | b'\r' | b'\t' = source.byte(at) {
            at = at.wrapping_add(1);
        }
        if at > start {
            self.output.leave_out(source, start..at);
        }
        at
    }

    /// Reads a string literal at its opening quote.
    #[inline(always)]
    fn string(&mut self, source: PaddedText<'_>, at: usize) -> Result<Unescaped, JsonError> {
        let start = at.wrapping_add(1);
        let stop = source.special(start);
        if source.byte(stop) == b'"' {
            let len = stop.wrapping_sub(start);
            return Ok(Unescaped { start, len, plain: true, behind: stop.wrapping_add(1) });
        }
        unescape(source, start, stop, &mut self.stacks.texts, &mut self.output)
    }

    #[inline(always)]
    fn text(&mut self, source: PaddedText<'_>, at: usize) -> Result<usize, JsonError> {
        let text = self.string(source, at)?;
        self.tape.push(Node::Text { start: narrow(text.start), len: narrow(text.len), plain: text.plain });
        Ok(text.behind)
    }

    #[inline(always)]
    fn word(
        &mut self,
        source: PaddedText<'_>,
        word: &str,
        node: Node,
        at: usize,
    ) -> Result<usize, JsonError> {
        let after = source.after_word(word, at)?;
        self.tape.push(node);
        Ok(after)
    }

    #[inline(always)]
    fn number(&mut self, source: PaddedText<'_>, at: usize) -> Result<usize, JsonError> {
        let (short, behind) = source.number(at)?;
        let number = match short {
            Some(number) => number,
            None => self.long_number(source.piece(at, behind), at)?,
        };
        self.exact &= number.exact;
        if !number.canonical {
            self.output.replace(source, at..behind, |out| write_number(out, number.value));
        }
        self.tape.push(Node::Number { value: number.value, exact: number.exact });
        Ok(behind)
    }

    /// Evaluates a literal that can be inexact, unsafe or too large.
    #[inline(never)]
    fn long_number(&self, literal: &str, offset: usize) -> Result<Number, JsonError> {
        let Some(number) = number::evaluate(literal) else {
            return Err(JsonError::new(JsonErrorKind::NumberOverflow, offset));
        };
        if self.recipe == Recipe::PicCjson1 && number::is_unsafe_integer(literal, number.value) {
            return Err(JsonError::new(JsonErrorKind::UnsafeInteger, offset));
        }
        if !number.exact && self.recipe == Recipe::Jcs1 {
            return Err(JsonError::new(JsonErrorKind::InexactNumber, offset));
        }
        Ok(number)
    }

    /// Reads a member's name and colon. Returns the place of its value.
    #[inline(always)]
    fn name(&mut self, source: PaddedText<'_>, order: &mut NameOrder, at: usize) -> Result<usize, JsonError> {
        let start = narrow(self.output.place_of(at));
        let (text, key, short) = match source.short_name(at) {
            Some(short) => {
                let text = Unescaped { start: at.wrapping_add(1), len: short.len, plain: true, behind: 0 };
                (text, short.key, Some(short.value))
            }
            None => {
                let text = self.string(source, at)?;
                (text, self.texts(source).key(text.start, text.len), None)
            }
        };
        let (text_start, len) = (narrow(text.start), narrow(text.len));
        let node =
            self.tape.push(Node::Name { start: text_start, len, plain: text.plain, offset: narrow(at) });
        let name = MemberName { key, node, member: MemberPlace { start, end: 0 } };
        if order.sorted && !keys_ascend(order.latest, key) {
            order.sorted = !keys_ascend(key, order.latest) && self.ascends(source, order.outer_names, &name);
        }
        order.latest = key;
        self.stacks.names.push(name);
        if let Some(value) = short {
            return Ok(value);
        }
        let colon = self.token(source, text.behind);
        if source.byte(colon) != b':' {
            return Err(source.unexpected(colon));
        }
        Ok(self.token(source, colon.wrapping_add(1)))
    }

    /// Returns whether a name comes behind the latest one of its object.
    #[inline(never)]
    fn ascends(&self, source: PaddedText<'_>, outer_names: usize, name: &MemberName) -> bool {
        let names = self.stacks.names.get(outer_names..).unwrap_or_default();
        names.last().is_none_or(|latest| self.texts(source).compare(latest, name) == Ordering::Less)
    }

    fn texts<'t>(&'t self, source: PaddedText<'t>) -> NameTexts<'t> {
        NameTexts { tape: self.tape, source, texts: &self.stacks.texts }
    }

    /// Sorts the names of the innermost object and its members in the canonical text, and refuses a repeated name. Its
    /// bracket is at `end`.
    ///
    /// Sorting puts equal names side by side, so there is no hash table that chosen names could flood.
    #[inline(never)]
    fn sort_members(&mut self, source: PaddedText<'_>, outer: usize, end: usize) -> Result<(), JsonError> {
        let mut member_end = narrow(self.output.place_of(end));
        let Stacks { names, texts } = &mut *self.stacks;
        let names = names.get_mut(outer..).unwrap_or_default();
        let texts = NameTexts { tape: self.tape, source, texts };
        let start = names.first().map_or(0, |name| texts.offset(name.node));
        let mut keys = 0;
        for name in names.iter_mut().rev() {
            keys |= name.key;
            name.member.end = member_end;
            // The comma stands between them, and no whitespace.
            member_end = name.member.start.wrapping_sub(1);
        }
        let repeated =
            |pair: &&[MemberName]| matches!(pair, [a, b] if texts.compare(a, b) == Ordering::Equal);
        // why: the sort of the standard library takes longer for the few names of most objects.
        let has_repeated = if names.len() <= FEW_NAMES && keys & NOT_ASCII == 0 {
            insertion_sort(names, |a, b| a.key.cmp(&b.key).then_with(|| texts.compare_whole(a.node, b.node)))
        } else {
            names.sort_unstable_by(|a, b| texts.compare(a, b));
            names.windows(2).any(|pair| repeated(&pair))
        };
        if has_repeated {
            names.sort_unstable_by(|a, b| texts.compare(a, b).then(a.node.cmp(&b.node)));
            let seconds = names.windows(2).filter(repeated).filter_map(|pair| Some(pair.last()?.node));
            let offset = seconds.min().map_or(0, |node| texts.offset(node));
            return Err(JsonError::new(JsonErrorKind::DuplicateName, offset));
        }
        self.output.reorder(source, start..end, names.iter().map(|name| name.member));
        Ok(())
    }
}

/// Sorts items, and returns whether two are equal.
#[inline(always)]
fn insertion_sort<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) -> bool {
    let mut repeated = false;
    for end in 2..=items.len() {
        let mut sorted = items.get_mut(..end).unwrap_or_default();
        while let [.., before, item] = sorted {
            let order = compare(before, item);
            repeated |= order == Ordering::Equal;
            if order != Ordering::Greater {
                break;
            }
            mem::swap(before, item);
            sorted = sorted.split_last_mut().map_or(&mut [], |(_, rest)| rest);
        }
    }
    repeated
}

/// Order of the names of an open object so far.
#[derive(Clone, Copy, Debug)]
struct NameOrder {
    /// Number of names that belong to outer objects.
    outer_names: usize,
    /// Key of the latest name; zero before the first.
    latest: u64,
    sorted: bool,
}

/// Returns whether two keys alone show that the second name comes behind the first.
///
/// ASCII sorts alike as bytes and as UTF-16, and the first byte that differs decides. A shorter name comes first, as zeros
/// do.
#[inline(always)]
const fn keys_ascend(first: u64, second: u64) -> bool {
    first < second && (first | second) & NOT_ASCII == 0
}

/// The texts of names.
#[derive(Clone, Copy)]
struct NameTexts<'a> {
    tape: &'a Tape,
    source: PaddedText<'a>,
    texts: &'a str,
}

impl<'a> NameTexts<'a> {
    #[inline(always)]
    fn compare(self, a: &MemberName, b: &MemberName) -> Ordering {
        if keys_ascend(a.key, b.key) {
            Ordering::Less
        } else if keys_ascend(b.key, a.key) {
            Ordering::Greater
        } else {
            self.compare_whole(a.node, b.node)
        }
    }

    #[inline(never)]
    fn compare_whole(self, a: u32, b: u32) -> Ordering {
        compare_utf16(self.name(a), self.name(b))
    }

    /// Offset of a name in the input.
    fn offset(self, node: u32) -> usize {
        if let Node::Name { offset, .. } = self.tape.node(node) { offset as usize } else { 0 }
    }

    fn name(self, node: u32) -> &'a [u8] {
        if let Node::Name { start, len, .. } = self.tape.node(node) {
            self.bytes(start as usize, len as usize)
        } else {
            &[]
        }
    }

    fn bytes(self, start: usize, len: usize) -> &'a [u8] {
        match start.checked_sub(self.source.padded_len()) {
            None => self.source.bytes(start, len),
            Some(start) => self.texts.as_bytes().get(start..start.wrapping_add(len)).unwrap_or_default(),
        }
    }

    /// As [`name_key`].
    fn key(self, start: usize, len: usize) -> u64 {
        let bytes = self.bytes(start, len);
        match bytes.first_chunk() {
            Some(first) => name_key(*first, len),
            None => {
                let positions = [56, 48, 40, 32, 24, 16, 8];
                bytes.iter().zip(positions).fold(0, |key, (b, by)| key | u64::from(*b) << by)
            }
        }
    }
}
