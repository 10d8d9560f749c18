use std::fmt;

use countersign_canonical_json::{Canonical, Limits, read};
use countersign_core::{Approvers, CallFacts, CallId, Digest, Millis, OperatorId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::denial::{DenialReason, PendingDenial};
use crate::error::PendingError;
use crate::evidence_question::{AttestedProposal, WantedEvidence};
use crate::proposal_summary::ProposalSummary;
use crate::token::ApprovalToken;

/// Call that waits for a person: the binding that a token will be minted over, and the arguments in canonical form
/// for a person to read. It asks for an approval, unless it asks [for an attestation alone](Self::wanting). The constructor checks the arguments against the binding's digest, so the displayed
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
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Box<WantedEvidence>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    evidence_alone: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    takes_grants: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    approvers: Option<Box<Approvers>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<Box<str>>,
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

    /// Sets the persons who may approve the call, and how many of them must.
    #[must_use]
    pub fn approved_by_several(self, approvers: Approvers) -> Self {
        Self { approvers: Some(Box::new(approvers)), ..self }
    }

    /// Persons who may approve the call, and how many of them must; `None` if one approval is enough.
    #[must_use]
    pub fn approvers(&self) -> Option<&Approvers> {
        self.approvers.as_deref()
    }

    /// Asks for an attestation too; `approval` states whether an approval is still asked for.
    #[must_use]
    pub fn wanting(self, evidence: WantedEvidence, approval: bool) -> Self {
        Self { evidence: Some(Box::new(evidence)), evidence_alone: !approval, ..self }
    }

    /// Returns `true` if the call needs an approval.
    #[must_use]
    pub const fn needs_approval(&self) -> bool {
        !self.evidence_alone
    }

    /// Kinds of answers that the question asks for: `approval`, `evidence`, or `approval and evidence`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match (self.needs_approval(), self.evidence.is_some()) {
            (true, true) => "approval and evidence",
            (false, true) => "evidence",
            (_, false) => "approval",
        }
    }

    /// Evidence that the call lacks, if an attestation would help.
    #[must_use]
    pub fn evidence(&self) -> Option<&WantedEvidence> {
        self.evidence.as_deref()
    }

    /// Adds the answers that a later request about the same act asks for. The newest proposal counts, until an
    /// attestation was given.
    #[must_use]
    pub fn merged(&self, later: &Self, is_attested: bool) -> Self {
        let proposed = |it: &Self| it.evidence().is_some_and(|evidence| evidence.proposal_text().is_some());
        // A try without a proposal does not take away the one that came before.
        let is_news = later.evidence.is_some() && (proposed(later) || !proposed(self));
        let evidence = if is_news && !is_attested { &later.evidence } else { &self.evidence };
        Self {
            evidence_alone: self.evidence_alone && later.evidence_alone,
            evidence: evidence.clone(),
            approvers: self.approvers.clone().or_else(|| later.approvers.clone()),
            ..self.clone()
        }
    }

    /// Bytes of arguments and of the proposal, which the limits of a store count.
    #[must_use]
    pub fn size(&self) -> usize {
        let edited = self.edited.as_deref().map_or(0, str::len);
        let proposal = self.evidence.as_deref().map_or(0, WantedEvidence::len);
        self.args.len().saturating_add(proposal).saturating_add(edited)
    }

    /// States that a grant can cover the call.
    #[must_use]
    pub fn grantable(self) -> Self {
        Self { takes_grants: true, ..self }
    }

    /// Returns whether a grant can cover the call.
    #[must_use]
    pub const fn takes_grants(&self) -> bool {
        self.takes_grants
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
        Ok(Self {
            binding,
            args,
            requested,
            expires,
            session_ends: None,
            proposal: None,
            evidence: None,
            evidence_alone: false,
            takes_grants: false,
            approvers: None,
            edited: None,
        })
    }

    pub(crate) fn with_edited(self, edited: Option<Box<str>>) -> Self {
        Self { edited, ..self }
    }

    /// Canonical text of a person's arguments in place of the agent's. Escape it like those.
    #[must_use]
    pub fn edited_text(&self) -> Option<&str> {
        self.edited.as_deref()
    }
}

