//! Lines on their way: from posts to a gateway, and from a gateway to responses.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use countersign_mcp::LineSink;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Bytes that may wait for a response to take them, besides the last line.
const ROOM: usize = 8 << 20;
/// Interval of comments on a stream that has nothing to say (MCP 2026-07-28, *Receiving Messages*).
const BEAT: Duration = Duration::from_secs(15);

/// A line for a response.
#[derive(Debug)]
pub(crate) struct ResponseLine {
    pub(crate) text: Vec<u8>,
    /// Id of the event, if the stream can be resumed behind it.
    pub(crate) event: Option<EventId>,
    /// HTTP status, if it is the answer, with which the response ends.
    pub(crate) answers: Option<u16>,
}

/// Id of an event: its stream, and its number in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) number: u64,
}

impl EventId {
    /// Reads the id that a client states (`Last-Event-ID`).
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Sends lines to one response.
#[derive(Debug)]
pub(crate) struct ResponseSender {
    lines: UnboundedSender<ResponseLine>,
    waiting: Arc<AtomicUsize>,
}

/// Receives the lines of one response.
#[derive(Debug)]
pub(crate) struct ResponseLines {
    lines: UnboundedReceiver<ResponseLine>,
    waiting: Arc<AtomicUsize>,
}

pub(crate) fn response_lines() -> (ResponseSender, ResponseLines) {
    let (sender, lines) = unbounded_channel();
    let waiting = Arc::<AtomicUsize>::default();
    (ResponseSender { lines: sender, waiting: Arc::clone(&waiting) }, ResponseLines { lines, waiting })
}

impl ResponseSender {
    /// Sends a line. Returns `false` if the client has left, or reads too slowly.
    pub(crate) fn send(&self, line: ResponseLine) -> bool {
        let before = self.waiting.fetch_add(line.text.len(), Ordering::SeqCst);
        before <= ROOM && self.lines.send(line).is_ok()
    }

    /// Returns whether the client is still there.
    pub(crate) fn is_open(&self) -> bool {
        !self.lines.is_closed()
    }
}

impl ResponseLines {
    pub(crate) async fn next(&mut self) -> Option<ResponseLine> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ResponseLine>> {
        let line = ready!(self.lines.poll_recv(cx));
        if let Some(line) = &line {
            self.waiting.fetch_sub(line.text.len(), Ordering::SeqCst);
        }
        Poll::Ready(line)
    }
}

/// The body of a response as Server-Sent Events. `guard` is dropped with it.
pub(crate) struct ResponseEvents<G> {
    first: Option<ResponseLine>,
    lines: ResponseLines,
    beat: Interval,
    _guard: G,
}

impl<G> ResponseEvents<G> {
    pub(crate) fn new(first: Option<ResponseLine>, lines: ResponseLines, guard: G) -> Self {
        let mut beat = interval(BEAT);
        beat.reset();
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first, lines, beat, _guard: guard }
    }
}

impl<G: Unpin> Body for ResponseEvents<G> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.lines.poll_next(cx),
        };
        let frame = |bytes: Bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        match next {
            Poll::Ready(Some(line)) => frame(event(&line)),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.beat.poll_tick(cx));
                frame(Bytes::from_static(b":\n\n"))
            }
        }
    }
}

/// A line has no line feed, so it is one field. An empty one only tells the client its event's id.
fn event(line: &ResponseLine) -> Bytes {
    let id =
        line.event.map_or_else(String::new, |EventId { stream, number }| format!("id: {stream}-{number}\n"));
    let kind = if line.text.is_empty() { "" } else { "event: message\n" };
    [id.as_bytes(), kind.as_bytes(), b"data: ", &line.text, b"\n\n"].concat().into()
}

/// Lines of posts, as the input of a gateway.
pub(crate) struct PostedLines {
    lines: Receiver<Vec<u8>>,
    line: io::Cursor<Vec<u8>>,
}

impl PostedLines {
    pub(crate) fn new(lines: Receiver<Vec<u8>>) -> Self {
        Self { lines, line: io::Cursor::default() }
    }
}

impl Read for PostedLines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.line.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let Some(mut line) = self.lines.blocking_recv() else { return Ok(0) };
            line.push(b'\n');
            self.line = io::Cursor::new(line);
        }
    }
}

/// The output of a gateway, cut into lines.
pub(crate) struct ReturnedLines<F> {
    line: Vec<u8>,
    deliver: F,
}

impl<F: FnMut(Vec<u8>) -> bool> ReturnedLines<F> {
    /// `deliver` returns `false` once no one takes lines any more.
    pub(crate) const fn new(deliver: F) -> Self {
        Self { line: Vec::new(), deliver }
    }
}

impl<F: FnMut(Vec<u8>) -> bool> Write for ReturnedLines<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        if let Some(first) = parts.next() {
            self.line.extend_from_slice(first);
        }
        for part in parts {
            let line = std::mem::replace(&mut self.line, part.to_vec());
            if !(self.deliver)(line) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: FnMut(Vec<u8>) -> bool + Send> LineSink for ReturnedLines<F> {
    /// A response that is read too slowly loses lines, and no one waits for it.
    fn has_room(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::{EventId, PostedLines, ROOM, ResponseLine, ReturnedLines, event, response_lines};

    #[test]
    fn output_of_a_gateway_is_cut_at_line_feeds() {
        let mut lines = Vec::new();
        let mut output = ReturnedLines::new(|line| {
            lines.push(String::from_utf8(line).unwrap());
            lines.len() < 3
        });
        output.write_all(b"on").unwrap();
        output.write_all(b"e\ntwo\n\n").unwrap_err();
        assert_eq!(lines, ["one", "two", ""]);
    }

    #[test]
    fn posted_lines_end_with_their_senders() {
        let (sender, lines) = tokio::sync::mpsc::channel(2);
        sender.blocking_send(b"one".to_vec()).unwrap();
        sender.blocking_send(b"two".to_vec()).unwrap();
        drop(sender);
        let mut text = String::new();
        PostedLines::new(lines).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn an_event_is_one_field_with_the_id_to_resume_behind() {
        let line = |text: &str, event| ResponseLine { text: text.into(), event, answers: None };
        let id = EventId { stream: 3, number: 14 };
        assert_eq!(event(&line("{}", Some(id))), "id: 3-14\nevent: message\ndata: {}\n\n");
        assert_eq!(event(&line("", Some(id))), "id: 3-14\ndata: \n\n");
        assert_eq!(event(&line("{}", None)), "event: message\ndata: {}\n\n");
        assert_eq!(EventId::read("3-14"), Some(id));
        for wrong in ["", "3", "-", "3-", "3-x", "3-14-1", "3--1", "99999999999999999999-1"] {
            assert_eq!(EventId::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_response_that_no_one_reads_gets_no_more_lines() {
        let (sender, lines) = response_lines();
        let line = || ResponseLine { text: vec![b'x'; ROOM], event: None, answers: None };
        assert!(sender.send(line()) && sender.send(line()));
        assert!(!sender.send(line()), "16 MiB wait");
        drop(lines);
        let (sender, lines) = response_lines();
        drop(lines);
        assert!(!sender.send(line()));
    }
}
