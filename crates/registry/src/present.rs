//! Reads an optional member that is present. `null` is refused: absence has one spelling.

use serde::{Deserialize, Deserializer};

pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