/// Omits the argument values.
impl fmt::Debug for PendingApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingApproval")
            .field("binding", &self.binding)
            .field("requested", &self.requested)
            .field("expires", &self.expires)
            .field("evidence", &self.evidence)
            .field("evidence_alone", &self.evidence_alone)
            .field("approvers", &self.approvers)
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
    #[serde(default, deserialize_with = "present")]
    evidence: Option<Box<WantedEvidence>>,
    #[serde(default)]
    evidence_alone: bool,
    #[serde(default)]
    takes_grants: bool,
    #[serde(default, deserialize_with = "present")]
    approvers: Option<Box<Approvers>>,
    #[serde(default, deserialize_with = "present")]
    edited: Option<Box<str>>,
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
        if wire.evidence_alone && wire.evidence.is_none() {
            return Err(PendingError::Kind);
        }
        let WirePending { session_ends, proposal, evidence, evidence_alone, takes_grants, .. } = wire;
        let (approvers, edited) = (wire.approvers, wire.edited);
        let pending = Self::checked(wire.binding, &canonical, wire.requested, wire.expires)?;
        let pending =
            Self { session_ends, proposal, evidence, evidence_alone, takes_grants, approvers, ..pending };
        let Some(text) = edited else { return Ok(pending) };
        let args = read(text.as_bytes(), pending.binding.args_recipe, &Limits::hard_caps());
        args.ok().filter(|args| args.bytes() == text.as_bytes()).ok_or(PendingError::Edit)?;
        Ok(pending.with_edited(Some(text)))
    }
}

/// State of a pending approval.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PendingState {
    /// Undecided. A question for an attestation alone stays so until the attestation is used.
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
    Digest::of_fields("countersign/asker-1", [kind, id.as_bytes()])
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
/// **Kinds.** A question asks for an approval, for an attestation, or for both; the limits count all kinds together. Its
/// attestation is stored beside its token, and either may come first. A question waits until it has all its answers.
///
/// **Approvers.** A question may name [approvers](PendingApproval::approvers). It waits until as many of them as it needs have
/// approved, and keeps the token of each. One denial denies it.
///
/// **Limits.** A store holds at most 1,024 open questions with at most 64 MiB of arguments and proposals, plus up to 32
/// KiB of proposal summary and one attested proposal each. At most 64 of them, with at most 4 MiB, may wait for one session ([`PendingApproval::asker`]),
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
    /// whose approval has expired is closed, and the new one is added. If the same act was asked about for another kind of
    /// answer, that question asks for both from now on.
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
    /// expiry is refused, and the question stays unchanged. A question that needs several approvals waits until the last of
    /// them ([`PendingApproval::add_token`]).
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`], [`PendingError::Kind`], [`PendingError::Expired`],
    /// [`PendingError::SessionEnded`], [`PendingError::Token`], [`PendingError::Approver`], [`PendingError::SameApprover`] or
    /// [`PendingError::Unavailable`].
    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError>;

    /// Approves a question with a person's own arguments ([`PendingApproval::edited`]), which are stored with the token in
    /// one step.
    ///
    /// # Errors
    /// As [`approve`](Self::approve); [`PendingError::Edit`] if the question takes none.
    fn approve_edited(
        &self,
        id: &CallId,
        token: &ApprovalToken,
        args: &Canonical,
        now: Timestamp,
    ) -> Result<(), PendingError>;

    /// Returns the tokens left for a question, in the order in which they were given: those of an approved question, or those
    /// that a waiting one has so far.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn approvals(&self, id: &CallId) -> Result<Vec<ApprovalToken>, PendingError>;

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

    /// Closes a waiting question because a grant covers its call.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] if it no longer waits, or [`PendingError::Unavailable`].
    fn cover(&self, id: &CallId) -> Result<(), PendingError>;

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

    /// Stores the attestation that an open question asks for, until it expires.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`], [`PendingError::Kind`], [`PendingError::Expired`],
    /// [`PendingError::SessionEnded`] or [`PendingError::Unavailable`].
    fn attest(&self, id: &CallId, answer: &AttestedProposal, now: Timestamp) -> Result<(), PendingError>;

    /// Returns the attestation that is stored for a question.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn attestation(&self, id: &CallId) -> Result<Option<AttestedProposal>, PendingError>;

    /// Finds the unexpired attestation stored for the same act. It binds the returned id.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn find_attested(
        &self,
        act: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<(CallId, AttestedProposal)>, PendingError>;

    /// Removes an attestation that can no longer be used. A question without an approval is closed with it; an approved one
    /// asks for the attestation again.
    ///
    /// # Errors
    /// [`PendingError::Unknown`] or [`PendingError::Unavailable`].
    fn drop_attestation(&self, id: &CallId) -> Result<(), PendingError>;

    /// Marks a question with an approval, or with the attestation that alone it asks for, as used. Also closes one whose
    /// token can no longer be used.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] if it is not answered, or [`PendingError::Unavailable`].
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
pub(crate) fn present<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
