use countersign_approval_token::{PendingApproval, PendingApprovals as _, PendingError, PendingState};
use countersign_audit_log::AnswerVerdict;
use countersign_core::{Audience, CallFacts, CallId, Timestamp};
use countersign_sqlite::SqliteStore;

use super::context::{QuestionContext, SignedTool, args_of};
use super::shown::state_word;
use crate::config_file::{ApprovalPart, ConfigFile};
use crate::error::HostError;
use crate::escape::shown_id;
use crate::plans::{PlanPart, goal_digest};
use crate::session::open_existing_store;

/// Fewest characters of an id prefix that can name a question.
const MIN_PREFIX: usize = 4;

/// The questions of one configuration's store.
#[derive(Debug)]
pub struct QuestionQueue<'c> {
    pub(super) config: &'c ConfigFile,
    pub(super) approval: &'c ApprovalPart,
    pub(super) store: SqliteStore,
}

impl<'c> QuestionQueue<'c> {
    /// Opens the store of the configuration. Returns `None` if it does not exist: it is made at the first call.
    ///
    /// # Errors
    /// `CONFIG_NO_APPROVALS`, and a store that cannot be opened.
    pub fn open(config: &'c ConfigFile) -> Result<Option<Self>, HostError> {
        let approval = config.approval.as_ref().ok_or_else(|| {
            HostError::new("CONFIG_NO_APPROVALS", "`approval` missing in the configuration")
        })?;
        if !approval.store.exists() {
            return Ok(None);
        }
        let store = open_existing_store(&approval.store)?;
        Ok(Some(Self { config, approval, store }))
    }

    /// The error for an id that no question has.
    #[must_use]
    pub fn unknown() -> HostError {
        HostError::new("PENDING_UNKNOWN", "no pending approval with this id")
    }

    /// Returns the store.
    #[must_use]
    pub const fn store(&self) -> &SqliteStore {
        &self.store
    }

    /// Returns `true` if the configuration's tokens bind this audience. Several configurations can share a store.
    #[must_use]
    pub fn is_of(&self, audience: &Audience) -> bool {
        self.config.audience().is_ok_and(|own| own == *audience)
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &'c ConfigFile {
        self.config
    }

    /// Returns a question in any state.
    ///
    /// # Errors
    /// `PENDING_UNKNOWN`, and a store that fails.
    pub fn get(&self, id: &CallId) -> Result<(PendingApproval, PendingState), HostError> {
        self.store.get(id)?.ok_or_else(Self::unknown)
    }

