use std::thread::Thread;

/// Sleeping callers, each until the record of its number is kept; with number 0, until the writer is back.
///
/// A caller that wakes spuriously and is not removed is listed twice once it sleeps again. That costs one more wake.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Vec<(u64, Thread)>);

impl Sleepers {
    pub(crate) fn add(&mut self, seq: u64, thread: Thread) {
        self.0.push((seq, thread));
    }

    /// Removes a caller that woke by itself. Not by number: in a later life another caller may have it.
    pub(crate) fn remove(&mut self, thread: &Thread) {
        self.0.retain(|(_, sleeper)| sleeper.id() != thread.id());
    }

    /// Removes the callers up to a number, and one more that leads the next batch.
    pub(crate) fn wake(&mut self, kept: u64) -> Vec<Thread> {
        let mut next = true;
        let told = |(seq, _): &mut (u64, Thread)| *seq <= kept || std::mem::take(&mut next);
        self.0.extract_if(.., told).map(|(_, thread)| thread).collect()
    }

    pub(crate) fn wake_all(&mut self) -> Vec<Thread> {
        self.0.drain(..).map(|(_, thread)| thread).collect()
    }
}
