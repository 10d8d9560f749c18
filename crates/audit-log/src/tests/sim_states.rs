use std::io;
use std::sync::Arc;

use countersign_keys::state_file::{LockWait, StateFileError};
use parking_lot::Mutex;

use super::sim::{Crash, Rng};
use crate::log_state::StateStore;
use crate::{KnownLog, LogKey, LogStateError, LogStates};

/// In-memory state that fails like a file that is replaced by rename: it is always whole, and a power cut can undo the
/// last replacements.
#[derive(Clone, Debug)]
pub(in crate::tests) struct SimStates(Arc<Mutex<World>>);

#[derive(Debug)]
struct World {
    rng: Rng,
    /// Rate of failed updates: one in this many; 0 is never.
    fail: u64,
    now: LogStates,
    /// States that a power cut can restore, the synced one first.
    before: Vec<LogStates>,
}

impl SimStates {
    pub(in crate::tests) fn new(seed: u64) -> Self {
        let (now, before) = (LogStates::default(), Vec::new());
        Self(Arc::new(Mutex::new(World { rng: Rng(seed), fail: 0, now, before })))
    }

    pub(in crate::tests) fn fail(&self, one_in: u64) {
        self.0.lock().fail = one_in;
    }

    pub(in crate::tests) fn crash(&self, crash: Crash) {
        let mut world = self.0.lock();
        let before = std::mem::take(&mut world.before);
        if crash == Crash::Power && !before.is_empty() && world.rng.one_in(2) {
            let taken = usize::try_from(world.rng.below(before.len() as u64)).unwrap();
            world.now = before[taken].clone();
        }
    }

    pub(in crate::tests) fn known(&self, key: &LogKey) -> Option<KnownLog> {
        self.0.lock().now.log(key).unwrap()
    }
}

impl StateStore for SimStates {
    fn name(&self) -> String {
        "sim".to_owned()
    }

    fn read(&self) -> Result<LogStates, LogStateError> {
        Ok(self.0.lock().now.clone())
    }

    fn update(&self, _: LockWait, change: &mut dyn FnMut(&mut LogStates)) -> Result<(), LogStateError> {
        let mut world = self.0.lock();
        let fail = world.fail;
        let failed = || LogStateError::Unavailable(StateFileError::Write(io::Error::from_raw_os_error(5)));
        if world.rng.one_in(fail) {
            return Err(failed());
        }
        let before = world.now.clone();
        world.before.push(before);
        change(&mut world.now);
        // The sync of the folder fails after the rename.
        if world.rng.one_in(fail) {
            return Err(failed());
        }
        world.before.clear();
        Ok(())
    }
}
