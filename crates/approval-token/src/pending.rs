use std::fmt;

use countersign_canonical_json::{Canonical, Limits, read};
use countersign_core::{CallId, Millis, OperatorId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::binding::CallBinding;
use crate::denial::{DenialReason, PendingDenial};
use crate::error::PendingError;
use crate::payload::present;
use crate::proposal_summary::ProposalSummary;
use crate::token::ApprovalToken;

/// Holds a call that waits for somebody to approve it: the binding that a token will be minted over and the arguments,
/// in canonical form, that a person is to read. The two belong together by construction, so what is shown is what is
/// approved.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WirePending")]
pub struct PendingApproval {
    binding: CallBinding,
    args: String,
    requested: Timestamp,
    expires: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_ends: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<Box<ProposalSummary>>,
}

impl PendingApproval {
    /// Asks for approval of a call from `requested` on for as long as `ttl`.
    ///
    /// # Errors
    /// [`PendingError::Args`] when the arguments are not those of the binding, [`PendingError::Ttl`] when the time to live
    /// is zero or out of range.
    pub fn new(
        binding: CallBinding,
        args: &Canonical,
        requested: Timestamp,
        ttl: Millis,
    ) -> Result<Self, PendingError> {
        let expires = requested.checked_add(ttl).map_err(|_| PendingError::Ttl)?;
        Self::checked(binding, args, requested, expires)
    }

    /// Says when the session ends that the call is made in. Until then a no to it counts; without it, until the question
    /// lapses.
    #[must_use]
    pub fn with_session_end(self, at: Timestamp) -> Self {
        Self { session_ends: Some(at), ..self }
    }

    /// Adds what the gate found of the proposal that came with the call.
    #[must_use]
    pub fn with_proposal(self, summary: ProposalSummary) -> Self {
        Self { proposal: Some(Box::new(summary)), ..self }
    }

    /// The id under which the call waits; the token binds it.
    #[must_use]
    pub const fn id(&self) -> &CallId {
        self.binding.call_id()
    }

    /// What a token will be minted over.
    #[must_use]
    pub const fn binding(&self) -> &CallBinding {
        &self.binding
    }

    /// The arguments in canonical form. Text of the agent's: escape it before it meets a terminal or a page.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.args
    }

    /// What the gate found of the proposal that came with the call which asked first. None where no proposal came.
    #[must_use]
    pub fn proposal(&self) -> Option<&ProposalSummary> {
        self.proposal.as_deref()
    }

    /// When approval was asked for.
    #[must_use]
    pub const fn requested(&self) -> Timestamp {
        self.requested
    }

    /// When the question lapses if nobody has answered it. An approval has an expiry of its own.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Until when a no to it counts.
    #[must_use]
    pub fn denied_until(&self) -> Timestamp {
        self.session_ends.map_or(self.expires, |end| end.max(self.expires))
    }

    fn checked(
        binding: CallBinding,
        args: &Canonical,
        requested: Timestamp,
        expires: Timestamp,
    ) -> Result<Self, PendingError> {
        if args.digest() != *binding.args() || args.recipe() != binding.args_recipe() {
            return Err(PendingError::Args);
        }
        if expires <= requested {
            return Err(PendingError::Ttl);
        }
        let args = args.as_str().to_owned();
        Ok(Self { binding, args, requested, expires, session_ends: None, proposal: None })
    }
}

/// Without the arguments' values.
impl fmt::Debug for PendingApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingApproval")
            .field("binding", &self.binding)
            .field("requested", &self.requested)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePending {
    binding: CallBinding,
    args: String,
    requested: Timestamp,
    expires: Timestamp,
    #[serde(default, deserialize_with = "present")]
    session_ends: Option<Timestamp>,
    #[serde(default, deserialize_with = "present")]
    proposal: Option<Box<ProposalSummary>>,
}

impl TryFrom<WirePending> for PendingApproval {
    type Error = PendingError;

    fn try_from(wire: WirePending) -> Result<Self, PendingError> {
        let args = wire.args.as_bytes();
        let canonical = read(args, wire.binding.args_recipe(), &Limits::hard_caps());
        let canonical = canonical.map_err(|_| PendingError::Args)?;
        if canonical.bytes() != args {
            return Err(PendingError::Args);
        }
        let pending = Self::checked(wire.binding, &canonical, wire.requested, wire.expires)?;
        Ok(Self { session_ends: wire.session_ends, proposal: wire.proposal, ..pending })
    }
}

/// How far a pending approval has come.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PendingState {
    /// Nobody has decided.
    Waiting,
    /// Somebody approved; the token waits for the agent's retry, and may have expired meanwhile.
    Approved(ApprovalToken),
    /// Somebody said no.
    Denied,
    /// The call ran under its approval.
    Used,
}

/// Time without a sign of life after which a session counts as ended.
pub const SESSION_SILENCE: Millis = Millis::from_secs(15);

/// Whether a session can come back once its gateway has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every store has to treat each of them")]
pub enum SessionKind {
    /// Its id was made for one run of a gateway.
    Single,
    /// The operator named it, and may name it again: its questions stay.
    Named,
}

