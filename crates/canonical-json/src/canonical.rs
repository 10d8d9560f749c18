use std::fmt;
use std::mem;
use std::sync::OnceLock;

use countersign_core::{Digest, Recipe};

use crate::pool::{give_value, take_value};
use crate::tape::{Node, Tape};
use crate::value::ValueRef;
use crate::write::write_value;

/// A value that was read once: its canonical bytes, their digest, and the value itself.
///
/// The value and the digest come from the same reading, so acting on the value is acting on the digested bytes. `Debug`
/// shows length and digest only. Two values are equal if their recipes and canonical bytes are.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let args = read(br#"{"to":"bob","lines":[1,2]}"#, Recipe::Jcs1, &Limits::default())?;
/// let lines = args.value().get("lines").map(|lines| args.subtree(lines));
/// assert_eq!(lines.as_ref().map(|lines| lines.as_str()), Some("[1,2]"));
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
pub struct Canonical {
    tape: Tape,
    text: String,
    /// Computed on first use: many values are read and never digested.
    digest: OnceLock<Digest>,
    recipe: Recipe,
}

impl Canonical {
    pub(crate) const fn new(tape: Tape, text: String, recipe: Recipe) -> Self {
        Self { tape, text, digest: OnceLock::new(), recipe }
    }

    /// Returns the empty object.
    #[must_use]
    pub fn empty_object(recipe: Recipe) -> Self {
        let (mut tape, mut text) = take_value(2);
        tape.push(Node::Object { count: 0, span: 1, exact: true, first: 0 });
        tape.note_depth(1);
        text.push_str("{}");
        Self::new(tape, text, recipe)
    }

    pub(crate) const fn tape(&self) -> &Tape {
        &self.tape
    }

    /// The canonical bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The canonical bytes as text.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// The SHA-256 digest of the canonical bytes, without a label.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of(self.text.as_bytes()))
    }

    /// The recipe under which the bytes were read.
    #[must_use]
    pub const fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> ValueRef<'_> {
        ValueRef::new(&self.tape, 0)
    }

    /// Copies one value out, with its own canonical bytes and digest, under the same recipe.
    #[must_use]
    pub fn subtree(&self, value: ValueRef<'_>) -> Self {
        let (mut tape, mut text) = take_value(self.text.len());
        value.copy_to(&mut tape);
        write_value(&mut text, &tape, 0);
        Self::new(tape, text, self.recipe)
    }

    /// Strips the top-level members of these names, in place. Canonical bytes and digest are then those of the object
    /// without them. Nested members stay; a value that is not an object stays unchanged.
    ///
    /// For reserved members, which are sent with the arguments but are not arguments:
    ///
    /// ```
    /// use countersign_canonical_json::{Limits, Recipe, read};
    /// let sent = read(br#"{"to":"bob","__trace":{"id":7}}"#, Recipe::Jcs1, &Limits::default())?;
    /// let args = sent.without(&["__trace"]);
    /// assert_eq!(args.as_str(), r#"{"to":"bob"}"#);
    /// # Ok::<(), countersign_canonical_json::JsonError>(())
    /// ```
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        let mut removed = false;
        for name in names {
            removed |= self.tape.remove(name);
        }
        if removed {
            self.text.clear();
            write_value(&mut self.text, &self.tape, 0);
            self.digest = OnceLock::new();
        }
        self
    }
}

impl Clone for Canonical {
    fn clone(&self) -> Self {
        let (mut tape, mut text) = take_value(self.text.len());
        tape.copy_all(&self.tape);
        text.push_str(&self.text);
        Self { tape, text, digest: self.digest.clone(), recipe: self.recipe }
    }
}

/// The buffers serve a later reading of the thread.
impl Drop for Canonical {
    fn drop(&mut self) {
        give_value(mem::take(&mut self.tape), mem::take(&mut self.text));
    }
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        self.recipe == other.recipe && self.text == other.text
    }
}

impl Eq for Canonical {}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canonical")
            .field("recipe", &self.recipe)
            .field("length", &self.text.len())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
