//! Strict reader of untrusted JSON. One pass returns the canonical bytes, their SHA-256 digest and the value.
//!
//! The reader refuses everything that two readers could interpret differently: repeated names (also escaped ones), lone
//! surrogates, invalid UTF-8, a byte order mark, trailing data, and, under the default recipe [`Recipe::Jcs1`], every
//! number whose canonical text has another value. Accepted values are written by RFC 8785 (JSON Canonicalization
//! Scheme). The value ([`ValueRef`]) and the digest come from the same pass: there is no second parse.
//!
//! This crate contains no schemas or policy and does no I/O. It does not read comments or other extensions of JSON.
//! It does not normalise Unicode: NFC and NFD strings stay different (RFC 8785, section 3.1).
//!
//! A thread keeps the buffers of up to four values that it dropped, each of at most 1 MiB, for those that it reads later.
//! They are not wiped, as freed memory is not: a later text overwrites them.
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

mod builder;
mod canonical;
mod de;
mod error;
mod limits;
mod number;
mod output;
mod parts;
mod pool;
mod reader;
mod scan;
mod ser;
mod tape;
mod unescape;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use canonical::Canonical;
pub use countersign_core::{Recipe, RecipeError};
pub use de::DeError;
pub use error::{JsonError, JsonErrorKind};
pub use limits::{Limits, LimitsError};
pub use parts::{Part, Parts, TextPlace};
pub use reader::{Reader, digest, read};
pub use scan::ordinary;
pub use ser::{SerializeError, to_canonical};
pub use value::{Elements, Kind, Members, ValueRef};
pub use write::write_string;
