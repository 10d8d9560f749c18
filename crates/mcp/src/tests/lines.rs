use std::io::{self, Read};

use proptest::prelude::*;

use crate::glean::Gleaned;
use crate::line::PeerLines as _;
use crate::line::{LineReader, PeerLine};
use crate::message::RpcId;

/// A stream that is never in memory as a whole: `left` bytes of one line, then the rest.
#[derive(Debug)]
struct Endless {
    left: u64,
    then: &'static [u8],
    asked: usize,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.asked = self.asked.max(out.len());
        if self.left == 0 {
            return self.then.read(out);
        }
        let some = usize::try_from(self.left).unwrap().min(out.len());
        out[..some].fill(b'x');
        self.left -= u64::try_from(some).unwrap();
        Ok(some)
    }
}

fn all(stream: impl Read, limit: usize) -> Vec<Option<Vec<u8>>> {
    let mut reader = LineReader::new(stream, limit);
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut line).unwrap() {
            PeerLine::Whole => lines.push(Some(line.clone())),
            PeerLine::TooLong(_) => lines.push(None),
            PeerLine::End => return lines,
        }
    }
}

#[test]
fn a_line_of_100_mib_is_passed_over_and_never_held() {
    let stream = Endless { left: 100 << 20, then: b"\nnext\n", asked: 0 };
    let mut reader = LineReader::new(stream, 1_000);
    let mut line = Vec::new();
    assert_eq!(reader.next(&mut line).unwrap(), PeerLine::TooLong(Gleaned::default()));
    assert!(line.capacity() <= 64 * 1024, "held {} bytes", line.capacity());
    assert_eq!(reader.next(&mut line).unwrap(), PeerLine::Whole);
    assert_eq!(line, b"next");
}

#[test]
fn line_is_whole_up_to_exactly_the_limit() {
    assert_eq!(all(&b"abc\nabcd\n"[..], 3), [Some(b"abc".to_vec()), None]);
}

#[test]
fn a_last_line_may_lack_its_end() {
    assert_eq!(all(&b"a\nb"[..], 3), [Some(b"a".to_vec()), Some(b"b".to_vec())]);
    assert_eq!(all(&b"a\nlong"[..], 3), [Some(b"a".to_vec()), None]);
    assert_eq!(all(&b""[..], 3), []);
}

#[test]
fn carriage_return_before_a_line_feed_is_stripped() {
    assert_eq!(all(&b"a\r\n\r\n\rb\n"[..], 3), [Some(b"a".to_vec()), Some(vec![]), Some(b"\rb".to_vec())]);
}

#[test]
fn oversized_line_still_yields_its_id() {
    let text = format!("{{\"id\":1,\"result\":\"{}\"}}\n{{\"id\":2}}\n", "x".repeat(200_000));
    for limit in [10, 150_000] {
        let mut reader = LineReader::new(text.as_bytes(), limit);
        let mut line = Vec::new();
        let PeerLine::TooLong(gleaned) = reader.next(&mut line).unwrap() else { panic!("a short line") };
        assert_eq!((gleaned.id, gleaned.is_answer), (Some(RpcId::Number(1)), true));
        assert_eq!(reader.next(&mut line).unwrap(), PeerLine::Whole);
    }
}

proptest! {
    #[test]
    fn lines_equal_a_split_at_line_feeds(
        bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..300),
        limit in 1_usize..20,
    ) {
        let mut expected: Vec<Option<Vec<u8>>> = bytes
            .split(|b| *b == b'\n')
            .map(|line| (line.len() <= limit).then(|| line.strip_suffix(b"\r").unwrap_or(line).to_vec()))
            .collect();
        if bytes.is_empty() || bytes.ends_with(b"\n") {
            expected.pop();
        }
        prop_assert_eq!(all(&bytes[..], limit), expected);
    }
}
