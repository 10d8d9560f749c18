//! Questions whose answers an asynchronous host waits for.

use std::sync::Arc;

use countersign_approval_token::{PendingApproval, PendingError};
use countersign_core::{CallId, Clock, Timestamp};

use crate::async_gate::{BlockingPool, in_pool};
use crate::call_approvals::{ApproverAnswer, CallApprovals, FiledQuestion};
use crate::rejection::ApprovalRequest;

/// Files the questions of refused calls, and waits for their answers without blocking the caller's thread. Clones share one store.
///
/// An answer decides nothing by itself: the host makes the call again with it, and the gate verifies it.
#[derive(Clone, Debug)]
pub struct PendingQuestions {
    approvals: Arc<CallApprovals>,
    clock: Arc<dyn Clock>,
    pool: Arc<dyn BlockingPool>,
}

impl PendingQuestions {
    /// Looks at the store of `approvals` in `pool`, at the times of `clock`.
    #[must_use]
    pub fn new(approvals: Arc<CallApprovals>, clock: Arc<dyn Clock>, pool: Arc<dyn BlockingPool>) -> Self {
        Self { approvals, clock, pool }
    }

    /// Files the question of a refused call ([`Rejection::approval_request`](crate::Rejection::approval_request)). A denial counts
    /// until the session ends.
    ///
    /// # Errors
    /// [`PendingError`] of the store; [`PendingError::Denied`] if the call was denied before.
    pub async fn ask(&self, request: ApprovalRequest) -> Result<FiledQuestion, PendingError> {
        self.look(move |approvals, now| approvals.ask(&request, request.session_ends(), now)).await
    }

    /// Waits until the question has an answer, and returns it; `None` once it expired, was withdrawn or was used up. Another process
    /// may give the answer, so the store is looked at again after each `pause`, for example
    /// `|| tokio::time::sleep(Duration::from_millis(200))`. A question that needs several answers waits for the last.
    ///
    /// # Errors
    /// [`PendingError`] of the store, and [`PendingError::Unavailable`] if the clock or the pool fails. The question stays open.
    pub async fn wait<P: Future<Output = ()>>(
        &self,
        question: &CallId,
        mut pause: impl FnMut() -> P,
    ) -> Result<Option<ApproverAnswer>, PendingError> {
        loop {
            let id = question.clone();
            match self.look(move |approvals, now| turn(approvals, &id, now)).await? {
                QuestionTurn::Waits => pause().await,
                QuestionTurn::Over(answer) => return Ok(answer),
            }
        }
    }

    async fn look<R: Send + 'static>(
        &self,
        work: impl FnOnce(&CallApprovals, Timestamp) -> Result<R, PendingError> + Send + 'static,
    ) -> Result<R, PendingError> {
        let (approvals, clock) = (Arc::clone(&self.approvals), Arc::clone(&self.clock));
        let looked = in_pool(&self.pool, move || {
            let now = clock.now().map_err(|_| PendingError::Unavailable("clock unavailable".into()))?;
            work(&approvals, now)
        });
        looked.await.unwrap_or_else(|| Err(PendingError::Unavailable("the pool did not run the work".into())))
    }
}

enum QuestionTurn {
    Waits,
    Over(Option<ApproverAnswer>),
}

fn turn(approvals: &CallApprovals, id: &CallId, now: Timestamp) -> Result<QuestionTurn, PendingError> {
    if approvals.is_waiting(id, now)? {
        return Ok(QuestionTurn::Waits);
    }
    let asked = approvals.state(id)?;
    let binding = asked.as_ref().map(|(asked, _): &(PendingApproval, _)| asked.binding());
    binding.map_or(Ok(QuestionTurn::Over(None)), |binding| {
        Ok(QuestionTurn::Over(approvals.answer(binding, now)?))
    })
}
