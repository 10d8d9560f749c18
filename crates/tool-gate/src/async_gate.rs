//! A gate for asynchronous hosts: work that may block runs in a pool of the host.

use std::fmt::Debug;
use std::sync::Arc;

use countersign_audit_log::OutcomeKind;
use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, ImpactClass};
use futures_channel::oneshot;

use crate::accepted::{AcceptedCall, InFlight};
use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::owned_call::OwnedToolCall;
use crate::rejection::{CallError, Rejection};

/// Runs work that may block, on a thread where that is allowed: the place of `spawn_blocking` of the host's runtime.
///
/// The gate's crates start no thread by themselves.
pub trait BlockingPool: Send + Sync + Debug {
    /// Runs `work` once, on another thread, and returns without waiting for it. A pool that is closed drops the work: the call
    /// that waits for it is refused.
    fn run(&self, work: Box<dyn FnOnce() + Send>);
}

/// A gate whose callers never block. No lock that is held over I/O, no store and no sync is waited for on the caller's thread,
/// also not by a dropped future or a dropped call. Clones share one gate.
#[derive(Clone, Debug)]
pub struct AsyncGate {
    gate: ToolGate,
    pool: Arc<dyn BlockingPool>,
}

/// An [`AcceptedCall`] whose further steps run in the pool. If it is dropped, its outcome is recorded there as unknown.
#[derive(Debug)]
#[must_use = "an accepted call that is dropped is recorded as unknown and never runs"]
pub struct AsyncCall {
    facts: CallFacts,
    args: Canonical,
    impact: ImpactClass,
    sequence: u64,
    call: Pooled<AcceptedCall>,
}

/// An [`InFlight`] whose outcome is recorded in the pool. If it is dropped, the outcome is recorded there as unknown.
#[derive(Debug)]
#[must_use = "an outcome that never comes is recorded as unknown"]
pub struct AsyncInFlight(Pooled<InFlight>);

/// A value that is used and dropped in the pool.
#[derive(Debug)]
struct Pooled<T: Send + 'static> {
    value: Option<T>,
    pool: Arc<dyn BlockingPool>,
}

impl AsyncGate {
    /// Lets `pool` do the work of `gate` that may block.
    #[must_use]
    pub fn new(gate: ToolGate, pool: Arc<dyn BlockingPool>) -> Self {
        Self { gate, pool }
    }

    /// Returns the gate, for its parts that do not block.
    #[must_use]
    pub const fn gate(&self) -> &ToolGate {
        &self.gate
    }

    /// Decides about a call, as [`ToolGate::check`] does. If the future is dropped, the call does not run: an acceptance that
    /// comes later is recorded with the outcome unknown.
    ///
    /// # Errors
    /// As [`ToolGate::check`]. `INTERNAL`, without a record, if the pool does not run the work.
    pub async fn check(&self, call: OwnedToolCall) -> Result<AsyncCall, Rejection> {
        let (gate, pool) = (self.gate.clone(), Arc::clone(&self.pool));
        let call_id: Box<str> = call.call_id().into();
        let checked = in_pool(&self.pool, move || {
            gate.check(&call.as_call()).map(|accepted| AsyncCall::new(accepted, pool))
        });
        checked.await.unwrap_or_else(|| Err(Rejection::new(RejectionCode::Internal, &*call_id, None)))
    }

    /// Checks a call and runs it.
    ///
    /// # Errors
    /// [`CallError`]: the call was refused, or the tool failed.
    pub async fn call<T, E, F>(
        &self,
        call: OwnedToolCall,
        tool: impl FnOnce(Canonical) -> F,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.check(call).await?.run(tool).await
    }
}

impl AsyncCall {
    fn new(call: AcceptedCall, pool: Arc<dyn BlockingPool>) -> Self {
        Self {
            facts: call.facts().clone(),
            args: call.args().clone(),
            impact: call.impact(),
            sequence: call.sequence(),
            call: Pooled { value: Some(call), pool },
        }
    }

    /// Returns the facts by which the call was decided.
    #[must_use]
    pub const fn facts(&self) -> &CallFacts {
        &self.facts
    }

    /// Returns the arguments for the tool.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// Returns the impact of the call.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Returns the sequence number of the decision's record.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Runs an asynchronous tool, and records whether it returned or failed. If the future is dropped before it is done, the
    /// outcome is unknown, and the call is not run again.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub async fn run<T, E, F>(self, tool: impl FnOnce(Canonical) -> F) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let (args, in_flight) = self.dispatch().await?;
        let result = tool(args).await;
        in_flight.finish(if result.is_ok() { OutcomeKind::Returned } else { OutcomeKind::Failed }).await;
        result.map_err(CallError::Tool)
    }

    /// Returns the arguments for a tool that the host runs now, and a handle that records the outcome.
    ///
    /// # Errors
    /// As [`AcceptedCall::dispatch`]. `INTERNAL` if the pool does not run the work; the outcome is unknown then.
    pub async fn dispatch(self) -> Result<(Canonical, AsyncInFlight), Rejection> {
        let call_id: Box<str> = self.facts.call_id.as_str().into();
        let pool = Arc::clone(&self.call.pool);
        let dispatched = self.call.then(move |call| {
            let (args, in_flight) = call.dispatch()?;
            Ok((args, AsyncInFlight(Pooled { value: Some(in_flight), pool })))
        });
        dispatched.await.unwrap_or_else(|| Err(Rejection::new(RejectionCode::Internal, &*call_id, None)))
    }
}

impl AsyncInFlight {
    /// Records the outcome.
    pub async fn finish(self, outcome: OutcomeKind) {
        let _ = self.0.then(move |in_flight| in_flight.finish(outcome)).await;
    }
}

impl<T: Send + 'static> Pooled<T> {
    /// Uses the value up in the pool; `None` if the pool does not run the work.
    async fn then<R: Send + 'static>(mut self, work: impl FnOnce(T) -> R + Send + 'static) -> Option<R> {
        let value = self.value.take()?;
        in_pool(&self.pool, move || work(value)).await
    }
}

impl<T: Send + 'static> Drop for Pooled<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.run(Box::new(move || drop(value)));
        }
    }
}

/// Runs the work in the pool and waits for its result. A result that no one waits for any more is dropped in the pool.
pub(crate) async fn in_pool<R: Send + 'static>(
    pool: &Arc<dyn BlockingPool>,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (sender, receiver) = oneshot::channel();
    pool.run(Box::new(move || drop(sender.send(work()))));
    receiver.await.ok()
}
