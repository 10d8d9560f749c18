//! Options whose value is one of a few words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// One value of an option: its word, its help and its meaning.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Parses one of these words.
pub(crate) fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [Word<T>],
) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|(word, help, _)| PossibleValue::new(word).help(*help));
    PossibleValuesParser::new(values).try_map(move |given| {
        all.iter().find(|(word, ..)| *word == given).map(|(.., value)| *value).ok_or("not one of the words")
    })
}
