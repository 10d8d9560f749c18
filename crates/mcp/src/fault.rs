use countersign_canonical_json::{JsonError, JsonErrorKind};
use countersign_tool_gate::RejectionCode;

/// Reason that a message is refused or changed. The texts are fixed: none repeats a peer's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The line is not strict JSON. Carries the strict reader's code.
    Json(&'static str),
    /// The line exceeds a limit of the strict reader. Carries the reader's code.
    JsonLimit(&'static str),
    LineTooLong,
    Batch,
    NotAnObject,
    Version,
    Member,
    Method,
    Params,
    Id,
    IdInUse,
    TooMany,
    NotAllowed,
    BadParams,
    UnexpectedAnswer,
    /// A request came without an id.
    NoId,
    ServerEnded,
    /// The request was not sent: the server at its URL cannot be reached.
    ServerUnreachable,
    /// The server at its URL got the request, and its answer is lost.
    ServerNoAnswer,
    /// The gateway was stopped from outside.
    GatewayStopped,
    ServerAnswer,
    ProtocolVersion,
    /// A message came before the session is initialized.
    NotInitialized,
    AlreadyInitialized,
    /// A request of MCP's stateless era.
    ModernEra,
    /// An HTTP header differs from the body.
    HeaderMismatch,
    /// The probe for MCP's stateless era.
    Discover,
    /// The server requests input, or promises a later answer, instead of answering.
    Unfinished,
    /// The state of a retry is unknown: of another session or principal, or changed.
    InputUnknown,
    /// The state of a retry belongs to another request.
    InputOfAnother,
    InputUsed,
    InputExpired,
    /// The client answered a request for input with an error.
    InputRefused,
    /// The task of a request is not one of this session's, or has ended.
    TaskUnknown,
    /// The server promised the result of a call.
    TaskPending,
    ServerNotReading,
    ReservedMeta,
    /// The server's error has a Countersign code.
    ReservedCode,
    /// A message that passes has members that its method does not have. They are cut out.
    UnknownMember,
    DefinitionUnreadable,
    /// The registry pins no instructions for the server.
    InstructionsUnpinned,
    /// The registry pins other instructions.
    InstructionsChanged,
    /// The session has expired.
    SessionEnded,
    /// The session could not be renewed. Carries the cause's code.
    NotRenewed(&'static str),
    PendingStore(&'static str),
    /// The server has a tool with the name of the gateway's own.
    ReservedTool,
    /// The audit log failed.
    Unrecorded,
    Internal,
}

/// Prefix of the strict reader's codes.
const JSON_CODES: &str = "JSON_";

/// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// MCP 2026-07-28, `UnsupportedProtocolVersionError`.
pub(crate) const UNSUPPORTED_VERSION: i32 = -32022;
/// MCP 2026-07-28, `HeaderMismatch`.
pub(crate) const HEADER_MISMATCH: i32 = -32020;
/// Outside of the range that JSON-RPC reserves (-32768 to -32000), in which MCP has codes of its own.
const TOO_MANY_REQUESTS: i32 = 429;

impl Fault {
    /// All faults except those with another crate's code.
    const WITH_CODES: &[Self] = &[
        Self::LineTooLong,
        Self::Batch,
        Self::NotAnObject,
        Self::Version,
        Self::Member,
        Self::Method,
        Self::Params,
        Self::Id,
        Self::IdInUse,
        Self::TooMany,
        Self::NotAllowed,
        Self::BadParams,
        Self::UnexpectedAnswer,
        Self::NoId,
        Self::ServerEnded,
        Self::ServerUnreachable,
        Self::ServerNoAnswer,
        Self::GatewayStopped,
        Self::InstructionsUnpinned,
        Self::InstructionsChanged,
        Self::SessionEnded,
        Self::ServerAnswer,
        Self::ProtocolVersion,
        Self::NotInitialized,
        Self::AlreadyInitialized,
        Self::ModernEra,
        Self::HeaderMismatch,
        Self::Discover,
        Self::Unfinished,
        Self::InputUnknown,
        Self::InputOfAnother,
        Self::InputUsed,
        Self::InputExpired,
        Self::InputRefused,
        Self::TaskUnknown,
        Self::TaskPending,
        Self::ServerNotReading,
        Self::ReservedMeta,
        Self::ReservedCode,
        Self::UnknownMember,
        Self::DefinitionUnreadable,
        Self::ReservedTool,
        Self::Unrecorded,
        Self::Internal,
    ];

    /// The stable code, as in the record and in `error.data`.
    pub(crate) const fn code(self) -> &'static str {
        self.parts().0
    }

    /// The JSON-RPC error code.
    pub(crate) const fn rpc_code(self) -> i32 {
        self.parts().1
    }

    /// Returns whether a text is a code of the gate or the gateway that a peer may see.
    pub(crate) fn is_ours(code: &str) -> bool {
        RejectionCode::from_code(code).is_some()
            || code.starts_with(JSON_CODES)
            || Self::WITH_CODES.iter().any(|fault| fault.code() == code)
    }

    /// A fixed sentence for the peer and the record.
    pub(crate) const fn reason(self) -> &'static str {
        self.parts().2
    }

    /// Returns whether a call with this fault is over a limit rather than malformed.
    pub(crate) const fn is_over_limit(self) -> bool {
        matches!(self, Self::JsonLimit(_) | Self::LineTooLong)
    }

    /// The fault of a line that the strict reader refused.
    pub(crate) const fn of_json(error: &JsonError) -> Self {
        let is_limit =
            matches!(error.kind(), JsonErrorKind::TooDeep | JsonErrorKind::TooWide | JsonErrorKind::TooLarge);
        if is_limit { Self::JsonLimit(error.code()) } else { Self::Json(error.code()) }
    }

    const fn parts(self) -> (&'static str, i32, &'static str) {
        match self {
            Self::Json(code) => (code, PARSE_ERROR, "the message is not strict JSON"),
            Self::JsonLimit(code) => (code, PARSE_ERROR, "the message is over a limit of the strict reader"),
            Self::LineTooLong => ("LINE_TOO_LONG", INVALID_REQUEST, "the line is longer than allowed"),
            Self::Batch => ("BATCH", INVALID_REQUEST, "batches are not allowed"),
            Self::NotAnObject => ("NOT_AN_OBJECT", INVALID_REQUEST, "a message is a JSON object"),
            Self::Version => ("RPC_VERSION", INVALID_REQUEST, "the member jsonrpc must be \"2.0\""),
            Self::Member => {
                ("RPC_MEMBER", INVALID_REQUEST, "the message has members that do not belong together")
            }
            Self::Method => ("RPC_METHOD", INVALID_REQUEST, "the method is not a string"),
            Self::Params => ("RPC_PARAMS", INVALID_PARAMS, "the params are not an object"),
            Self::Id => ("RPC_ID", INVALID_REQUEST, "an id is a short string or a whole number"),
            Self::IdInUse => ("RPC_ID_IN_USE", INVALID_REQUEST, "the id is in use"),
            Self::TooMany => ("TOO_MANY_REQUESTS", TOO_MANY_REQUESTS, "too many requests are outstanding"),
            Self::NotAllowed => {
                ("METHOD_NOT_ALLOWED", METHOD_NOT_FOUND, "the gateway does not allow the method")
            }
            Self::BadParams => ("BAD_PARAMS", INVALID_PARAMS, "the params are not what the method takes"),
            Self::UnexpectedAnswer => {
                ("UNEXPECTED_ANSWER", INVALID_REQUEST, "no such request is outstanding")
            }
            Self::NoId => ("REQUEST_WITHOUT_ID", INVALID_REQUEST, "the method takes an id"),
            Self::ServerEnded => ("SERVER_ENDED", INTERNAL_ERROR, "the server ended"),
            Self::ServerUnreachable => (
                "SERVER_UNREACHABLE",
                INTERNAL_ERROR,
                "the server could not be reached; the request was not sent",
            ),
            Self::ServerNoAnswer => {
                ("SERVER_NO_ANSWER", INTERNAL_ERROR, "the server gave no answer; the request may have run")
            }
            Self::GatewayStopped => ("GATEWAY_STOPPED", INTERNAL_ERROR, "the gateway is ending"),
            Self::ServerAnswer => {
                ("SERVER_ANSWER", INTERNAL_ERROR, "the server's answer could not be passed on")
            }
            Self::ProtocolVersion => (
                "PROTOCOL_VERSION",
                INTERNAL_ERROR,
                "the server chose a protocol version that is not known here",
            ),
            Self::NotInitialized => ("NOT_INITIALIZED", INVALID_REQUEST, "the session is not initialized"),
            Self::AlreadyInitialized => {
                ("ALREADY_INITIALIZED", INVALID_REQUEST, "the session is initialized, or about to be")
            }
            Self::HeaderMismatch => {
                ("HEADER_MISMATCH", HEADER_MISMATCH, "an HTTP header is missing or differs from the body")
            }
            Self::ModernEra => {
                ("PROTOCOL_ERA", UNSUPPORTED_VERSION, "the gateway does not speak this version of MCP")
            }
            Self::Discover => {
                ("PROTOCOL_ERA", METHOD_NOT_FOUND, "the gateway does not speak this version of MCP")
            }
            Self::Unfinished => {
                ("SERVER_ANSWER", INTERNAL_ERROR, "the server asked for input or promised a task")
            }
            Self::InputUnknown => {
                ("INPUT_STATE_UNKNOWN", INVALID_PARAMS, "no request for input of this session has this state")
            }
            Self::InputOfAnother => {
                ("INPUT_STATE_MISMATCH", INVALID_PARAMS, "the state belongs to another request")
            }
            Self::InputUsed => ("INPUT_STATE_USED", INVALID_PARAMS, "the state was used already"),
            Self::InputExpired => ("INPUT_STATE_EXPIRED", INVALID_PARAMS, "the state has expired"),
            Self::InputRefused => (
                "INPUT_REFUSED",
                INTERNAL_ERROR,
                "the client did not give the input that the server asked for",
            ),
            Self::TaskUnknown => {
                ("TASK_UNKNOWN", INVALID_PARAMS, "no call of this session has this task, or it has ended")
            }
            Self::TaskPending => {
                ("TASK_PENDING", INTERNAL_ERROR, "the server promised the result of an accepted call")
            }
            Self::ServerNotReading => {
                ("SERVER_NOT_READING", INTERNAL_ERROR, "the server asks but does not read the answers")
            }
            Self::ReservedMeta => {
                ("RESERVED_META", INTERNAL_ERROR, "the server used the gateway's own metadata names")
            }
            Self::ReservedCode => {
                ("RESERVED_CODE", INTERNAL_ERROR, "the server used one of the gateway's own codes")
            }
            Self::UnknownMember => {
                ("UNKNOWN_MEMBER", INVALID_PARAMS, "members that the method does not have were cut out")
            }
            Self::DefinitionUnreadable => (
                "TOOL_DEFINITION_UNREADABLE",
                INTERNAL_ERROR,
                "a tool's definition could not be read or is ambiguous",
            ),
            Self::InstructionsUnpinned => (
                "INSTRUCTIONS_UNPINNED",
                INTERNAL_ERROR,
                "the server's instructions are dropped: the registry pins none",
            ),
            Self::InstructionsChanged => (
                "INSTRUCTIONS_CHANGED",
                INTERNAL_ERROR,
                "the server's instructions are dropped: the registry pins others",
            ),
            Self::SessionEnded => (
                "SESSION_EXPIRED",
                INTERNAL_ERROR,
                "the session's time is over: every call is refused until the client starts the server again",
            ),
            Self::NotRenewed(code) => (code, INTERNAL_ERROR, "the session could not be renewed"),
            Self::PendingStore(code) => (code, INTERNAL_ERROR, "the store of pending approvals refused"),
            Self::ReservedTool => {
                ("TOOL_NAME_RESERVED", INVALID_PARAMS, "the tool has a name that is the gateway's own")
            }
            Self::Unrecorded => ("AUDIT_UNAVAILABLE", INTERNAL_ERROR, "the record failed"),
            Self::Internal => ("INTERNAL", INTERNAL_ERROR, "internal error"),
        }
    }
}
