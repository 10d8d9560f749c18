//! A server at a URL, and the sessions with it.

use std::sync::Arc;
use std::time::Duration;

use countersign_host::error::HostError;
use countersign_host::remote_part::RemotePart;
use countersign_host::report::Reporter;
use countersign_mcp::LostRequests;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::output::{RemoteOutput, Returned};
use crate::remote::Remote;
use crate::session::{PostingSession, RemoteInput};

/// Lines that wait, each way.
const LINES: usize = 8;
/// Time for the server to hear that a session is over.
const GOODBYE: Duration = Duration::from_secs(2);

/// A server at a URL. Its sessions share connections and credential.
#[derive(Debug)]
pub struct RemoteServer {
    remote: Arc<Remote>,
    runtime: Option<Runtime>,
}

/// One session with a server. Dropping it ends it.
#[derive(Debug)]
pub struct RemoteSession {
    session: Arc<PostingSession>,
    driver: AbortHandle,
    runtime: tokio::runtime::Handle,
    pipes: Option<(Sender<Vec<u8>>, Receiver<Returned>)>,
}

impl RemoteServer {
    /// Prepares access to the server at `url`, whose messages have at most `most` bytes. Nothing is sent yet. `reporter` gets a
    /// warning of each request without an answer.
    ///
    /// # Errors
    /// `SERVER_URL`, `SERVER_ADDRESS`, `CONFIG_CONFLICT`, `TLS_FILE`, `TOKEN_FILE`, and files that cannot be read.
    pub fn open(url: &str, part: &RemotePart, most: usize, reporter: &Reporter) -> Result<Self, HostError> {
        let remote = Arc::new(Remote::open(url, part, most, reporter)?);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("countersign-remote")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| HostError::new("SERVER_START", error.to_string()))?;
        Ok(Self { remote, runtime: Some(runtime) })
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `INTERNAL` while the process ends.
    pub fn session(&self) -> Result<RemoteSession, HostError> {
        let runtime = self.runtime.as_ref().ok_or_else(|| HostError::internal("the server was ended"))?;
        let runtime = runtime.handle().clone();
        let session = Arc::new(PostingSession::new(Arc::clone(&self.remote)));
        let (input, lines) = channel(LINES);
        let (out, returned) = channel(LINES);
        let driver = runtime.spawn(Arc::clone(&session).drive(lines, out)).abort_handle();
        Ok(RemoteSession { session, driver, runtime, pipes: Some((input, returned)) })
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl RemoteSession {
    /// Takes the session's streams, once. Without `lost`, the output ends at the first request that the server does not answer.
    ///
    /// # Errors
    /// `INTERNAL` the second time.
    pub fn pipes(&mut self, lost: Option<LostRequests>) -> Result<(RemoteInput, RemoteOutput), HostError> {
        let (input, returned) =
            self.pipes.take().ok_or_else(|| HostError::internal("the server's streams were taken"))?;
        Ok((RemoteInput::new(input), RemoteOutput::new(returned, lost)))
    }

    /// Ends the session: outstanding requests are dropped, and the server hears of it.
    pub fn end(self) {
        self.driver.abort();
        let session = Arc::clone(&self.session);
        let goodbye = self.runtime.spawn(async move { timeout(GOODBYE, session.goodbye()).await });
        while !goodbye.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        self.driver.abort();
        let session = Arc::clone(&self.session);
        self.runtime.spawn(async move { timeout(GOODBYE, session.goodbye()).await });
    }
}
