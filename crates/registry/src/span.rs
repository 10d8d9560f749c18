//! Reads and writes durations as text, such as `"1h"`.

use countersign_core::Millis;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(span: &Millis, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(span)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Millis, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
    text.parse().map_err(serde::de::Error::custom)
}
