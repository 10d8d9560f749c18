//! An MCP server as a child process, and its client.

mod client;

pub use client::{CallEnd, Client};

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::Millis;
#[cfg(unix)]
use rustix::process::Signal;

use crate::error::HostError;
use crate::interrupt::{Interrupt, ProcessGroup};

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
pub struct Server {
    child: Child,
    group: Arc<ProcessGroup>,
    interrupt: Interrupt,
}

impl Server {
    /// Starts the server with pipes for its input and output; its standard error is inherited.
    ///
    /// # Errors
    /// `SERVER_START`.
    pub fn start(command: &[OsString], interrupt: &Interrupt) -> Result<Self, HostError> {
        Self::start_within(command, &[], None, interrupt)
    }

    /// Starts the server with further environment variables, in another folder.
    ///
    /// # Errors
    /// `SERVER_START`.
    pub fn start_within(
        command: &[OsString],
        env: &[(String, String)],
        folder: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Self, HostError> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| HostError::usage("the command that starts the server is missing"))?;
        let mut command = Command::new(program);
        // Its own group, so that processes that the server starts can be ended with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let child = command
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| HostError::new("SERVER_START", error.to_string()).about(program.display()))?;
        let group = Arc::new(ProcessGroup::of(&child));
        interrupt.guard(Arc::clone(&group));
        Ok(Self { child, group, interrupt: interrupt.clone() })
    }

    /// Takes the server's pipes, once.
    ///
    /// # Errors
    /// `INTERNAL` the second time.
    pub fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), HostError> {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.ok_or_else(|| HostError::internal("the server has no pipes"))
    }

    /// Takes the server's pipes for a client. Dropping the client closes the server's input.
    ///
    /// # Errors
    /// `INTERNAL` if the pipes were taken before.
    pub fn client(&mut self, wait: Millis) -> Result<Client, HostError> {
        let (to, from) = self.pipes()?;
        Ok(Client::new(to, from, wait, self.interrupt.clone()))
    }

    /// Ends the server, whose input is closed already: it first gets time to end by itself, then SIGTERM and SIGKILL.
    pub fn end(mut self) {
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
