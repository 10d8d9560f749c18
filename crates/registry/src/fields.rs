//! Reading, writing and checking of the draft format's members.

use std::collections::BTreeSet;
use std::error::Error;

use countersign_canonical_json::{Canonical, Limits as JsonLimits, to_canonical};
use countersign_core::Digest;
use serde::{Deserialize, Deserializer, Serialize};

use crate::content::{ContentError, ContentProblem};

/// Highest version: 2^53 - 1, the largest integer that JSON numbers hold exactly.
pub(crate) const MAX_VERSION: u64 = (1 << 53) - 1;

/// Largest draft or payload, in bytes: more than the largest envelope could hold.
const MAX_BYTES: usize = 16 << 20;

/// Deepest nesting. Schemas need more of it than arguments do.
const MAX_DEPTH: usize = 64;

/// Limits for drafts and payloads: deeper and larger than for a call's arguments.
pub(crate) fn json_limits() -> JsonLimits {
    let limits = JsonLimits::default().bytes(MAX_BYTES);
    // INVARIANT: both lie below the reader's hard caps. If not, the tighter default applies and refuses.
    limits.and_then(|limits| limits.depth(MAX_DEPTH)).unwrap_or_default()
}

/// Reads an optional member that is present. `null` is refused: absence has one spelling.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// Reads and writes a duration as text, such as `"1h"`.
pub(crate) mod span {
    use countersign_core::Millis;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(span: &Millis, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(span)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Millis, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Canonical JSON of an entry, whose members are added in canonical order.
///
/// why: writing an entry and reading it back takes longer than all the rest of loading it.
#[derive(Debug)]
pub(crate) struct CanonicalEntry {
    text: Vec<u8>,
}

impl CanonicalEntry {
    /// Starts an entry, with room for most.
    pub(crate) fn new() -> Self {
        Self { text: Vec::with_capacity(1_024) }
    }

    /// Adds a value that is written canonically as it is: a text, a whole number, or a list of such.
    pub(crate) fn plain<T: Serialize + ?Sized>(
        mut self,
        name: &str,
        value: &T,
    ) -> Result<Self, ContentError> {
        self.name(name);
        serde_json::to_writer(&mut self.text, value).map_err(|error| shape(&error))?;
        Ok(self)
    }

    /// Adds any value.
    pub(crate) fn any<T: Serialize + ?Sized>(self, name: &str, value: &T) -> Result<Self, ContentError> {
        let value = canonical(value)?;
        Ok(self.written(name, value.as_str()))
    }

    /// Adds a value that is canonical JSON already.
    pub(crate) fn written(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.text.extend_from_slice(value.as_bytes());
        self
    }

    fn name(&mut self, name: &str) {
        self.text.extend_from_slice(if self.text.is_empty() { b"{\"" } else { b",\"" });
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    /// Digest over a label and the entry.
    pub(crate) fn fingerprint(mut self, label: &str) -> Digest {
        self.text.push(b'}');
        Digest::framed(label).field(&self.text).finish()
    }
}

/// Canonical JSON of a part of an entry.
pub(crate) fn canonical<T: Serialize + ?Sized>(value: &T) -> Result<Canonical, ContentError> {
    to_canonical(value).map_err(|error| shape(&error))
}

fn shape(error: &dyn Error) -> ContentError {
    ContentError::new("", ContentProblem::Shape(error.to_string()))
}

/// Collects a list into a set. A repeated item is an error.
pub(crate) fn distinct<T: Ord>(place: &str, list: Vec<T>) -> Result<BTreeSet<T>, ContentError> {
    let mut set = BTreeSet::new();
    for (index, item) in list.into_iter().enumerate() {
        if !set.insert(item) {
            return Err(ContentError::new(format!("{place}/{index}"), ContentProblem::Duplicate));
        }
    }
    Ok(set)
}

/// Checks the length of a list.
pub(crate) fn check_count(
    place: &str,
    what: &'static str,
    have: usize,
    max: usize,
) -> Result<(), ContentError> {
    if have > max {
        return Err(ContentError::new(place, ContentProblem::TooMany { what, max }));
    }
    Ok(())
}
