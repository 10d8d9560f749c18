//! The server's lines, as a stream for the gateway.

use std::io::{self, Read};

use countersign_mcp::{LostRequest, LostRequests};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;

/// What came of a post.
#[derive(Debug)]
pub(crate) enum Returned {
    /// A line, and its share of the bytes that may be on their way.
    Line(Vec<u8>, OwnedSemaphorePermit),
    /// A request, by its id as JSON, that the server will not answer.
    Lost(String, LostRequest),
    /// The server has ended the session.
    Ended,
}

/// The server's lines. The stream ends with the session; without a place to report lost requests to, with the first of them.
#[derive(Debug)]
pub struct RemoteOutput {
    returned: Receiver<Returned>,
    line: io::Cursor<Vec<u8>>,
    lost: Option<LostRequests>,
    has_ended: bool,
}

impl RemoteOutput {
    pub(crate) fn new(returned: Receiver<Returned>, lost: Option<LostRequests>) -> Self {
        Self { returned, line: io::Cursor::default(), lost, has_ended: false }
    }
}

impl Read for RemoteOutput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.line.read(into)?;
            if read > 0 || into.is_empty() || self.has_ended {
                return Ok(read);
            }
            match self.returned.blocking_recv() {
                Some(Returned::Line(mut line, _share)) => {
                    line.push(b'\n');
                    self.line = io::Cursor::new(line);
                }
                Some(Returned::Lost(id, how)) => match &self.lost {
                    Some(lost) => lost.report(&id, how),
                    None => self.has_ended = true,
                },
                Some(Returned::Ended) | None => self.has_ended = true,
            }
        }
    }
}
