//! Server-Sent Events (WHATWG HTML, *Interpreting an event stream*).

use std::time::Duration;

/// A message of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) data: Vec<u8>,
    /// Id behind which the stream can be resumed.
    pub(crate) id: Option<String>,
}

/// Cuts a stream into events.
#[derive(Debug)]
pub(crate) struct EventReader {
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
    is_first_line: bool,
    data: Vec<u8>,
    has_data: bool,
    /// Whether the type of the event is another than `message`.
    is_other: bool,
    id: Option<String>,
    retry: Option<Duration>,
    most: usize,
}

/// An event that is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventTooLong;

impl EventReader {
    /// An event has at most `most` bytes.
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            data: Vec::new(),
            has_data: false,
            is_other: false,
            id: None,
            retry: None,
            most,
        }
    }

    /// Returns the wait that the server asks for before its stream is resumed.
    pub(crate) const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns the id of the last event that had one.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the bytes that are held for an event to come.
    pub(crate) fn held(&self) -> usize {
        self.line.len().saturating_add(self.data.len())
    }

    /// Takes further bytes, and appends the events that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), EventTooLong> {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                Some(_) | None => (part, None),
            };
            let is_second_half =
                std::mem::take(&mut self.after_return) && end == Some(b'\n') && text.is_empty();
            if is_second_half {
                continue;
            }
            if self.held().saturating_add(text.len()) > self.most {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(text);
            if let Some(end) = end {
                self.after_return = end == b'\r';
                let line = std::mem::take(&mut self.line);
                events.extend(self.line(&line));
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Option<Event> {
        let is_first = std::mem::take(&mut self.is_first_line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            return self.event();
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (field, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                // why: a line feed between two fields is whitespace to JSON, and so is a tab. In a string neither is allowed.
                if self.has_data {
                    self.data.push(b'\t');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.is_other = !value.is_empty() && value != b"message",
            b"id" if !value.contains(&0) => self.id = std::str::from_utf8(value).ok().map(ToOwned::to_owned),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        None
    }

    fn event(&mut self) -> Option<Event> {
        let data = std::mem::take(&mut self.data);
        let (has_data, is_other) = (std::mem::take(&mut self.has_data), std::mem::take(&mut self.is_other));
        (has_data && !is_other && !data.is_empty()).then(|| Event { data, id: self.id.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, EventReader, EventTooLong};

    fn events(chunks: &[&str]) -> Vec<(String, Option<String>)> {
        let (mut reader, mut events) = (EventReader::new(64), Vec::new());
        chunks.iter().for_each(|chunk| reader.take(chunk.as_bytes(), &mut events).unwrap());
        events.into_iter().map(|Event { data, id }| (String::from_utf8(data).unwrap(), id)).collect()
    }

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "\u{feff}: note|event: message|id: 7|data: {\"a\":|data:1}||data|id|data: {}||event: other|data: x||"
                .replace('|', end);
            let expected =
                [("{\"a\":\t1}".to_owned(), Some("7".to_owned())), ("{}".to_owned(), Some(String::new()))];
            // The second event has an empty line of data first, so a tab.
            let expected = [expected[0].clone(), ("\t{}".to_owned(), expected[1].1.clone())];
            assert_eq!(events(&[&text]), expected, "{end:?}");
            let each: Vec<String> = text.chars().map(String::from).collect();
            let each: Vec<&str> = each.iter().map(String::as_str).collect();
            assert_eq!(events(&each), expected, "{end:?}, letter by letter");
        }
    }

    #[test]
    fn stream_that_ends_within_an_event_loses_it() {
        assert_eq!(events(&["data: {}\n"]), []);
        assert_eq!(events(&["id: 1\n\n", "data:\n\n"]), [], "an event without data is none");
    }

    #[test]
    fn event_over_the_limit_is_refused() {
        let mut reader = EventReader::new(16);
        let mut events = Vec::new();
        assert_eq!(reader.take(b"data: 12345678\n\ndata: 1", &mut events), Ok(()));
        assert_eq!((events.len(), reader.take(b"2345678901", &mut events)), (1, Err(EventTooLong)));
        let mut reader = EventReader::new(16);
        assert_eq!(reader.take(b"data: 1234567890\ndata: 123", &mut events), Err(EventTooLong));
    }

    #[test]
    fn wait_before_a_resumption_is_read() {
        let mut reader = EventReader::new(64);
        reader.take(b"retry: 1500\nretry: 1x\nid: e1\n\n", &mut Vec::new()).unwrap();
        assert_eq!((reader.retry().unwrap().as_millis(), reader.last_id()), (1_500, Some("e1")));
    }
}
