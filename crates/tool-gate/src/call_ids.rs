//! Ids of calls that ran: each runs once in its session.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use countersign_core::{
    CallFacts, CallId, Digest, Millis, SessionId, SpendError, SpentId, SpentTokens, Ticket, Timestamp, ToolId,
};
use countersign_registry::SessionContract;
use parking_lot::Mutex;

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// How long after the end of a contract its ids are kept, so that a session which is renewed late, or opened again by
/// another process, still knows them.
const KEPT_AFTER: Millis = Millis::from_secs(24 * 60 * 60);

/// Number of ids whose first call is remembered. One that is forgotten still runs once.
const REMEMBERED: usize = 1_024;

/// The store of ids that ran, and the calls first seen under ids that have not run.
pub(crate) struct CallIds {
    store: Arc<dyn SpentTokens>,
    first: Mutex<FirstCalls>,
}

/// Tool and arguments first seen under an id, oldest first.
#[derive(Default)]
struct FirstCalls {
    by_id: HashMap<CallId, (ToolId, Digest)>,
    order: VecDeque<CallId>,
}

impl fmt::Debug for CallIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallIds").field("store", &self.store).finish_non_exhaustive()
    }
}

impl CallIds {
    pub(crate) fn new(store: Arc<dyn SpentTokens>) -> Self {
        Self { store, first: Mutex::default() }
    }

    /// Returns `true` if tool and arguments are those first seen under the id.
    fn is_first_call(&self, facts: &CallFacts) -> bool {
        let mut first = self.first.lock();
        if let Some((tool, args)) = first.by_id.get(&facts.call_id) {
            return *tool == facts.tool && *args == facts.args;
        }
        if first.order.len() >= REMEMBERED
            && let Some(oldest) = first.order.pop_front()
        {
            first.by_id.remove(&oldest);
        }
        first.order.push_back(facts.call_id.clone());
        first.by_id.insert(facts.call_id.clone(), (facts.tool.clone(), facts.args));
        true
    }
}

/// One use of a call's id, at a gate that runs each id once or one that does not.
pub(crate) struct IdUse<'a> {
    ids: Option<&'a CallIds>,
    facts: &'a CallFacts,
    call: &'a ToolCall<'a>,
    contract: &'a SessionContract,
    now: Timestamp,
}

impl<'a> IdUse<'a> {
    pub(crate) const fn new(
        ids: Option<&'a CallIds>,
        facts: &'a CallFacts,
        call: &'a ToolCall<'a>,
        contract: &'a SessionContract,
        now: Timestamp,
    ) -> Self {
        Self { ids, facts, call, contract, now }
    }

    /// Before step 7: has the id run, or was another call seen under it? An edited call was approved as such, and may
    /// differ.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Some(ids) = self.ids else { return Ok(()) };
        if self.call.edited_from.is_none() && !ids.is_first_call(self.facts) {
            return Err(reused("another call came under this id before"));
        }
        if self.call.is_again {
            return Ok(());
        }
        ids.store.can_spend(&self.ticket(), self.now).map_err(|error| refusal(&error))
    }

    /// Step 10: notes that the id runs.
    pub(crate) fn spend(&self) -> Result<(), Refusal> {
        let Some(ids) = self.ids else { return Ok(()) };
        match ids.store.spend(&self.ticket(), self.now) {
            Err(SpendError::Spent) if self.call.is_again => Ok(()),
            spent => spent.map_err(|error| refusal(&error)),
        }
    }

    /// A store made after the contract may have taken the place of one that knew the id, and refuses.
    fn ticket(&self) -> Ticket {
        let (session, issued) = (self.contract.session(), self.contract.issued());
        let keep_until = self.contract.expires().saturating_add(KEPT_AFTER);
        Ticket::new(spent_call_id(session, &self.facts.call_id), issued, keep_until)
    }
}

/// Id of a call in the spent set: its id within its session.
pub(crate) fn spent_call_id(session: &SessionId, call_id: &CallId) -> SpentId {
    let fields = [session.as_str().as_bytes(), call_id.as_str().as_bytes()];
    SpentId::new(Digest::of_fields("countersign/call-id-spent-1", fields))
}

fn reused(reason: &'static str) -> Refusal {
    Refusal::new(RejectionCode::CallIdReused, reason)
}

fn refusal(error: &SpendError) -> Refusal {
    let code = match error {
        SpendError::Spent => return reused("a call of this id has run"),
        SpendError::ClockAhead => RejectionCode::StoreClockAhead,
        SpendError::TooNew => RejectionCode::StoreTooNew,
        SpendError::Expired | SpendError::Unavailable(_) | _ => RejectionCode::StoreUnavailable,
    };
    Refusal::new(code, format!("call id: {error}"))
}
