use std::io::{self, BufRead as _, BufReader, ErrorKind, Read};

use crate::glean::{Gleaned, Gleaner};

/// Size of one read from the operating system, and the most memory that an idle reader keeps.
const CHUNK: usize = 64 * 1024;

/// Result of reading one line from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerLine {
    /// A whole line, without its end. The last line may lack a line feed.
    Whole,
    /// A line above the limit. Its bytes were skipped, except for id and method.
    TooLong(Gleaned),
    /// The stream has ended.
    End,
}

/// Reads lines of bounded length. A line above the limit costs time, never memory.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    stream: BufReader<R>,
    limit: usize,
}

/// Lines of a peer, one after another.
pub(crate) trait PeerLines {
    /// Reads the next line into `line`, which is cleared first. The line feed and a carriage return before it are
    /// dropped.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<PeerLine>;
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(stream: R, limit: usize) -> Self {
        Self { stream: BufReader::with_capacity(CHUNK, stream), limit }
    }
}

impl<R: Read> PeerLines for LineReader<R> {
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<PeerLine> {
        line.clear();
        line.shrink_to(CHUNK);
        let (mut seen, mut too_long) = (false, None::<Gleaner>);
        loop {
            let chunk = match self.stream.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(match (seen, too_long) {
                    (false, _) => PeerLine::End,
                    (true, None) => whole(line),
                    (true, Some(gleaner)) => PeerLine::TooLong(gleaner.finish()),
                });
            }
            seen = true;
            let end = chunk.iter().position(|&b| b == b'\n');
            let part = end.and_then(|at| chunk.get(..at)).unwrap_or(chunk);
            let used = part.len().saturating_add(usize::from(end.is_some()));
            if let Some(gleaner) = &mut too_long {
                gleaner.read(part);
            } else if line.len().saturating_add(part.len()) > self.limit {
                let gleaner = too_long.insert(Gleaner::default());
                gleaner.read(line);
                gleaner.read(part);
                line.clear();
                line.shrink_to(CHUNK);
            } else {
                line.extend_from_slice(part);
            }
            self.stream.consume(used);
            if end.is_some() {
                return Ok(
                    too_long.map_or_else(|| whole(line), |gleaner| PeerLine::TooLong(gleaner.finish()))
                );
            }
        }
    }
}

fn whole(line: &mut Vec<u8>) -> PeerLine {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    PeerLine::Whole
}
