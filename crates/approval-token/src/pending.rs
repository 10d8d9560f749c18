use std::fmt;

use countersign_canonical_json::{Canonical, Limits, read};
use countersign_core::{CallFacts, CallId, Digest, Millis, OperatorId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::denial::{DenialReason, PendingDenial};
use crate::error::PendingError;
use crate::proposal_summary::ProposalSummary;
use crate::token::ApprovalToken;

/// Call that waits for approval: the binding that a token will be minted over, and the arguments in canonical form
/// for a person to read. The constructor checks the arguments against the binding's digest, so the displayed
/// arguments are the approved ones.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WirePending")]
pub struct PendingApproval {
    binding: CallFacts,
    args: String,
    requested: Timestamp,
    expires: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_ends: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<Box<ProposalSummary>>,
}

impl PendingApproval {
    /// Requests approval of a call at `requested`, for as long as `ttl`.
    ///
    /// # Errors
    /// [`PendingError::Args`] if the arguments do not match the binding, [`PendingError::Ttl`] if the time to live is
    /// zero or out of range.
    pub fn new(
        binding: CallFacts,
        args: &Canonical,
        requested: Timestamp,
        ttl: Millis,
    ) -> Result<Self, PendingError> {
        let expires = requested.checked_add(ttl).map_err(|_| PendingError::Ttl)?;
        Self::checked(binding, args, requested, expires)
    }

    /// Sets the end of the session that makes the call. A denial is in force until then; without a session end, until
    /// the question expires.
    #[must_use]
    pub fn session_end(self, at: Timestamp) -> Self {
        Self { session_ends: Some(at), ..self }
    }

    /// Adds the gate's summary of the proposal that came with the call.
    #[must_use]
    pub fn summary(self, summary: ProposalSummary) -> Self {
        Self { proposal: Some(Box::new(summary)), ..self }
    }

    /// Id of the pending call; the token binds it.
    #[must_use]
    pub const fn id(&self) -> &CallId {
        &self.binding.call_id
    }

    /// Binding that a token will be minted over.
    #[must_use]
    pub const fn binding(&self) -> &CallFacts {
        &self.binding
    }

    /// Digest of the asker: the session, or the principal if the call states no session. Stores count pending approvals
    /// per asker. A second agent or principal in one session does not get a second count.
    #[must_use]
    pub fn asker(&self) -> Digest {
        asker_of(&self.binding)
    }

    /// Arguments in canonical form. The agent wrote them: escape them before they reach a terminal or a page.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.args
    }

    /// Gate's summary of the proposal of the first request, if one came.
    #[must_use]
    pub fn proposal(&self) -> Option<&ProposalSummary> {
        self.proposal.as_deref()
    }

    /// Time of the request.
    #[must_use]
    pub const fn requested(&self) -> Timestamp {
        self.requested
    }

    /// Expiry of the question while it is unanswered. An approval has an expiry of its own.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// End of a denial of this question.
    #[must_use]
    pub fn denied_until(&self) -> Timestamp {
        self.session_ends.map_or(self.expires, |end| end.max(self.expires))
    }

    fn checked(
        binding: CallFacts,
        args: &Canonical,
        requested: Timestamp,
        expires: Timestamp,
    ) -> Result<Self, PendingError> {
        if args.digest() != binding.args || args.recipe() != binding.args_recipe {
            return Err(PendingError::Args);
        }
        if expires <= requested {
            return Err(PendingError::Ttl);
        }
        let args = args.as_str().to_owned();
        Ok(Self { binding, args, requested, expires, session_ends: None, proposal: None })
    }
}

/// Omits the argument values.
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
    binding: CallFacts,
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
        let canonical = read(args, wire.binding.args_recipe, &Limits::hard_caps());
        let canonical = canonical.map_err(|_| PendingError::Args)?;
        if canonical.bytes() != args {
            return Err(PendingError::Args);
        }
        let pending = Self::checked(wire.binding, &canonical, wire.requested, wire.expires)?;
        Ok(Self { session_ends: wire.session_ends, proposal: wire.proposal, ..pending })
    }
}

/// State of a pending approval.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PendingState {
    /// Undecided.
    Waiting,
    /// Approved. The token waits for the agent's retry, and may have expired since.
    Approved(ApprovalToken),
    /// Denied.
    Denied,
    /// The call ran under its approval.
    Used,
}

/// Digest of the asker of a call.
pub(crate) fn asker_of(facts: &CallFacts) -> Digest {
    match &facts.session {
        Some(session) => asker_of_session(session),
        None => asker_digest(b"principal", facts.principal.as_str()),
    }
}

/// Digest of a session as asker ([`PendingApproval::asker`]).
#[must_use]
pub fn asker_of_session(session: &SessionId) -> Digest {
    asker_digest(b"session", session.as_str())
}

fn asker_digest(kind: &[u8], id: &str) -> Digest {
    Digest::framed("countersign/asker-1").field(kind).field(id.as_bytes()).finish()
}

/// Silence after which a session counts as ended: 15 seconds.
pub const SESSION_SILENCE: Millis = Millis::from_secs(15);

/// Whether a session can resume after its gateway has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every store has to treat each of them")]
pub enum SessionKind {
    /// The id was made for one run of a gateway.
    Single,
    /// The operator chose the id and may use it again, so its questions stay.
    Named,
}

