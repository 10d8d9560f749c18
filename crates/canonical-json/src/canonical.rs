use std::fmt;
use std::sync::OnceLock;

use countersign_core::Digest;

use crate::recipe::Recipe;
use crate::tape::Tape;
use crate::value::ValueRef;
use crate::write::write_value;

/// Holds what was read once: the canonical bytes, their digest, and the value itself.
///
/// Whoever acts on the value acts on what was digested. Its `Debug` shows length and digest only. Two are equal when
/// recipe and canonical bytes are.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let args = read(br#"{"to":"bob","lines":[1,2]}"#, Recipe::Jcs1, &Limits::default())?;
/// let lines = args.value().get("lines").map(|lines| args.subtree(lines));
/// assert_eq!(lines.as_ref().map(|lines| lines.as_str()), Some("[1,2]"));
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[derive(Clone)]
pub struct Canonical {
    tape: Tape,
    text: String,
    /// Worked out when somebody asks: not everything that is read is known by its digest.
    digest: OnceLock<Digest>,
    recipe: Recipe,
}

impl Canonical {
    pub(crate) const fn new(tape: Tape, text: String, recipe: Recipe) -> Self {
        Self { tape, text, digest: OnceLock::new(), recipe }
    }

    /// The canonical bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The canonical bytes, as the text that they are.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// The SHA-256 digest of the canonical bytes alone, with no label before them.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of(self.text.as_bytes()))
    }

    /// The recipe that the bytes were read under.
    #[must_use]
    pub const fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> ValueRef<'_> {
        ValueRef::new(&self.tape, 0)
    }

    /// Copies one value out, with canonical bytes and a digest of its own, and this one's recipe.
    #[must_use]
    pub fn subtree(&self, value: ValueRef<'_>) -> Self {
        let tape = value.copy_tape();
        let mut text = String::new();
        write_value(&mut text, &tape, 0);
        Self::new(tape, text, self.recipe)
    }

    /// Takes members of these names off the object itself: canonical bytes and digest are then those of the object read
    /// without them. Members further down stay, and a value of another kind stays whole. Nothing is copied.
    ///
    /// For members that travel beside the arguments and are none of them:
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
        if names.iter().any(|name| self.value().get(name).is_some()) {
            self.tape.remove(names);
            self.text.clear();
            write_value(&mut self.text, &self.tape, 0);
            self.digest = OnceLock::new();
        }
        self
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
