//! The process group of a server.

use std::process::Child;
#[cfg(unix)]
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The process group of a server.
///
/// INVARIANT: the group is signalled only until its leader is waited for. Until then no other process can have its
/// number.
#[derive(Debug)]
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Mutex<Option<Pid>>,
}

#[cfg(unix)]
impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self { leader: Mutex::new(Some(Pid::from_child(child))) }
    }

    /// Kills every process of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(leader) = *self.lock() {
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Returns `true` if the leader has ended, without reaping it.
    pub(crate) fn leader_has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.lock().is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    /// Marks the leader as no longer safe to signal: it is waited for next.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(unix))]
impl Group {
    pub(crate) const fn of(_: &Child) -> Self {
        Self {}
    }
}
