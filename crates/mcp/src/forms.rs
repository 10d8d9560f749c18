//! Forms by which the person at the client answers a question (MCP 2025-11-25, *Elicitation*).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_approval_token::{DenialReason, PendingApproval};
use countersign_canonical_json::ValueRef;
use countersign_core::CallId;
use parking_lot::Mutex;

use crate::era_2025;
use crate::message::{Body, RpcId};

/// Maximum number of ended forms whose late answers are known.
const MAX_ENDED: usize = 1_024;

/// Shows questions to the person at the client, and takes the answers. The client is not trusted: it may answer by itself, so such
/// an answer is a confirmation and no proof of a person.
pub trait ClientForms: Send + Sync {
    /// Returns the text of the form; `None` if this question is not asked there.
    fn text(&self, question: &PendingApproval) -> Option<String>;

    /// Answers the question in the store.
    fn answer(&self, question: &PendingApproval, answer: FormAnswer);
}

/// The answer of the person at the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a form asks for one of these")]
pub enum FormAnswer {
    /// The call may run, once.
    Approved,
    /// The call is denied, with the person's reason if there is one.
    Denied(Option<DenialReason>),
}

/// The forms that the client has yet to answer.
#[derive(Default)]
pub(crate) struct OpenForms {
    /// The host's part; `None` if forms are not allowed.
    pub(crate) host: Option<Arc<dyn ClientForms>>,
    /// The client said in its handshake that it shows forms.
    can_show: AtomicBool,
    state: Mutex<FormsState>,
}

#[derive(Default)]
struct FormsState {
    open: Vec<OpenForm>,
    ended: Vec<RpcId>,
}

struct OpenForm {
    id: RpcId,
    question: CallId,
    reply: Option<FormReply>,
}

/// What the client answered to a form.
#[derive(Debug)]
pub(crate) enum FormReply {
    Answer(FormAnswer),
    /// The form was closed without an answer: the question stays open.
    Nothing,
}

impl OpenForms {
    pub(crate) fn new(host: Option<Arc<dyn ClientForms>>) -> Self {
        Self { host, ..Self::default() }
    }

    /// Notes whether the client shows forms, from the params of its `initialize`.
    pub(crate) fn note_client(&self, params: Option<ValueRef<'_>>) {
        self.can_show.store(
            params.and_then(|params| params.get("capabilities")).is_some_and(era_2025::has_forms),
            Ordering::Relaxed,
        );
    }

    /// Keeps the client's answer to a form. Returns `false` if no form has this id.
    pub(crate) fn reply(&self, id: &RpcId, body: Body<'_>) -> bool {
        let mut state = self.state.lock();
        if let Some(form) = state.open.iter_mut().find(|form| form.id == *id) {
            // The first answer counts.
            form.reply.get_or_insert_with(|| FormReply::read(body));
            return true;
        }
        state.ended.contains(id)
    }

    /// Returns the host's part if forms are allowed and the client shows them.
    pub(crate) fn shown_by(&self) -> Option<&dyn ClientForms> {
        self.host.as_deref().filter(|_| self.can_show.load(Ordering::Relaxed))
    }

    /// Opens a form for a question that has none.
    pub(crate) fn open(&self, question: &CallId) -> Option<RpcId> {
        // The server must not be able to send a request under this id before.
        let id =
            RpcId::text(&format!("form-{:016x}{:016x}", getrandom::u64().ok()?, getrandom::u64().ok()?))?;
        let mut state = self.state.lock();
        if state.open.iter().any(|form| form.question == *question) {
            return None;
        }
        state.open.push(OpenForm { id: id.clone(), question: question.clone(), reply: None });
        Some(id)
    }

    /// Takes the answer to a form, once.
    pub(crate) fn take(&self, id: &RpcId) -> Option<FormAnswer> {
        let mut state = self.state.lock();
        let form = state.open.iter_mut().find(|form| form.id == *id)?;
        match std::mem::replace(form.reply.as_mut()?, FormReply::Nothing) {
            FormReply::Answer(answer) => Some(answer),
            FormReply::Nothing => None,
        }
    }

    /// Ends a form. Returns `true` if the client still shows it.
    pub(crate) fn end(&self, id: &RpcId) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.open.iter().position(|form| form.id == *id) else { return false };
        let form = state.open.swap_remove(at);
        if form.reply.is_some() {
            return false;
        }
        if state.ended.len() >= MAX_ENDED {
            state.ended.remove(0);
        }
        state.ended.push(form.id);
        true
    }
}

impl FormReply {
    fn read(body: Body<'_>) -> Self {
        match body {
            Body::Result(result) => Self::of_result(result),
            Body::Error => Self::Nothing,
        }
    }

    pub(crate) fn of_result(result: ValueRef<'_>) -> Self {
        let content = result.get("content");
        let denied = || {
            let reason = content.and_then(|content| content.get("reason")?.as_str());
            Self::Answer(FormAnswer::Denied(reason.and_then(|reason| DenialReason::new(reason).ok())))
        };
        match result.get("action").and_then(ValueRef::as_str) {
            Some("decline") => denied(),
            Some("accept") => match content.and_then(|content| content.get("approve")?.as_bool()) {
                Some(true) => Self::Answer(FormAnswer::Approved),
                Some(false) => denied(),
                None => Self::Nothing,
            },
            Some(_) | None => Self::Nothing,
        }
    }
}
