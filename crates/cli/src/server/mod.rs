//! An MCP server that this process starts, and a client of it.

mod client;

pub(crate) use client::{CallEnd, Client};

use std::ffi::OsString;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use countersign_core::Millis;

use crate::failure::Failure;
use crate::output::internal;

/// How long a server and what it started may still clean up once they are told to end.
#[cfg(unix)]
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);

/// A server's process. It is ended when this goes, in whatever way that comes about, and with it what it started; a
/// server that ended by itself is taken at its word about what it left behind.
#[derive(Debug)]
pub(crate) struct Server(Child);

impl Server {
    /// Starts the server with pipes for its input and output; what it says on standard error is passed on.
    pub(crate) fn start(command: &[OsString]) -> Result<Self, Failure> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Failure::usage("the command that starts the server is missing"))?;
        let mut command = Command::new(program);
        // A group of its own, so that what the server starts can be ended with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map(Self)
            .map_err(|error| Failure::new("SERVER_START", error.to_string()).about(program.display()))
    }

    /// Takes the server's pipes, once.
    pub(crate) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Failure> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| internal("the server has no pipes"))
    }

    /// Takes the server's pipes for a client. The server's input is closed when the client goes.
    pub(crate) fn client(&mut self, wait: Millis) -> Result<Client, Failure> {
        let (to, from) = self.pipes()?;
        Ok(Client::new(to, from, wait))
    }

    /// Gives the server some time to end by itself, now that its input is closed.
    pub(crate) fn wait(&mut self, millis: u64) {
        for _ in 0..millis.div_euclid(20) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Signals all that the server started, by the system's own tool: the standard library has nothing for groups.
    #[cfg(unix)]
    fn signal_group(&self, signal: &str) {
        let _ = Command::new("/bin/kill")
            .args([signal, "--", &format!("-{}", self.0.id())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        #[cfg(unix)]
        if matches!(self.0.try_wait(), Ok(None)) {
            // Until the leader is waited for, nobody else can have its number, nor the group's.
            self.signal_group("-TERM");
            std::thread::sleep(LAST_WORDS);
            self.signal_group("-KILL");
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
