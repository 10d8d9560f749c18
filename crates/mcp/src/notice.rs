//! Notices to the operator, and what operator and client know of the session's contract.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use countersign_approval_token::PendingApproval;
use countersign_core::{Digest, Timestamp, ToolId};
use countersign_registry::SessionContract;
use countersign_tool_gate::ToolGate;
use parking_lot::Mutex;

/// A notice to the operator that the client does not receive. It is recorded as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayNotice {
    code: &'static str,
    text: String,
}

impl GatewayNotice {
    /// Creates a notice with a stable code.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }
}

countersign_core::coded!(GatewayNotice);

impl std::fmt::Display for GatewayNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Receives the operator's notices.
pub(crate) type Notice = Box<dyn Fn(&GatewayNotice) + Send + Sync>;

/// Receives new questions, each with the beginning of its id.
pub(crate) type QuestionNotice = Box<dyn Fn(&PendingApproval, &str) + Send + Sync>;

/// Negotiates a new contract for the session.
pub(crate) type Renewal = Box<dyn Fn(Timestamp) -> Result<SessionContract, GatewayNotice> + Send + Sync>;

/// Facts of the contract in force that client and operator know.
#[derive(Debug)]
pub(crate) struct AnnouncedContract {
    /// Whether they were notified of its end.
    pub(crate) is_end_announced: bool,
    pub(crate) tools: OfferedTools,
}

/// What all gateways of a session know of its contract.
#[derive(Debug)]
pub(crate) struct ContractNews {
    pub(crate) announced: Mutex<AnnouncedContract>,
    /// The number of renewals that changed the tools.
    pub(crate) changes: AtomicU64,
}

impl ContractNews {
    pub(crate) fn of(gate: &ToolGate) -> Self {
        Self { announced: Mutex::new(AnnouncedContract::of(gate)), changes: AtomicU64::new(0) }
    }
}

/// Tools of a session with their pinned definitions.
pub(crate) type OfferedTools = BTreeMap<ToolId, Option<Digest>>;

impl AnnouncedContract {
    pub(crate) fn of(gate: &ToolGate) -> Self {
        let (contract, view) = (gate.contract(), gate.registry().view());
        let offered =
            |tool: &ToolId| Some((tool.clone(), contract.disclosed(&view, tool)?.entry().definition()));
        Self { is_end_announced: false, tools: contract.tools().iter().filter_map(offered).collect() }
    }
}
