//! A session's goal, pinned by digest when the session starts, so that drift from it shows.
//!
//! [`PinnedAsk::pin`] hashes the goal (recipe [`RECIPE`]) and forgets it; [`PinnedAsk::verify`] says whether a goal
//! that is stated later is the same one. Formatting does not count (case, runs of blanks, composed or decomposed
//! accents), words and letters do.
//!
//! What it does not do: it does not know what a goal means, so a goal that was misread at the start is pinned as it
//! was misread, and two goals in other words are two goals. A pin is not signed: who can replace the pin can
//! replace the goal, so the host keeps it and never the agent. A digest of a guessable goal can be guessed.
//!
//! # Recipe `ask-1`
//!
//! SHA-256 over the label `countersign/ask-1/unicode-17.0.0`, the session id and the normalised goal, each behind its
//! length as eight big-endian bytes. The goal is normalised so:
//!
//! 1. Normalisation form C (UAX #15).
//! 2. Lower case, by the full, locale-free mapping (Unicode section 3.13, `toLowercase`). The written policy for what
//!    people trip over: a capital sigma at a word's end becomes a final sigma, and a small sigma that was written in
//!    that place stays another letter;
//!    dotted capital I becomes i and a combining dot, which is neither i nor dotless i; capital sharp s becomes sharp s,
//!    which is not `ss`.
//! 3. Form C again, since lower case can bring letters together that compose: one pass of both is not stable.
//! 4. Each run of `White_Space` becomes one space; at both ends it goes. Zero-width characters are not in that class.
//!
//! The result has 1 byte to 64 KiB, from at most 256 KiB of text. No compatibility mapping (NFKC), no folding of
//! look-alikes, nothing is taken out: whoever hides a character in a goal has changed it.
//!
//! The label names the Unicode version of the tables. What a newer version adds is letters; a build with other tables
//! could disagree on a goal that holds one of those, and then says drift.

mod error;
mod normalise;
mod pin;

#[cfg(test)]
mod tests;

pub use error::{AskDrift, PinError};
pub use pin::{PinnedAsk, RECIPE, UNICODE_VERSION, require_match};
