use std::fmt;
use std::sync::OnceLock;

use countersign_core::{Digest, Recipe};

use crate::pool::{PooledValue, ReadValue};
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
    /// Its digest is computed on first use: many values are read and never digested.
    value: PooledValue,
    recipe: Recipe,
}

impl Canonical {
    pub(crate) const fn new(value: PooledValue, recipe: Recipe) -> Self {
        Self { value, recipe }
    }

    /// Returns the empty object.
    #[must_use]
    pub fn empty_object(recipe: Recipe) -> Self {
        let mut value = PooledValue::with_room_for(2);
        let ReadValue { tape, text, .. } = value.get_mut();
        tape.push(Node::Object { count: 0, span: 1, exact: true, first: 0 });
        tape.note_depth(1);
        text.push_str("{}");
        Self::new(value, recipe)
    }

    pub(crate) fn tape(&self) -> &Tape {
        &self.value.tape
    }

    /// The canonical bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.value.text.as_bytes()
    }

    /// The canonical bytes as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.value.text.as_str()
    }

    /// The SHA-256 digest of the canonical bytes, without a label.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.value.digest.get_or_init(|| Digest::of(self.value.text.as_bytes()))
    }

    /// The recipe under which the bytes were read.
    #[must_use]
    pub const fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> ValueRef<'_> {
        ValueRef::new(&self.value.tape, 0)
    }

    /// Copies one value out, with its own canonical bytes and digest, under the same recipe.
    #[must_use]
    pub fn subtree(&self, value: ValueRef<'_>) -> Self {
        let mut copy = PooledValue::with_room_for(self.value.text.len());
        let ReadValue { tape, text, .. } = copy.get_mut();
        value.copy_to(tape);
        write_value(text, tape, 0);
        Self::new(copy, self.recipe)
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
        let ReadValue { tape, text, digest } = self.value.get_mut();
        let mut removed = false;
        for name in names {
            removed |= tape.remove(name);
        }
        if removed {
            text.clear();
            write_value(text, tape, 0);
            *digest = OnceLock::new();
        }
        self
    }
}

impl Clone for Canonical {
    fn clone(&self) -> Self {
        let mut copy = PooledValue::with_room_for(self.value.text.len());
        let ReadValue { tape, text, digest } = copy.get_mut();
        tape.copy_all(self.tape());
        text.push_str(self.as_str());
        digest.clone_from(&self.value.digest);
        Self::new(copy, self.recipe)
    }
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        self.recipe == other.recipe && self.value.text == other.value.text
    }
}

impl Eq for Canonical {}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canonical")
            .field("recipe", &self.recipe)
            .field("length", &self.value.text.len())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
