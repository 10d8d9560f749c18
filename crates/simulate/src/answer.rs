use std::fmt;

use countersign_tool_gate::RejectionCode;
use countersign_tool_gate::rules::Refusal;

/// Answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third answer has to break every match")]
pub enum Answer {
    /// The call may run.
    Accepted,
    /// The call was refused.
    Refused(RejectionCode),
}

impl Answer {
    /// Returns `ACCEPTED`, or the code of the refusal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::Refused(code) => code.as_str(),
        }
    }

    pub(crate) const fn code(self) -> Option<RejectionCode> {
        match self {
            Self::Accepted => None,
            Self::Refused(code) => Some(code),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Result of simulating one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a fourth has to break every match")]
pub enum Simulated {
    /// The answer would have been the recorded one.
    Same(Basis),
    /// The answer would have been another one.
    Changed {
        /// The recorded answer.
        recorded: Answer,
        /// The answer under the other registry.
        now: Answer,
        /// Basis of the simulated answer.
        basis: Basis,
    },
    /// Unknown: this input is not recorded, and the answer may depend on it.
    Undetermined(Missing),
}

impl Simulated {
    /// Keeps the recorded answer, whatever the result of deciding again.
    pub(crate) const fn as_recorded(self) -> Self {
        match self {
            Self::Same(_) => self,
            Self::Changed { .. } => Self::Same(Basis::Carried(Missing::Host)),
            Self::Undetermined(missing) => Self::Same(Basis::Carried(missing)),
        }
    }
}

/// Basis of a simulated answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an answer either was decided again or was not")]
pub enum Basis {
    /// Every input of the answer is recorded, and it was decided again.
    Redecided,
    /// This input is not recorded. Its recorded result was carried over, since nothing that it depends on differs. If
    /// several inputs are missing, this is one of them.
    Carried(Missing),
}

/// An input that is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// The session's beginning: it is not in the record, or was dropped because too many sessions were opened since.
    Session,
    /// The sessions that led to this one: the record names only their agents.
    Parent,
    /// The code of the refusal: this version does not know it.
    Code,
    /// The call as it was sent, which could not be read.
    Call,
    /// The call itself: the record has only the sum of refusals that contains it.
    Sum,
    /// The registry that was in force then: it must be given too.
    Registry,
    /// Whether the call named its server.
    Server,
    /// The arguments in full.
    Arguments,
    /// The answer to an earlier call of the session, which counts for the limits.
    EarlierCall,
    /// Whether the call restated the goal, the restated goal, or the expiry of the pinned goal.
    Goal,
    /// The plan, and the proof of its step that came with the call.
    Plan,
    /// The approval token.
    Approval,
    /// The action proposal, its evidence, or the policy on them.
    Proposal,
    /// The result of the host's own checks.
    Checks,
    /// The content of the store of used tickets.
    Store,
    /// The host's actions: a revocation in its process, concurrent decisions, a fault.
    Host,
}

impl Missing {
    /// Returns the stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Parent => "parent",
            Self::Code => "code",
            Self::Call => "call",
            Self::Sum => "sum",
            Self::Registry => "registry",
            Self::Server => "server",
            Self::Arguments => "arguments",
            Self::EarlierCall => "earlier_call",
            Self::Goal => "goal",
            Self::Plan => "plan",
            Self::Approval => "approval",
            Self::Proposal => "proposal",
            Self::Checks => "checks",
            Self::Store => "store",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the gates of a record had [checks of their host's own](countersign_tool_gate::UserCheck), which run last (step 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there were some or there were none")]
pub enum HostChecks {
    /// They may have had some. A call that did not reach them, or not at this impact, is undetermined.
    #[default]
    Perhaps,
    /// They had no checks.
    None,
}

/// Result of a call that does not pass all steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Refused(RejectionCode),
    Unknown(Missing),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.code())
    }
}

impl From<RejectionCode> for End {
    fn from(code: RejectionCode) -> Self {
        Self::Refused(code)
    }
}
