use std::time::Duration;

use crate::{Stopwatch, timed};

/// One operation that can be repeated, with the work around it that does not count.
pub trait Operation {
    /// Makes what the next operations use up.
    fn prepare(&mut self, times: u32) {
        let _ = times;
    }

    /// The operation.
    fn run(&mut self);

    /// Drops what the operation returned.
    fn settle(&mut self) {}

    /// Keeps the operations from meeting the same moment of a period, such as only even leaves of a tree.
    fn shift(&mut self) {}
}

/// Performs an operation several times and returns the time that it took without the work around it.
pub fn laps(operation: &mut dyn Operation, times: u32) -> Duration {
    operation.prepare(times);
    let mut watch = Stopwatch::new();
    for at in 0..times {
        watch.lap(|| operation.run());
        operation.settle();
        if at % 2 == 1 {
            operation.shift();
        }
    }
    watch.total()
}

/// Performs an operation several times without a break, and returns the time of all of them. For an operation without work
/// around it: consecutive ones overlap in the processor, which a reading of the clock around each prevents.
pub fn run_on(operation: &mut dyn Operation, times: u32) -> Duration {
    operation.prepare(times);
    timed(times, || operation.run())
}

/// A closure as an operation, without work around it.
pub struct Plain<F>(pub F);

impl<F: FnMut()> Operation for Plain<F> {
    fn run(&mut self) {
        (self.0)();
    }
}

impl<F> std::fmt::Debug for Plain<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plain")
    }
}
