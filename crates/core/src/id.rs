use crate::text::is_hidden;

/// Maximum length of an id, in bytes of UTF-8.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// A string is not a valid id or name. The error never contains the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The string is empty.
    #[error("{what} is empty")]
    Empty {
        /// Kind of the id.
        what: &'static str,
    },
    /// The string exceeds the maximum length of its kind.
    #[error("{what} is longer than {max} bytes")]
    TooLong {
        /// Kind of the id.
        what: &'static str,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// The string contains a character outside the grammar of its kind.
    #[error("{what} has a character that is not allowed, at byte {at}")]
    Character {
        /// Kind of the id.
        what: &'static str,
        /// Byte offset of the character.
        at: usize,
    },
}

/// Grammar of all ids: 1 to 256 bytes, no invisible character, no whitespace but inner spaces.
fn check_id(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { what, max: MAX_ID_BYTES });
    }
    // why: no early exit, so the loop vectorises. Most ids are visible ASCII.
    if text.bytes().fold(true, |all, byte| all & byte.is_ascii_graphic()) {
        return Ok(());
    }
    let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
    for (at, c) in text.char_indices() {
        if is_hidden(c) || (c.is_whitespace() && (c != ' ' || at == 0 || at == last)) {
            return Err(IdError::Character { what, at });
        }
    }
    Ok(())
}

/// Reads an id without a copy of its text.
pub(crate) struct IdVisitor<T>(pub(crate) fn(&str) -> Result<T, IdError>);

impl<T> serde::de::Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// Defines a validated string newtype. Serde uses the same constructor as the program. A clone shares the text: the
/// facts of each call name session, agent and principal.
macro_rules! string_newtype {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Validates the text.
            ///
            /// # Errors
            /// [`IdError`](crate::IdError) if the text is outside the grammar.
            pub fn new(text: &str) -> Result<Self, $crate::IdError> {
                Self::check(text)?;
                Ok(Self(text.into()))
            }

            /// Checks a text as [`new`](Self::new) does, without a copy of it.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn check(text: &str) -> Result<(), $crate::IdError> {
                $check($what, text)
            }

            /// Returns an equal value with a text of its own. Its clones share no reference count with the clones of
            /// this one, so threads that clone the two do not slow each other.
            #[must_use]
            pub fn detached(&self) -> Self {
                Self((&*self.0).into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::IdError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::IdError;
            fn try_from(text: &str) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::IdError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(&text)
            }
        }

        impl From<$name> for std::sync::Arc<str> {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_str($crate::id::IdVisitor(Self::new))
            }
        }
    };
}
pub(crate) use string_newtype;

string_newtype!(
    /// Id of an agent in the operator's registry. 1 to 256 bytes, no invisible character.
    AgentId, "agent id", check_id);
string_newtype!(
    /// Id of one session of an agent. 1 to 256 bytes, no invisible character.
    SessionId, "session id", check_id);
string_newtype!(
    /// Id of one tool call, which an approval token binds. Never the id of a JSON-RPC request. 1 to 256 bytes.
    CallId, "call id", check_id);
string_newtype!(
    /// Id by which the host correlates a request. 1 to 256 bytes, no invisible character.
    RequestId, "request id", check_id);
string_newtype!(
    /// The user on whose behalf a call is made. The host names the user, never the agent. 1 to 256 bytes.
    Principal, "principal", check_id);
string_newtype!(
    /// Id of one run of a workflow, from which per-run keys are derived. 1 to 256 bytes, no invisible character.
    RunId, "run id", check_id);
string_newtype!(
    /// Id of one store of spent tickets. A recreated store has a new id. 1 to 256 bytes, no invisible character.
    StoreId, "store id", check_id);
string_newtype!(
    /// Id of one approval token, chosen by the approver's side. 1 to 256 bytes, no invisible character.
    TokenId, "token id", check_id);
string_newtype!(
    /// Id of a key in a keyring. It selects a key and is never key material. 1 to 256 bytes, no invisible character.
    KeyId, "key id", check_id);
string_newtype!(
    /// The gate that a token is meant for. 1 to 256 bytes, no invisible character.
    Audience, "audience", check_id);
string_newtype!(
    /// Id of a person or system that registers or approves. 1 to 256 bytes, no invisible character.
    OperatorId, "operator id", check_id);
string_newtype!(
    /// A kind of output that an agent can return. 1 to 256 bytes, no invisible character.
    OutputTag, "output tag", check_id);
