//! Pins a session's goal by digest at the start of the session and detects drift from it.
//!
//! [`PinnedAsk::pin`] hashes the goal (recipe [`RECIPE`]) without keeping it; [`PinnedAsk::verify`] compares a goal
//! that is stated later. Formatting is ignored (case, runs of whitespace, composed or decomposed accents); words and
//! letters are not.
//!
//! Non-goals: this crate does not understand goals. A goal that was misunderstood at the start is pinned as such, and a
//! paraphrase is another goal. A pin is not signed: replacing the pin replaces the goal, so the host keeps the pin and
//! never the agent. The digest of a guessable goal can be guessed.
//!
//! # Recipe `ask-1`
//!
//! SHA-256 over the label `countersign/ask-1/unicode-17.0.0`, the session id and the normalised goal, each preceded
//! by its length as eight big-endian bytes. Normalisation of the goal:
//!
//! 1. Normalisation form C (UAX #15).
//! 2. Lower case by the full, locale-free mapping (Unicode, section 3.13, `toLowercase`). Consequences: a capital
//!    sigma at a word's end becomes a final sigma, and a small sigma in that place stays another letter; dotted
//!    capital I becomes i and a combining dot, which is neither i nor dotless i; capital sharp s becomes sharp s,
//!    which is not `ss`.
//! 3. Form C again, since lower-casing can make letters adjacent that compose: one pass of both is not stable.
//! 4. Each run of `White_Space` becomes one space, leading and trailing runs are removed. Zero-width characters are
//!    not in that class.
//!
//! The result has 1 byte to 64 KiB, from at most 256 KiB of text. There is no compatibility mapping (NFKC) and no
//! folding of look-alikes, and no character is removed: an invisible character makes another goal.
//!
//! The label names the Unicode version of the tables. A build with newer tables could normalise letters added since
//! then differently, and reports drift.

mod error;
mod normalise;
mod pin;

#[cfg(test)]
mod tests;

pub use error::{AskDrift, PinError};
pub use pin::{PinnedAsk, RECIPE, UNICODE_VERSION, require_match};