/// Keeps calls that wait for approval, where the gate and the approver both reach it.
///
/// A store is a letter box and decides nothing: a token that comes out of it is verified and spent like any other.
///
/// A question is open from when it is asked until it is denied or used, or its time is over. That is its own expiry for
/// as long as nobody has answered, and once it is approved the expiry of the token that was left for it
/// ([`ApprovalToken::claimed_expiry`]), sooner or later than its own: an approval lasts as long as it says, however old
/// the question was. A store holds at most 1,024 open questions with at most 64 MiB of
/// arguments, and beside them up to 32 KiB of what came of a proposal. Of those, at most 64 with at most 4 MiB wait for one session ([`CallBinding::asker`]), so that one agent
/// cannot take the room of the others; a question without a session counts under its principal.
///
/// A no is about the act ([`CallBinding::act`]) and counts until the session ends ([`PendingApproval::denied_until`]): the
/// same act is not asked about again before that, so that nobody is asked until they give in. Under another registry
/// version, definition or goal, and in another session, it is another act. A no takes one of the session's 64 places for as
/// long as it counts: an agent that varies its arguments can be told no 64 times, and then asks nothing more.
///
/// A question is of no use once its session has ended. A gateway reports its session's life ([`note_alive`](Self::note_alive)), and
/// its end ([`end_session`](Self::end_session)); one that was killed counts as ended after [`SESSION_SILENCE`]. What waits in an
/// ended session takes no room, is not listed and cannot be approved. A session that was never reported, or that is
/// [`SessionKind::Named`], does not end.
///
/// An id is for one question. Once that was used or has expired, the same act is a new question under a new id,
/// since tokens bind the id: what was said about the old one says nothing about the new one.
pub trait PendingApprovals: Send + Sync + fmt::Debug {
    /// Asks for approval at the moment [`PendingApproval::requested`]. Gives the id under which to approve: that of an
    /// open question about the same act ([`CallBinding::act`]) where there is one, so that retries do not pile up.
    /// Where the approval of one has expired, that question is over, and this one is asked.
    ///
    /// # Errors
    /// [`PendingError::Denied`] when somebody said no to the same act and that counts still, [`PendingError::Full`] when the
    /// session or the store holds as many as it may, [`PendingError::Conflict`] when
    /// the id has been used for another question that is kept, or [`PendingError::Unavailable`].
    fn request(&self, pending: &PendingApproval) -> Result<CallId, PendingError>;

    /// Looks one up, whatever its state, as long as it is kept.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn get(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError>;

    /// Lists those that wait in sessions that have not ended, and have not expired, the oldest first.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError>;

    /// Lists those that wait in sessions that have ended, and have not expired, the oldest first.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn list_ended(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError>;

    /// Notes that a session is alive. One that was ended stays ended.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn note_alive(&self, session: &SessionId, kind: SessionKind, now: Timestamp) -> Result<(), PendingError>;

    /// Ends a session, unless it is named: what waits in it is withdrawn.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn end_session(&self, session: &SessionId) -> Result<(), PendingError>;

    /// Returns `true` if the session of a question has ended.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn has_session_ended(&self, pending: &PendingApproval, now: Timestamp) -> Result<bool, PendingError>;

    /// Leaves a token for one that waits and has not expired, until the token expires. A token that has expired, or does
    /// not say when it will, is not left, and the question stays as it is.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`], [`PendingError::Expired`], [`PendingError::SessionEnded`],
    /// [`PendingError::Token`] or [`PendingError::Unavailable`].
    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError>;

    /// Says no to the act of one that waits, has expired, or is approved and unused, in the name of `by`. Whatever else is
    /// open about the same act is denied with it; the others stay as they are.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] or [`PendingError::Unavailable`].
    fn deny(&self, id: &CallId, by: &OperatorId) -> Result<(), PendingError> {
        self.deny_because(id, by, None)
    }

    /// As [`deny`](Self::deny), for a reason.
    ///
    /// # Errors
    /// As [`deny`](Self::deny).
    fn deny_because(
        &self,
        id: &CallId,
        by: &OperatorId,
        reason: Option<&DenialReason>,
    ) -> Result<(), PendingError>;

    /// Finds the denial of the same act, for as long as it counts.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn find_denied(&self, act: &CallBinding, now: Timestamp) -> Result<Option<PendingDenial>, PendingError>;

    /// Finds the token that was left for the same act and has not expired, whatever call id the retry carries and
    /// whenever the question would have lapsed. The token binds the id that is given beside it.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn find_approved(
        &self,
        act: &CallBinding,
        now: Timestamp,
    ) -> Result<Option<(CallId, ApprovalToken)>, PendingError>;

    /// Notes that an approved one was used, or can never be: the token may have expired on its way.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] when it was not approved, or [`PendingError::Unavailable`].
    fn mark_used(&self, id: &CallId) -> Result<(), PendingError>;

    /// Removes a question that waits, as if it had never been asked: its asker could not record it.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] when it does not wait any more, or [`PendingError::Unavailable`].
    fn withdraw(&self, id: &CallId) -> Result<(), PendingError>;
}
