//! An MCP server as a child process, and its client.

mod client;

pub(crate) use client::{CallEnd, Client};

use std::ffi::OsString;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
#[cfg(unix)]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::Millis;
#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::internal;

/// Time limit for a server to end after its input was closed.
const LEAVE: Duration = Duration::from_secs(3);
/// Time limit after SIGTERM, and once this process received a signal.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Time limit for the rest of its group after SIGTERM.
#[cfg(unix)]
const LAST_WORDS_OF_REST: Duration = Duration::from_millis(100);
/// Interval at which an end is polled for.
const PAUSE: Duration = Duration::from_millis(10);

/// A server's process. Dropping it ends every process of its group.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Arc<Group>,
    interrupt: Interrupt,
}

/// The process group of a server.
///
/// INVARIANT: the group is signalled only until its leader is waited for. Until then no other process can have its
/// number.
#[derive(Debug)]
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Mutex<Option<Pid>>,
}

impl Server {
    /// Starts the server with pipes for its input and output; its standard error is inherited.
    pub(crate) fn start(command: &[OsString], interrupt: &Interrupt) -> Result<Self, Failure> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Failure::usage("the command that starts the server is missing"))?;
        let mut command = Command::new(program);
        // Its own group, so that processes that the server starts can be ended with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| Failure::new("SERVER_START", error.to_string()).about(program.display()))?;
        let group = Arc::new(Group::of(&child));
        interrupt.guard(Arc::clone(&group));
        Ok(Self { child, group, interrupt: interrupt.clone() })
    }

    /// Takes the server's pipes, once.
    pub(crate) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Failure> {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.ok_or_else(|| internal("the server has no pipes"))
    }

    /// Takes the server's pipes for a client. Dropping the client closes the server's input.
    pub(crate) fn client(&mut self, wait: Millis) -> Result<Client, Failure> {
        let (to, from) = self.pipes()?;
        Ok(Client::new(to, from, wait, self.interrupt.clone()))
    }

    /// Ends the server, whose input is closed already: it first gets time to end by itself, then SIGTERM and SIGKILL.
    pub(crate) fn end(mut self) {
        self.await_end(LEAVE);
    }

    /// Waits for at most `limit` until the server's own process has ended, or for less once a signal came.
    fn await_end(&mut self, limit: Duration) {
        let mut left = limit;
        while !left.is_zero() && !self.has_ended() {
            std::thread::sleep(PAUSE);
            left = left.saturating_sub(PAUSE);
            if self.interrupt.signal().is_some() {
                left = left.min(LAST_WORDS);
            }
        }
    }

    /// Returns `true` if the server's own process has ended. On Unix it is not reaped yet.
    fn has_ended(&mut self) -> bool {
        #[cfg(unix)]
        return self.group.leader_has_ended();
        #[cfg(not(unix))]
        return !matches!(self.child.try_wait(), Ok(None));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            self.group.signal(Signal::TERM);
            self.await_end(LAST_WORDS);
            // why: until the leader is waited for, the system does not report whether other processes are left.
            std::thread::sleep(LAST_WORDS_OF_REST);
            self.group.kill();
            self.group.forget();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        Self { leader: Mutex::new(Some(Pid::from_child(child))) }
    }

    /// Kills every process of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = *self.lock() {
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Returns `true` if the leader has ended, without reaping it.
    fn leader_has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.lock().is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), look), Ok(None)))
    }

    /// Marks the leader as no longer safe to signal: it is waited for next.
    fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(unix))]
impl Group {
    const fn of(_: &Child) -> Self {
        Self {}
    }
}
