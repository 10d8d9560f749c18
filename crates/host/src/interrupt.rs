//! Signals that end a verb in order: SIGTERM, SIGINT and SIGHUP, even if they were ignored at the start.

use std::fmt;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::HostError;

/// Time limit for a call in flight after the first signal.
pub const DRAIN: Duration = Duration::from_secs(1);

/// Time after the first signal at which the process ends in any case. why: MCP clients send SIGKILL two seconds after
/// SIGTERM, and then the process could no longer end the server.
#[cfg(unix)]
const LAST: Duration = Duration::from_millis(1_900);

/// The signals that this process received. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    state: Arc<Mutex<ReceivedSignals>>,
}

#[derive(Default)]
struct ReceivedSignals {
    /// The first signal, and the number of signals.
    first: Option<EndSignal>,
    count: u32,
    listeners: Vec<Box<dyn Fn() + Send>>,
    /// Servers to kill if the process cannot end in order.
    groups: Vec<Arc<ProcessGroup>>,
    /// Ends the process.
    last: Option<Box<dyn FnOnce(EndSignal) + Send>>,
}

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSignal {
    number: u8,
    name: &'static str,
}

impl fmt::Debug for ReceivedSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("first", &self.first)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail; by default SIGXFSZ would end the process.
///
/// # Errors
/// `SIGNALS_UNAVAILABLE`.
pub fn outlive_file_limit() -> Result<(), HostError> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default())
        .map_err(|error| HostError::new("SIGNALS_UNAVAILABLE", error.to_string()))?;
    Ok(())
}

impl Interrupt {
    /// Handles the signals from here on, for the rest of the process. `last` ends the process if it has not ended in
    /// order some time after the first signal; the servers are killed then. The next writer continues a log that is
    /// cut off there.
    ///
    /// # Errors
    /// `SIGNALS_UNAVAILABLE`.
    pub fn watch(last: impl FnOnce(EndSignal) + Send + 'static) -> Result<Self, HostError> {
        let interrupt = Self::default();
        interrupt.lock().last = Some(Box::new(last));
        #[cfg(unix)]
        interrupt.listen().map_err(|error| HostError::new("SIGNALS_UNAVAILABLE", error.to_string()))?;
        Ok(interrupt)
    }

    #[cfg(unix)]
    fn listen(&self) -> std::io::Result<()> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let interrupt = self.clone();
        let listen = move || {
            for number in signals.forever() {
                match number {
                    SIGTERM => interrupt.came(EndSignal { number: 15, name: "SIGTERM" }),
                    SIGINT => interrupt.came(EndSignal { number: 2, name: "SIGINT" }),
                    _ => interrupt.came(EndSignal { number: 1, name: "SIGHUP" }),
                }
            }
        };
        std::thread::Builder::new().name("countersign-signals".to_owned()).spawn(listen).map(drop)
    }

    #[cfg(unix)]
    fn came(&self, signal: EndSignal) {
        let mut state = self.lock();
        state.count = state.count.saturating_add(1);
        if state.first.is_none() {
            state.first = Some(signal);
            let interrupt = self.clone();
            let last = move || {
                std::thread::sleep(LAST);
                interrupt.force(signal);
            };
            // Without this thread, the verb ends in order or not at all.
            drop(std::thread::Builder::new().name("countersign-last".to_owned()).spawn(last));
        }
        state.listeners.iter().for_each(|listener| listener());
    }

    /// Kills the servers and ends the process.
    #[cfg(unix)]
    fn force(&self, signal: EndSignal) {
        let mut state = self.lock();
        let (groups, last) = (std::mem::take(&mut state.groups), state.last.take());
        drop(state);
        groups.iter().for_each(|group| group.kill());
        if let Some(last) = last {
            last(signal);
        }
    }

    /// Calls `listener` at each signal, and immediately if one came already. It must not block.
    pub fn on_signal(&self, listener: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        if state.first.is_some() {
            listener();
        }
        state.listeners.push(Box::new(listener));
    }

    /// Adds a group that is killed even if the process cannot end in order.
    pub(crate) fn guard(&self, group: Arc<ProcessGroup>) {
        self.lock().groups.push(group);
    }

    /// Returns the first signal.
    #[must_use]
    pub fn signal(&self) -> Option<EndSignal> {
        self.lock().first
    }

    /// Returns `true` after a second signal.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.lock().count > 1
    }

    /// Returns an error once a signal has come, so that no new work begins.
    ///
    /// # Errors
    /// `INTERRUPTED`.
    pub fn check(&self) -> Result<(), HostError> {
        self.signal().map_or(Ok(()), |signal| Err(signal.into()))
    }

    fn lock(&self) -> MutexGuard<'_, ReceivedSignals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndSignal {
    /// Returns the exit status of a process that this signal ended.
    #[must_use]
    pub const fn status(self) -> u8 {
        128_u8.saturating_add(self.number)
    }
}

impl From<EndSignal> for HostError {
    fn from(signal: EndSignal) -> Self {
        Self::interrupted(format!("ended by {}", signal.name), signal.status())
    }
}

/// The process group of a server.
///
/// INVARIANT: the group is signalled only until its leader is waited for. Until then no other process can have its
/// number.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    #[cfg(unix)]
    leader: Mutex<Option<Pid>>,
}

#[cfg(unix)]
impl ProcessGroup {
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
impl ProcessGroup {
    pub(crate) const fn of(_: &Child) -> Self {
        Self {}
    }
}
