use countersign_core::{Digest, Recipe};

use crate::builder::{Stacks, TapeBuilder};
use crate::canonical::Canonical;
use crate::error::{JsonError, JsonErrorKind};
use crate::limits::Limits;
use crate::output::CanonicalOutput;
use crate::pool::{PooledValue, ReadValue, with_pool};
use crate::scan::PaddedText;

/// Reads one JSON text, whose value may be of any kind.
///
/// The buffers are those of an earlier value of this thread that was dropped, if one is kept: four are, each of at most
/// 1 MiB. So a thread that reads and drops values of one size allocates nothing.
///
/// # Errors
/// [`JsonError`] with a code and a byte offset, if `recipe` or `limits` refuse the bytes.
pub fn read(bytes: &[u8], recipe: Recipe, limits: &Limits) -> Result<Canonical, JsonError> {
    let room = bytes.len().min(limits.max_bytes());
    let value =
        with_pool(|pool| pool.read(room, |value, stacks| read_value(bytes, recipe, limits, value, stacks)))?;
    Ok(Canonical::new(value.into(), recipe))
}

/// Returns the SHA-256 digest of a text's canonical bytes, as [`read`], without keeping the value.
///
/// # Errors
/// As [`read`].
pub fn digest(bytes: &[u8], recipe: Recipe, limits: &Limits) -> Result<Digest, JsonError> {
    with_pool(|pool| {
        let (value, stacks) = pool.digested();
        let digest = digest_value(bytes, recipe, limits, value, stacks);
        pool.trim(bytes.len());
        digest
    })
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

/// Reads many texts with the same buffers. The digest of a text no larger than an earlier one allocates nothing.
///
/// The buffers keep the size that the largest text needed, within the [`Limits`]. A value that is read takes its buffers
/// from those that the thread keeps, as in [`read`].
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
    digested: ReadValue,
    stacks: Stacks,
}

impl Reader {
    /// Creates a reader with empty buffers.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, digested: ReadValue::new(), stacks: Stacks::new() }
    }

    /// Reads one JSON text, whose value may be of any kind, and keeps the buffers.
    ///
    /// # Errors
    /// [`JsonError`] with a code and a byte offset, if `recipe` or the limits refuse the bytes.
    pub fn read(&mut self, bytes: &[u8], recipe: Recipe) -> Result<Canonical, JsonError> {
        let mut value = PooledValue::with_room_for(bytes.len().min(self.limits.max_bytes()));
        read_value(bytes, recipe, &self.limits, value.get_mut(), &mut self.stacks)?;
        Ok(Canonical::new(value, recipe))
    }

    /// Returns the SHA-256 digest of a text's canonical bytes.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn digest(&mut self, bytes: &[u8], recipe: Recipe) -> Result<Digest, JsonError> {
        digest_value(bytes, recipe, &self.limits, &mut self.digested, &mut self.stacks)
    }

    /// Number of names of open objects.
    #[cfg(test)]
    pub(crate) const fn held_names(&self) -> usize {
        self.stacks.held_names()
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

fn read_value(
    bytes: &[u8],
    recipe: Recipe,
    limits: &Limits,
    value: &mut ReadValue,
    stacks: &mut Stacks,
) -> Result<(), JsonError> {
    if let Some(canonical) = fill(bytes, recipe, limits, value, stacks)? {
        value.text.push_str(canonical);
    }
    Ok(())
}

fn digest_value(
    bytes: &[u8],
    recipe: Recipe,
    limits: &Limits,
    value: &mut ReadValue,
    stacks: &mut Stacks,
) -> Result<Digest, JsonError> {
    let canonical = fill(bytes, recipe, limits, value, stacks)?;
    Ok(Digest::of(canonical.unwrap_or(&value.text).as_bytes()))
}

/// Reads the value of `bytes` to the tape, and its canonical text to the buffer. Returns the input instead if it is its
/// own canonical text; the buffer is empty then.
fn fill<'a>(
    bytes: &'a [u8],
    recipe: Recipe,
    limits: &Limits,
    ReadValue { tape, text, .. }: &mut ReadValue,
    stacks: &mut Stacks,
) -> Result<Option<&'a str>, JsonError> {
    let input = decode(bytes, limits)?;
    let arena = tape.start(input);
    let output = CanonicalOutput::new(text);
    let built = TapeBuilder::new(limits, recipe, output, tape, stacks).build(PaddedText::new(&arena));
    tape.finish(arena, &stacks.texts);
    Ok((!built?).then_some(input))
}
