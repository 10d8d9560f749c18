/// Error of an invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The name of a method is empty, too long, or has a wildcard or another invalid character.
    #[error("invalid method name: 1 to 128 of A-Z a-z 0-9 _ . - / $ expected")]
    Method,
    /// The server has the gateway's own name.
    #[error("server name `countersign` is reserved where the client submits plans")]
    Server,
    /// The name of one of several servers cannot begin the names of its tools.
    #[error("the name of one of several servers has up to 32 characters, no `__`, and no `_` at its end")]
    Prefix,
    /// One of several gateways does not fit the others.
    #[error("one of several gateways {0}")]
    Several(&'static str),
    /// A limit is zero or too large.
    #[error("{what} must be 1 to {max}")]
    Limit {
        /// Name of the limit.
        what: &'static str,
        /// Its maximum.
        max: u64,
    },
}

impl SettingsError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Method => "GATEWAY_METHOD",
            Self::Server => "GATEWAY_SERVER",
            Self::Prefix => "GATEWAY_PREFIX",
            Self::Several(_) => "GATEWAY_SEVERAL",
            Self::Limit { .. } => "GATEWAY_LIMIT",
        }
    }
}

/// Error of a gateway that could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The operating system provided no thread.
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    /// The group has no gateway.
    #[error("a group of gateways is empty")]
    Empty,
    /// The operating system provided no random bytes.
    #[error("random bytes unavailable")]
    Random,
}

impl GatewayError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Thread(_) => "GATEWAY_THREAD",
            Self::Empty => "GATEWAY_EMPTY",
            Self::Random => "RANDOM_UNAVAILABLE",
        }
    }
}

/// Error of the call id source. The call is then refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("no call id can be made")]
#[non_exhaustive]
pub struct CallIdError;

impl CallIdError {
    /// Creates the error.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "CALL_ID_UNAVAILABLE"
    }
}

countersign_core::coded!(SettingsError, GatewayError, CallIdError);
