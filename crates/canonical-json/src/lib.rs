//! Reads untrusted JSON strictly, once, and gives its canonical bytes, their SHA-256 digest, and the value itself.
//!
//! The reader refuses everything that two readers could understand differently: repeated names (also behind
//! escapes), lone surrogates, invalid UTF-8, a byte order mark, trailing data, and, under the default recipe
//! [`Recipe::Jcs1`], every number that its canonical text would not say exactly. What it accepts it writes as
//! RFC 8785 (JSON Canonicalization Scheme) says. The value that is handed on ([`ValueRef`]) comes out of the same
//! reading as the digest: there is no second parse.
//!
//! This crate knows nothing of schemas or policy, does no I/O, does not read JSON with comments or other
//! extensions, does not normalise Unicode (NFC and NFD strings stay different, as RFC 8785, section 3.1, says), and
//! does not wipe what it has read from memory.
//!
//! ```
//! use countersign_canonical_json::{Limits, Recipe, read};
//! let args = read(br#"{ "to": "bob", "amount": 10.0 }"#, Recipe::Jcs1, &Limits::default())?;
//! assert_eq!(args.as_str(), r#"{"amount":10,"to":"bob"}"#);
//! assert_eq!(args.value().get("amount").and_then(|amount| amount.as_u64()), Some(10));
//!
//! let twice = read(br#"{"to":"bob","t\u006f":"eve"}"#, Recipe::Jcs1, &Limits::default());
//! assert_eq!(twice.map_err(|e| (e.code(), e.offset())).err(), Some(("JSON_DUPLICATE_NAME", 12)));
//! # Ok::<(), countersign_canonical_json::JsonError>(())
//! ```

mod canonical;
mod de;
mod error;
mod limits;
mod number;
mod reader;
mod recipe;
mod scan;
mod ser;
mod tape;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use canonical::Canonical;
pub use de::DeError;
pub use error::{JsonError, JsonErrorKind};
pub use limits::{Limits, LimitsError};
pub use reader::{Reader, digest, read};
pub use recipe::{Recipe, RecipeError};
pub use ser::{SerializeError, to_canonical};
pub use value::{Elements, Kind, Members, ValueRef};
pub use write::write_string;