/// Store of calls that wait for approval, shared by the gate and the approver.
///
/// A store decides nothing: a token taken from it is verified and spent like any other.
///
/// **Lifetime.** A question is open from its request until it is denied, used or expired. Unanswered, it expires at
/// its own expiry. Once approved, it expires with the token left for it ([`ApprovalToken::claimed_expiry`]), sooner
/// or later than its own expiry.
///
/// **Limits.** A store holds at most 1,024 open questions with at most 64 MiB of arguments, plus up to 32 KiB of
/// proposal summary each. At most 64 of them, with at most 4 MiB, may wait for one session ([`PendingApproval::asker`]),
/// so one agent cannot take the room of the others. A question without a session counts under its principal.
///
/// **Denials.** A denial covers the act ([`CallFacts::act`]) and is in force until the session ends
/// ([`PendingApproval::denied_until`]). Until then the same act cannot be requested again, so an agent cannot wear an
/// approver down. Another registry version, definition, goal or session makes another act. A denial occupies one of
/// the session's 64 places while it is in force: after 64 denials an agent that varies its arguments can request
/// nothing more.
///
/// **Sessions.** A gateway reports that its session is alive ([`note_alive`](Self::note_alive)) and that it has ended
/// ([`end_session`](Self::end_session)). A killed session counts as ended after [`SESSION_SILENCE`]. Questions of an
/// ended session take no room, are not listed and cannot be approved. A session that was never reported, or that is
/// [`SessionKind::Named`], does not end.
///
/// **Ids.** An id belongs to one question. After the question is used or has expired, the same act is a new question
/// under a new id, since tokens bind the id. Decisions on the old id do not apply to the new one.
pub trait PendingApprovals: Send + Sync + fmt::Debug {
    /// Requests approval at the time [`PendingApproval::requested`]. Returns the id to approve: the id of an open
    /// question about the same act ([`CallFacts::act`]) if there is one, so that retries do not pile up. A question
    /// whose approval has expired is closed, and the new one is added.
    ///
    /// # Errors
    /// [`PendingError::Denied`] if a denial of the same act is in force, [`PendingError::Full`] if the session or the
    /// store is at its limit, [`PendingError::Conflict`] if the id belongs to another stored question, or
    /// [`PendingError::Unavailable`].
    fn request(&self, pending: &PendingApproval) -> Result<CallId, PendingError>;

    /// Returns a stored question in any state.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn get(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError>;

    /// Lists the unexpired waiting questions of live sessions, oldest first.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError>;

    /// Lists the unexpired waiting questions of ended sessions, oldest first.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn list_ended(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError>;

    /// Returns the beginning of an id by which a person can name the question: four characters, or as many more as it takes
    /// to differ from the ids of all other waiting questions.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn short_id(&self, id: &CallId, now: Timestamp) -> Result<String, PendingError> {
        let waiting = self.list(now)?;
        let others = waiting.iter().map(|other| other.id().as_str()).filter(|other| *other != id.as_str());
        Ok(short_id(id.as_str(), others).to_owned())
    }

    /// Records that a session is alive. An ended session stays ended.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn note_alive(&self, session: &SessionId, kind: SessionKind, now: Timestamp) -> Result<(), PendingError>;

    /// Ends a session and withdraws its waiting questions. A named session does not end.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn end_session(&self, session: &SessionId) -> Result<(), PendingError>;

    /// Returns `true` if the session of a question has ended.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn has_session_ended(&self, pending: &PendingApproval, now: Timestamp) -> Result<bool, PendingError>;

    /// Approves a waiting question: stores its token until the token expires. A token that has expired or states no
    /// expiry is refused, and the question stays unchanged.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`], [`PendingError::Expired`], [`PendingError::SessionEnded`],
    /// [`PendingError::Token`] or [`PendingError::Unavailable`].
    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError>;

    /// Denies the act of a question that waits, has expired, or is approved and unused, in the name of `by`. Other
    /// open questions about the same act are denied with it.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] or [`PendingError::Unavailable`].
    fn deny(&self, id: &CallId, by: &OperatorId) -> Result<(), PendingError> {
        self.deny_because(id, by, None)
    }

    /// Denies like [`deny`](Self::deny), with a reason.
    ///
    /// # Errors
    /// As [`deny`](Self::deny).
    fn deny_because(
        &self,
        id: &CallId,
        by: &OperatorId,
        reason: Option<&DenialReason>,
    ) -> Result<(), PendingError>;

    /// Finds a denial of the same act that is in force.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn find_denied(&self, act: &CallFacts, now: Timestamp) -> Result<Option<PendingDenial>, PendingError>;

    /// Finds the unexpired token stored for the same act, whatever the call id of the retry and the expiry of the
    /// question. The token binds the returned id.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn find_approved(
        &self,
        act: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<(CallId, ApprovalToken)>, PendingError>;

    /// Marks an approved question as used. Also closes one whose token can no longer be used.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] if it is not approved, or [`PendingError::Unavailable`].
    fn mark_used(&self, id: &CallId) -> Result<(), PendingError>;

    /// Removes a waiting question as if it had never been requested. For a caller that could not record its request.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] if it no longer waits, or [`PendingError::Unavailable`].
    fn withdraw(&self, id: &CallId) -> Result<(), PendingError>;
}

/// Fewest characters of a short id.
const MIN_SHORT: usize = 4;

/// Returns the shortest beginning of `id`, of four characters or more, with which no other id begins.
pub fn short_id<'a, 'o>(id: &'a str, others: impl IntoIterator<Item = &'o str>) -> &'a str {
    let common = |other: &str| id.bytes().zip(other.bytes()).take_while(|(mine, its)| mine == its).count();
    let least = others.into_iter().map(|other| common(other).saturating_add(1)).fold(MIN_SHORT, usize::max);
    let end = (least..id.len()).find(|at| id.is_char_boundary(*at));
    end.and_then(|end| id.get(..end)).unwrap_or(id)
}

/// Reads an optional member that is present. `null` is refused: absence has one spelling.
fn present<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
