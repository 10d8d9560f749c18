use crate::hidden::is_hidden;

/// The longest id, in bytes of UTF-8.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// Why a string is not a valid id or name. Never holds the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The string has no characters.
    #[error("{what} is empty")]
    Empty {
        /// Which kind of id was read.
        what: &'static str,
    },
    /// The string is longer than the kind allows.
    #[error("{what} is longer than {max} bytes")]
    TooLong {
        /// Which kind of id was read.
        what: &'static str,
        /// The most bytes that the kind allows.
        max: usize,
    },
    /// The string holds a character that the kind does not allow.
    #[error("{what} has a character that is not allowed, at byte {at}")]
    Character {
        /// Which kind of id was read.
        what: &'static str,
        /// Offset of the character, in bytes.
        at: usize,
    },
}

/// The grammar of all ids: 1 to 256 bytes, no hidden character, no white space at either end.
fn check_id(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { what, max: MAX_ID_BYTES });
    }
    let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
    for (at, c) in text.char_indices() {
        if is_hidden(c) || (c.is_whitespace() && (c != ' ' || at == 0 || at == last)) {
            return Err(IdError::Character { what, at });
        }
    }
    Ok(())
}

/// Defines a validated string newtype: private field, one constructor, serde through that constructor.
macro_rules! string_newtype {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Reads and checks one.
            ///
            /// # Errors
            /// [`IdError`](crate::IdError) when the text is outside the grammar.
            pub fn new(text: &str) -> Result<Self, $crate::IdError> {
                $check($what, text)?;
                Ok(Self(text.into()))
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
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use string_newtype;

string_newtype!(
    /// Names an agent, as the operator's registry knows it. 1 to 256 bytes, nothing hidden.
    AgentId, "agent id", check_id);
string_newtype!(
    /// Names one session of an agent. 1 to 256 bytes, nothing hidden.
    SessionId, "session id", check_id);
string_newtype!(
    /// Names one tool call; an approval token binds it. Never the id of a JSON-RPC request. 1 to 256 bytes.
    CallId, "call id", check_id);
string_newtype!(
    /// Names one request as the host correlates it. 1 to 256 bytes, nothing hidden.
    RequestId, "request id", check_id);
string_newtype!(
    /// Names the user on whose behalf a call is made; the host says who, never the agent. 1 to 256 bytes.
    Principal, "principal", check_id);
string_newtype!(
    /// Names one run of a workflow; per-run keys are derived from it. 1 to 256 bytes, nothing hidden.
    RunId, "run id", check_id);
string_newtype!(
    /// Names one store of spent tickets; a store that is made anew has another. 1 to 256 bytes, nothing hidden.
    StoreId, "store id", check_id);
string_newtype!(
    /// Names one approval token; the approver's side chooses it. 1 to 256 bytes, nothing hidden.
    TokenId, "token id", check_id);
string_newtype!(
    /// Names a key in a keyring. It picks a key and never makes one. 1 to 256 bytes, nothing hidden.
    KeyId, "key id", check_id);
string_newtype!(
    /// Names the gate that a token is meant for. 1 to 256 bytes, nothing hidden.
    Audience, "audience", check_id);
string_newtype!(
    /// Names a person or system that registers or approves. 1 to 256 bytes, nothing hidden.
    OperatorId, "operator id", check_id);
string_newtype!(
    /// Names a kind of output that an agent can return. 1 to 256 bytes, nothing hidden.
    OutputTag, "output tag", check_id);
