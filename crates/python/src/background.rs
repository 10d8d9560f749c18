//! A thread that records the outcomes of calls which no one finished, so that a garbage collection never waits for a disk.

use std::process;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;

/// Longest wait for the outcomes that are left at the end of the process.
const PATIENCE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

struct Worker {
    process: u32,
    queue: Mutex<Sender<Work>>,
}

static WORKER: OnceLock<Option<Worker>> = OnceLock::new();

fn worker() -> Option<&'static Worker> {
    let start = || {
        let (queue, work) = channel::<Work>();
        let thread = thread::Builder::new().name("countersign".to_owned());
        thread.spawn(move || work.into_iter().for_each(|work| work())).ok()?;
        Some(Worker { process: process::id(), queue: Mutex::new(queue) })
    };
    WORKER.get_or_init(start).as_ref()
}

/// Runs the work on the thread, or at once if the thread cannot be started. In a process that was forked from one with a thread, the work is
/// leaked: it belongs to the parent.
pub(crate) fn later(work: impl FnOnce() + Send + 'static) {
    let Some(worker) = worker() else { return work() };
    if worker.process != process::id() {
        std::mem::forget(work);
        return;
    }
    if let Err(unsent) = worker.queue.lock().send(Box::new(work)) {
        (unsent.0)();
    }
}

/// Waits until the outcomes of all dropped calls are recorded, at most 10 s.
#[pyfunction]
pub(crate) fn settle(py: Python<'_>) {
    let Some(Some(worker)) = WORKER.get() else { return };
    if worker.process != process::id() {
        return;
    }
    let (done, told) = channel();
    let sent = worker.queue.lock().send(Box::new(move || {
        let _ = done.send(());
    }));
    if sent.is_ok() {
        let _ = py.detach(move || told.recv_timeout(PATIENCE));
    }
}
