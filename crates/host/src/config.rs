//! The configuration of a session: one struct, whether it comes from a file or from options.

use std::collections::BTreeMap;
use std::path::PathBuf;

use countersign_committed_plan::OnBreach;
use countersign_core::{
    AgentId, Audience, Digest, Millis, Principal, RunId, ServerName, SessionId, Timestamp, ToolId,
};

use crate::plans::Rule;
use crate::proposals::ProposalPlan;
use crate::record::RecordPlan;
use crate::signals::SignalsPlan;

/// Default limit on the age of a registry, in words: the default lifetime of `registry sign`.
pub const DEFAULT_MAX_AGE: &str = "30d";

pub(crate) const DEFAULT_AGE: Millis = Millis::from_secs(30 * 24 * 60 * 60);

/// Settings of a session. [`prepare`](Self::prepare) reads and checks what they name.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The signed registry.
    pub registry: PathBuf,
    /// The trust root.
    pub trust_root: PathBuf,
    /// File with the highest registry ever accepted; without it, the mark is remembered only in this process.
    pub state: Option<PathBuf>,
    /// Largest age of the registry.
    pub max_age: Millis,
    /// Id of the session.
    pub session: SessionId,
    /// The agent that makes the calls.
    pub agent: AgentId,
    /// On whose behalf the calls are made.
    pub principal: Principal,
    /// Length of the session; without it, as long as the registry allows.
    pub ttl: Option<Millis>,
    /// Names of tools, `name` or `server:name`; without them, all listed tools of the agent.
    pub tools: Option<Vec<String>>,
    /// Server of a tool that is named without one and that several servers have.
    pub server: Option<ServerName>,
    /// The goal to pin.
    pub goal: Option<String>,
    /// Settings of approvals; without them, no call can be approved.
    pub approvals: Option<ApprovalConfig>,
    /// Settings of action proposals; without them, proposals are ignored.
    pub proposals: Option<ProposalPlan>,
    /// Settings of the record; without them, no record outlives the process.
    pub record: Option<RecordPlan>,
    /// Current definitions of the servers' tools.
    pub definitions: BTreeMap<ToolId, Digest>,
    /// Which calls need a plan.
    pub rule: Rule,
    /// Response to a call that is not the plan's next one.
    pub on_breach: OnBreach,
    /// End of observe mode, if it is on.
    pub observe_until: Option<Timestamp>,
    /// Settings for watching the agent.
    pub signals: SignalsPlan,
}

impl Config {
    /// Makes a configuration with the defaults: no goal, no approvals, no proposals, no record.
    #[must_use]
    pub fn new(
        registry: PathBuf,
        trust_root: PathBuf,
        session: SessionId,
        agent: AgentId,
        principal: Principal,
    ) -> Self {
        Self {
            registry,
            trust_root,
            state: None,
            max_age: DEFAULT_AGE,
            session,
            agent,
            principal,
            ttl: None,
            tools: None,
            server: None,
            goal: None,
            approvals: None,
            proposals: None,
            record: None,
            definitions: BTreeMap::new(),
            rule: Rule::ByTool,
            on_breach: OnBreach::Halt,
            observe_until: None,
            signals: SignalsPlan::default(),
        }
    }
}

/// Settings of approvals.
#[derive(Debug)]
#[non_exhaustive]
pub struct ApprovalConfig {
    /// The gate's HMAC key file.
    pub key: PathBuf,
    /// The run whose key mints approvals.
    pub run: RunId,
    /// This gate's name, which approvals bind.
    pub audience: Audience,
    /// Store of spent tokens and pending approvals.
    pub store: PathBuf,
    /// Whether the store may be created.
    pub making: StoreMaking,
    /// Longest lifetime of a token.
    pub max_lifetime: Millis,
    /// Whether a token may omit optional bindings.
    pub bindings: Bindings,
    /// Longest lifetime of a grant; zero if none counts.
    pub max_grant: Millis,
}

impl ApprovalConfig {
    /// Makes settings with the defaults: the store may be created, tokens live for an hour at most, all bindings.
    #[must_use]
    pub const fn new(key: PathBuf, run: RunId, audience: Audience, store: PathBuf) -> Self {
        Self {
            key,
            run,
            audience,
            store,
            making: StoreMaking::IfMissing,
            max_lifetime: Millis::from_secs(60 * 60),
            bindings: Bindings::Strict,
            max_grant: Millis::ZERO,
        }
    }
}

/// Whether opening a session may create the store of spent tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum StoreMaking {
    /// It may. Tokens issued before the creation are then refused.
    IfMissing,
    /// It may not: a missing store is an error.
    Never,
}

/// Whether a token may omit optional bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Bindings {
    /// It may: it was minted with the bindings that its approver knew.
    Partial,
    /// It may not.
    Strict,
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_AGE, DEFAULT_MAX_AGE};

    #[test]
    fn default_age_is_the_same_in_words() {
        assert_eq!(DEFAULT_MAX_AGE.parse(), Ok(DEFAULT_AGE));
    }
}
