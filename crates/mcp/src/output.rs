use std::any::Any;
use std::io::{self, Write};
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(unix)]
use std::process::ChildStdin;
use std::time::Duration;

use parking_lot::Mutex;
#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(unix)]
use rustix::fs::{FileType, fstat};

use crate::queue::Queue;

/// Maximum number of bytes that wait for one peer to read them. Beyond that, the sender waits.
const ROOM: usize = 256 * 1024;

/// Maximum length of a line that its sender writes itself. A pipe that reports room takes that many bytes at once
/// (POSIX, `PIPE_BUF` on Linux).
const AT_ONCE: usize = 4_096;

/// Lines to one peer, whole and in order.
///
/// The sender writes a line itself if no other line waits and the peer takes it at once, so that no thread has to be
/// woken. All other lines wait for the writing thread: a thread that reads from a peer never blocks on writing to the
/// same peer.
pub(crate) struct PeerOutput {
    lines: Queue<Vec<u8>>,
    /// Set when the writing thread starts.
    peer: Mutex<Option<Peer>>,
}

struct Peer {
    stream: Box<dyn PeerWriter>,
    is_pipe: bool,
}

/// A stream of lines within the process, such as a channel. The gateway writes to it itself while it has room, and holds a lock
/// meanwhile: a write must not call the gateway.
pub trait LineSink: Write + Send {
    /// Returns whether the next line is taken without waiting. No other thread writes meanwhile.
    fn has_room(&self) -> bool;
}

/// A stream to a peer, for code that chooses it at run time. A `Box<dyn Write>` would do, but hides what it is: the gateway
/// writes to a pipe or a [`LineSink`] itself, and wakes a thread to write to anything else.
///
/// ```
/// use countersign_mcp::PeerStream;
/// # fn stream(server: Option<std::process::ChildStdin>) -> PeerStream {
/// server.map_or_else(|| PeerStream::new(std::io::sink()), PeerStream::new)
/// # }
/// # let _ = stream(None);
/// ```
pub struct PeerStream(StreamKind);

enum StreamKind {
    Bytes(Box<dyn PeerWriter>),
    Lines(Box<dyn LineSink>),
}

impl PeerStream {
    /// Takes a stream.
    #[must_use]
    pub fn new(stream: impl Write + Send + 'static) -> Self {
        Self(StreamKind::Bytes(Box::new(stream)))
    }

    /// Takes a stream of lines.
    #[must_use]
    pub fn of_lines(stream: impl LineSink + 'static) -> Self {
        Self(StreamKind::Lines(Box::new(stream)))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            StreamKind::Bytes(stream) => stream,
            StreamKind::Lines(stream) => stream,
        }
    }
}

impl Write for PeerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

impl std::fmt::Debug for PeerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerStream").finish_non_exhaustive()
    }
}

/// A peer's stream, with its type for [`innermost`].
trait PeerWriter: Write + Send {
    fn as_any(&self) -> &dyn Any;
}

