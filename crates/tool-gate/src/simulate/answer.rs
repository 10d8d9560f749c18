use std::fmt;

use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third answer has to break every match")]
pub enum Answer {
    /// It may run.
    Accepted,
    /// It may not.
    Refused(RejectionCode),
}

impl Answer {
    /// `ACCEPTED`, or the code of the refusal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::Refused(code) => code.as_str(),
        }
    }

    pub(super) const fn code(self) -> Option<RejectionCode> {
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

/// What a simulation says of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a fourth has to break every match")]
pub enum Simulated {
    /// The answer would have been the one on record.
    Same(Basis),
    /// It would have been another one.
    Changed {
        /// The answer on record.
        recorded: Answer,
        /// The answer under the other registry.
        now: Answer,
        /// What it rests on.
        basis: Basis,
    },
    /// Nobody can say: this is not on record, and the answer may depend on it.
    Undetermined(Missing),
}

impl Simulated {
    /// That the answer on record stands, whatever comes of deciding again.
    pub(super) const fn as_recorded(self) -> Self {
        match self {
            Self::Same(_) => self,
            Self::Changed { .. } => Self::Same(Basis::Carried(Missing::Host)),
            Self::Undetermined(missing) => Self::Same(Basis::Carried(missing)),
        }
    }
}

/// What a simulated answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an answer either was decided again or was not")]
pub enum Basis {
    /// All that the answer needed is on record, and it was decided again.
    Redecided,
    /// This is not on record, and what came of it then was carried over, since nothing differs that it depends on. Where
    /// several things are missing, one of them.
    Carried(Missing),
}

/// What is not on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// The session's beginning: it is not in the record, or so many sessions were open since that it was dropped.
    Session,
    /// The sessions that led to this one: the record names their agents alone.
    Parent,
    /// The code of the refusal: it is none that this version knows.
    Code,
    /// The call as it was sent, which could not be read.
    Call,
    /// The call itself: the record has the sum of refusals that it is in.
    Sum,
    /// The registry that was in force then: it has to be given too.
    Registry,
    /// Whether the call named its server.
    Server,
    /// The arguments in full.
    Arguments,
    /// What came of an earlier call of the session, which counts for the limits.
    EarlierCall,
    /// Whether the call restated the goal, and which, or until when the goal was pinned.
    Goal,
    /// The plan, and what came with the call to prove its step.
    Plan,
    /// The approval token.
    Approval,
    /// The action proposal, its evidence, or the policy on them.
    Proposal,
    /// What the host's own checks would have said.
    Checks,
    /// What the store of used tickets held.
    Store,
    /// What the host did: a revocation in its process, several calls decided at one time, a fault.
    Host,
}

impl Missing {
    /// The stable text.
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

/// Whether the gates of a record had [checks of their host's own](crate::UserCheck), which are asked last (step 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there were some or there were none")]
pub enum HostChecks {
    /// There may have been. A call that none of them was asked about, or not at this impact, is undetermined.
    #[default]
    Perhaps,
    /// There were none.
    None,
}

/// Where a call's way through the steps ends before the last one.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Refused(RejectionCode),
    Unknown(Missing),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.code)
    }
}

impl From<RejectionCode> for End {
    fn from(code: RejectionCode) -> Self {
        Self::Refused(code)
    }
}
