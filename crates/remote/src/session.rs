//! One session: lines of the gateway become posts.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use countersign_mcp::{HeaderParams, LineSink, PostedMessage};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::{AbortHandle, JoinSet};

use crate::output::Returned;
use crate::remote::Remote;

/// Notifications and answers that may be on their way at a time.
const MAX_NOTICES: usize = 64;
/// Bytes of the server that may be on their way, besides one message of the greatest length.
const ROOM: usize = 64 << 20;
/// Bytes that one permit stands for.
pub(crate) const SHARE: usize = 1 << 10;
/// Tools whose headers are kept.
const MAX_TOOLS: usize = 4_096;

/// The gateway's lines, as a stream that takes them.
#[derive(Debug)]
pub struct RemoteInput {
    lines: Sender<Vec<u8>>,
    line: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct PostingSession {
    pub(crate) remote: Arc<Remote>,
    pub(crate) handshake: Mutex<HandshakeState>,
    tools: Mutex<BTreeMap<String, HeaderParams>>,
    /// Room for bytes of the server, in permits of [`SHARE`].
    pub(crate) room: Arc<Semaphore>,
}

/// What a session of the handshake era agreed on.
#[derive(Debug, Default)]
pub(crate) struct HandshakeState {
    /// Id that the server gave the session.
    pub(crate) id: Option<HeaderValue>,
    /// Revision, once it is chosen.
    pub(crate) version: Option<HeaderValue>,
}

/// A request that may be outstanding.
struct OpenRequest {
    task: AbortHandle,
    is_stateless: bool,
}

impl RemoteInput {
    pub(crate) const fn new(lines: Sender<Vec<u8>>) -> Self {
        Self { lines, line: Vec::new() }
    }
}

impl Write for RemoteInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        if let Some(first) = parts.next() {
            self.line.extend_from_slice(first);
        }
        for part in parts {
            let line = std::mem::replace(&mut self.line, part.to_vec());
            let sent = match self.lines.try_send(line) {
                // why: a runtime's thread must not wait here. The gateway lets it write only while there is room.
                Err(TrySendError::Full(line)) => self.lines.blocking_send(line).is_ok(),
                sent => sent.is_ok(),
            };
            if !sent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink for RemoteInput {
    fn has_room(&self) -> bool {
        self.lines.capacity() > 0
    }
}

impl PostingSession {
    pub(crate) fn new(remote: Arc<Remote>) -> Self {
        let room = ROOM.saturating_add(remote.most).div_ceil(SHARE).min(Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(room));
        Self { remote, handshake: Mutex::default(), tools: Mutex::default(), room }
    }

    /// Posts lines until they end, and waits for outstanding requests then. Aborting it aborts all of it.
    pub(crate) async fn drive(self: Arc<Self>, mut lines: Receiver<Vec<u8>>, out: Sender<Returned>) {
        let (mut tasks, mut open) = (JoinSet::new(), BTreeMap::<String, OpenRequest>::new());
        let notices = Arc::new(Semaphore::new(MAX_NOTICES));
        while let Some(line) = lines.recv().await {
            while tasks.try_join_next().is_some() {}
            // The gateway writes strict messages, and empty lines at most.
            let Ok(post) = PostedMessage::read(&line, line.len().max(SHARE)) else { continue };
            let (session, out) = (Arc::clone(&self), out.clone());
            if let Some(id) = post.id() {
                open.retain(|_, request| !request.task.is_finished());
                let is_stateless = post.is_stateless();
                let task = tasks.spawn(session.request(post, line.into(), id.clone(), out));
                open.insert(id, OpenRequest { task, is_stateless });
            } else if post.cancels().and_then(|id| open.get(id)).is_some_and(|request| request.is_stateless) {
                // Leaving the response cancels the request (MCP 2026-07-28, *Cancellation*).
                if let Some(request) = post.cancels().and_then(|id| open.remove(id)) {
                    request.task.abort();
                }
            } else if post.is_initialized() {
                // The next request must find the session initialized.
                session.notify(post, line.into()).await;
                tasks.spawn(Arc::clone(&self).listen(out));
            } else if let Ok(permit) = Arc::clone(&notices).acquire_owned().await {
                tasks.spawn(async move {
                    session.notify(post, line.into()).await;
                    drop(permit);
                });
            }
        }
        drop(out);
        while tasks.join_next().await.is_some() {}
    }

    async fn request(self: Arc<Self>, post: PostedMessage, line: Bytes, id: String, out: Sender<Returned>) {
        if let Err(failure) = self.exchange(&post, line, &id, &out).await {
            self.remote.warn(&failure);
            // No one is left to hear of it if this fails.
            let _ = out.send(Returned::Lost(id, failure.how)).await;
        }
    }

    async fn notify(&self, post: PostedMessage, line: Bytes) {
        if let Err(failure) = self.post(&post, line).await {
            self.remote.warn(&failure);
        }
    }

    pub(crate) fn note_tools(&self, tools: Vec<(String, HeaderParams)>) {
        let mut all = self.tools.lock();
        for (tool, params) in tools {
            if all.len() < MAX_TOOLS || all.contains_key(&tool) {
                all.insert(tool, params);
            }
        }
    }

    /// Returns the headers that repeat arguments of the called tool.
    pub(crate) fn params_of(&self, post: &PostedMessage) -> Option<HeaderParams> {
        self.tools.lock().get(post.called_tool()?).cloned()
    }
}
