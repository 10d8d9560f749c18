//! Bounds on the work under way.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use axum::http::StatusCode;

use crate::problem::Problem;

/// Requests that are worked on, or wait for a thread.
const WORK: usize = 256;
/// Threads that work on requests.
pub(crate) const THREADS: usize = 64;
/// Large bodies in memory.
const LARGE_BODIES: usize = 16;

/// Slots for work and for large bodies. A request without a slot is refused at once.
#[derive(Debug)]
pub(crate) struct Slots {
    work: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
}

impl Default for Slots {
    fn default() -> Self {
        Self { work: Arc::new(Semaphore::new(WORK)), large_bodies: Arc::new(Semaphore::new(LARGE_BODIES)) }
    }
}

impl Slots {
    pub(crate) fn large_body(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.large_bodies).try_acquire_owned().map_err(|_| Problem::busy())
    }

    /// Runs `work` on a thread where it may block. It is finished even if the peer leaves meanwhile.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let slot = Arc::clone(&self.work).try_acquire_owned().map_err(|_| Problem::busy())?;
        let done = spawn_blocking(move || {
            let _slot = slot;
            work()
        });
        done.await.unwrap_or_else(|_| {
            let text = "the service failed on this request";
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", text))
        })
    }
}