impl<W: Write + Send + 'static> PeerWriter for W {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PeerOutput {
    pub(crate) fn new() -> Self {
        Self { lines: Queue::new(ROOM), peer: Mutex::default() }
    }

    /// Sends one line, as soon as there is room. Returns `false` if the peer accepts no more.
    pub(crate) fn send(&self, line: impl Into<Vec<u8>>) -> bool {
        let mut line = line.into();
        if let Some(turn) = self.lines.turn() {
            let mut peer = self.peer.lock();
            if let Some(peer) = peer.as_mut().filter(|peer| peer.takes_at_once(line.len())) {
                let written = peer.write_line(&mut line);
                drop(turn);
                if written.is_err() {
                    // The writing thread ends, and reports that the peer has stopped reading.
                    self.lines.kill();
                }
                return written.is_ok();
            }
        }
        self.lines.push(line.len(), line)
    }

    /// Returns whether no line waits. [`send`](Self::send) does not wait for room then.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Sends one line without waiting for room, unless `most` lines wait already. Returns whether it was taken. The
    /// caller must ensure that such lines are few and small.
    pub(crate) fn offer(&self, line: impl Into<Vec<u8>>, most: usize) -> bool {
        let line = line.into();
        self.lines.offer(line.len(), line, most).is_ok()
    }

    /// Writes the waiting lines to a peer until the end of the output, or until the peer stops reading.
    pub(crate) fn write_to(&self, peer: impl Write + Send + 'static) {
        self.connect(peer);
        self.write_waiting();
    }

    pub(crate) fn connect(&self, peer: impl Write + Send + 'static) {
        *self.peer.lock() = Some(Peer::new(Box::new(peer)));
    }

    pub(crate) fn write_waiting(&self) {
        while let Some(mut line) = self.lines.take() {
            let mut peer = self.peer.lock();
            if peer.as_mut().is_none_or(|peer| peer.write_line(&mut line).is_err()) {
                break;
            }
        }
        // A pipe ends for its reader once it is dropped.
        *self.peer.lock() = None;
    }

    /// Takes no more lines; those that wait are still written.
    pub(crate) fn close(&self) {
        self.lines.close();
    }

    /// Takes no more lines, and discards those that wait.
    pub(crate) fn kill(&self) {
        self.lines.kill();
    }

    /// Waits until all lines are written, for at most `limit`.
    pub(crate) fn wait_idle(&self, limit: Duration) {
        self.lines.wait_idle(limit);
    }
}

impl Peer {
    fn new(stream: Box<dyn PeerWriter>) -> Self {
        let is_pipe = matches!(innermost((*stream).as_any()), Innermost::Bytes(stream) if is_pipe(stream));
        Self { is_pipe, stream }
    }

    fn write_line(&mut self, line: &mut Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        self.stream.write_all(line)?;
        self.stream.flush()
    }

    /// Returns whether a line of that many bytes can be written without waiting for the reader.
    fn takes_at_once(&self, bytes: usize) -> bool {
        match innermost((*self.stream).as_any()) {
            Innermost::Bytes(stream) => self.is_pipe && bytes < AT_ONCE && has_room(stream),
            Innermost::Lines(stream) => stream.has_room(),
        }
    }
}

/// A peer's stream without the [`PeerStream`]s around it.
enum Innermost<'s> {
    Bytes(&'s dyn Any),
    Lines(&'s dyn LineSink),
}

fn innermost(stream: &dyn Any) -> Innermost<'_> {
    match stream.downcast_ref() {
        Some(PeerStream(StreamKind::Bytes(inner))) => innermost((**inner).as_any()),
        Some(PeerStream(StreamKind::Lines(inner))) => Innermost::Lines(&**inner),
        None => Innermost::Bytes(stream),
    }
}

/// The descriptor of a stream that can be a pipe.
#[cfg(unix)]
fn pipe_of(stream: &dyn Any) -> Option<BorrowedFd<'_>> {
    let stdin = stream.downcast_ref::<ChildStdin>().map(AsFd::as_fd);
    let stdout = stream.downcast_ref::<io::Stdout>().map(AsFd::as_fd);
    stdin.or(stdout).or_else(|| stream.downcast_ref::<io::PipeWriter>().map(AsFd::as_fd))
}

#[cfg(unix)]
fn is_pipe(stream: &dyn Any) -> bool {
    let stat = pipe_of(stream).and_then(|pipe| fstat(pipe).ok());
    stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

#[cfg(unix)]
fn has_room(stream: &dyn Any) -> bool {
    let Some(pipe) = pipe_of(stream) else { return false };
    let mut ready = [PollFd::from_borrowed_fd(pipe, PollFlags::OUT)];
    // A pipe without a reader has room and an error.
    poll(&mut ready, Some(&Timespec::default())).is_ok()
        && ready.iter().all(|pipe| pipe.revents() == PollFlags::OUT)
}

#[cfg(not(unix))]
fn is_pipe(_stream: &dyn Any) -> bool {
    false
}

#[cfg(not(unix))]
fn has_room(_stream: &dyn Any) -> bool {
    false
}
