use std::thread::Thread;

/// Callers that sleep, each until the record of its number is kept; for 0, until somebody is done with the writer.
///
/// Whoever wakes for no reason and is not taken out stands here twice once it sleeps again. That costs it one more wake.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Vec<(u64, Thread)>);

impl Sleepers {
    pub(crate) fn add(&mut self, seq: u64, thread: Thread) {
        self.0.push((seq, thread));
    }

    /// Takes out one that woke by itself. Not by its number: in a later life somebody else may have that.
    pub(crate) fn remove(&mut self, thread: &Thread) {
        self.0.retain(|(_, sleeper)| sleeper.id() != thread.id());
    }

    /// Takes out those up to a number, and one more, who sees to the next batch.
    pub(crate) fn wake(&mut self, kept: u64) -> Vec<Thread> {
        let mut next = true;
        let told = |(seq, _): &mut (u64, Thread)| *seq <= kept || std::mem::take(&mut next);
        self.0.extract_if(.., told).map(|(_, thread)| thread).collect()
    }

    pub(crate) fn wake_all(&mut self) -> Vec<Thread> {
        self.0.drain(..).map(|(_, thread)| thread).collect()
    }
}