    /// Returns the state of a question in one word, or `session ended`.
    ///
    /// # Errors
    /// A store that fails.
    pub fn state(
        &self,
        pending: &PendingApproval,
        state: &PendingState,
        now: Timestamp,
    ) -> Result<&'static str, HostError> {
        Ok(match state_word(state, pending, now) {
            "waiting" if self.store.has_session_ended(pending, now)? => "session ended",
            word => word,
        })
    }

    /// Returns the question if it can still have this answer: it waits, or it is approved and unused, and the answer is a denial.
    ///
    /// # Errors
    /// `PENDING_UNKNOWN`, `SESSION_ENDED`, `PENDING_DECIDED`, `PENDING_EXPIRED`, and a store that fails.
    pub fn answerable(
        &self,
        id: &CallId,
        verdict: AnswerVerdict,
        now: Timestamp,
    ) -> Result<PendingApproval, HostError> {
        let (pending, state) = self.get(id)?;
        let is_denial = verdict == AnswerVerdict::Denied;
        if !is_denial && self.store.has_session_ended(&pending, now)? {
            return Err(PendingError::SessionEnded.into());
        }
        let is_open = match state {
            PendingState::Waiting => true,
            // An unused approval can be withdrawn.
            PendingState::Approved(_) => is_denial,
            PendingState::Denied | PendingState::Used | _ => false,
        };
        if !is_open {
            return Err(PendingError::Decided.into());
        }
        if !is_denial && !pending.needs_approval() {
            let text = "the call waits for an attestation, not for an approval: `countersign attest`";
            return Err(HostError::new(PendingError::Kind.code(), text));
        }
        if !is_denial && pending.expires() <= now {
            return Err(PendingError::Expired.into());
        }
        Ok(pending)
    }

    /// Returns `true` if the question asks for an approval that was not given.
    ///
    /// # Errors
    /// `PENDING_UNKNOWN`, and a store that fails.
    pub fn lacks_approval(&self, id: &CallId) -> Result<bool, HostError> {
        let (pending, state) = self.get(id)?;
        Ok(pending.needs_approval() && matches!(state, PendingState::Waiting))
    }

    /// Finds a question by what a person typed: a whole id in any state, or else a unique beginning of four characters or
    /// more. Questions that wait take precedence over closed ones. `unseen` says that the question will be approved without
    /// being shown.
    ///
    /// # Errors
    /// `PENDING_UNKNOWN`, `PENDING_AMBIGUOUS`, and a store that fails.
    pub fn find(&self, typed: &str, unseen: bool, now: Timestamp) -> Result<CallId, HostError> {
        let whole = CallId::new(typed).map_or(Ok(None), |id| self.store.get(&id))?;
        let (waiting, closed) = self.store.ids_beginning_with(typed, now)?;
        if let Some((pending, state)) = whole {
            // why: a client can choose an id that is a prefix of another call's id, and an unseen approval shows the call to
            // no one. A client's id contains no `/`; the ids with a `/` are steps of the plan that the full id names.
            let is_longer = |id: &CallId| {
                id.as_str().strip_prefix(typed).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            };
            let is_unseen = unseen && matches!(state, PendingState::Waiting);
            return if is_unseen && waiting.iter().any(is_longer) {
                Err(ambiguous(&waiting))
            } else {
                Ok(pending.id().clone())
            };
        }
        let found = if waiting.is_empty() { &closed } else { &waiting };
        match found.as_slice() {
            [] => Err(Self::unknown()),
            _ if typed.chars().count() < MIN_PREFIX => Err(Self::unknown()),
            [id] => Ok(id.clone()),
            several => Err(ambiguous(several)),
        }
    }

    /// Returns the goal's text if the configuration's goal has the digest that the question binds.
    #[must_use]
    pub fn goal(&self, binding: &CallFacts) -> Option<String> {
        let (session, bound) = binding.session.as_ref().zip(binding.ask.as_ref())?;
        let goal = self.config.config(session.clone(), &PlanPart::default()).ok()?.goal?;
        (goal_digest(&goal, session).ok()? == *bound).then_some(goal)
    }

    /// Looks up what helps to judge a question. A registry that cannot be read gives no tool: the answer does not depend on it.
    ///
    /// # Errors
    /// A store that fails.
    pub fn context(&self, pending: &PendingApproval) -> Result<QuestionContext, HostError> {
        let binding = pending.binding();
        let before = self.store.last_approved(&binding.tool, &binding.principal)?;
        Ok(QuestionContext {
            goal: self.goal(binding),
            tool: self.signed_tool(binding),
            before: before.and_then(|before| args_of(before.edited_text().unwrap_or(before.args()))),
        })
    }

    fn signed_tool(&self, binding: &CallFacts) -> Option<SignedTool> {
        let registry = self.config.current_registry().ok()?.current();
        let tool = registry.tool(&binding.tool)?.entry();
        (tool.definition() == binding.definition).then(|| SignedTool::of(tool))
    }
}

fn ambiguous(ids: &[CallId]) -> HostError {
    let ids: Vec<_> = ids.iter().map(|id| shown_id(id.as_str())).collect();
    HostError::new("PENDING_AMBIGUOUS", format!("ambiguous id prefix: {}", ids.join(", ")))
}
