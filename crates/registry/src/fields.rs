//! Reading, writing and checking of the draft format's members.

use std::collections::BTreeSet;

use countersign_canonical_json::{Limits as JsonLimits, to_canonical};
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

/// Digest over a label and the canonical JSON of an entry.
pub(crate) fn fingerprint<T: Serialize>(label: &str, entry: &T) -> Result<Digest, ContentError> {
    let canonical = to_canonical(entry)
        .map_err(|error| ContentError::new("", ContentProblem::Shape(error.to_string())))?;
    Ok(Digest::framed(label).field(canonical.bytes()).finish())
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
