use countersign_tool_gate::InFlight;

use crate::edited::EditNotice;
use crate::era_2025::Page;
use crate::handshake::HandshakeAttempt;
use crate::reads::ReadList;
use crate::tasks::TaskMethod;

/// Purpose of an outstanding request.
#[derive(Debug)]
pub(crate) enum RequestPurpose {
    /// A call that the gate has yet to decide.
    Held,
    /// A call that the server runs, with the notice that a person edited it.
    Call(InFlight, Option<EditNotice>),
    /// A call whose result the server may promise.
    CallOrTask(InFlight, Option<EditNotice>),
    /// A request about a task.
    Task(TaskMethod, String),
    ListTools {
        epoch: u64,
        page: Page,
    },
    /// A list of resources, templates or prompts, of which the client sees those that it can read.
    ListReads(ReadList),
    Initialize(HandshakeAttempt),
    /// The question for the stateless era, in place of the client's `initialize`, and the line with which the server refused
    /// that, if it got it.
    Discover(HandshakeAttempt, Option<Vec<u8>>),
    /// The gateway's own request for the notifications of a server of the stateless era.
    Listen,
    Other,
    /// The gateway's own request for tools.
    Own {
        serial: u64,
        epoch: u64,
    },
}

impl RequestPurpose {
    /// Returns whether the client may cancel the request: only its own, and never `initialize` (MCP 2025-11-25, *Cancellation*).
    pub(crate) const fn may_be_cancelled(&self) -> bool {
        !matches!(self, Self::Own { .. } | Self::Listen | Self::Initialize(_) | Self::Discover(..))
    }
}
