//! Reads lines of a limited length.

use std::io::{self, BufRead};

/// One line of input, without its line end.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Line {
    /// The whole line.
    Whole(Vec<u8>),
    /// A line longer than the limit, skipped without being stored.
    TooLong,
}

/// Reads the next line and holds at most `max` bytes of it; `None` at the end of the input.
///
/// # Errors
/// An input that cannot be read.
pub fn next_line(input: &mut impl BufRead, max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    let mut begun = false;
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() && !begun {
            return Ok(None);
        }
        begun = true;
        let at_end = buffer.is_empty();
        let part = buffer.split(|byte| *byte == b'\n').next().unwrap_or(buffer);
        let whole = part.len() < buffer.len();
        if too_long || line.len().saturating_add(part.len()) > max {
            too_long = true;
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let used = if whole { part.len().saturating_add(1) } else { part.len() };
        input.consume(used);
        if whole || at_end {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Reads lines of a limited length.

    use std::io::BufReader;

    use super::{Line, next_line};

    fn lines(input: &[u8], max: usize, buffer: usize) -> Vec<Line> {
        let mut input = BufReader::with_capacity(buffer, input);
        std::iter::from_fn(|| next_line(&mut input, max).unwrap()).collect()
    }

    #[test]
    fn lines_come_whole_whatever_the_buffer_is() {
        for buffer in [1, 2, 3, 64] {
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(lines(b"", 4, buffer), []);
            assert_eq!(lines(b"ab\n\ncd", 4, buffer), [whole("ab"), whole(""), whole("cd")]);
            assert_eq!(lines(b"abcd\nabcde\nx\n", 4, buffer), [whole("abcd"), Line::TooLong, whole("x")]);
            assert_eq!(lines(b"abcdefgh", 4, buffer), [Line::TooLong]);
        }
    }
}
