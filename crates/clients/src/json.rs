//! JSON as clients read it: with comments and trailing commas. Every value knows its bytes.

use std::ops::Range;

use crate::error::ClientFileError;

const MAX_DEPTH: usize = 100;

/// A value and its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonNode {
    pub(crate) at: Range<usize>,
    pub(crate) value: JsonNodeValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonNodeValue {
    Object(Vec<(String, JsonNode)>),
    Array(Vec<JsonNode>),
    Text(String),
    Other,
}

impl JsonNode {
    /// Reads a whole text. A byte order mark at its start is skipped.
    pub(crate) fn read(text: &str) -> Result<Self, ClientFileError> {
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut scanner = Scanner { text, at: start };
        let node = scanner.value(0)?;
        scanner.skip()?;
        if scanner.at == text.len() { Ok(node) } else { Err(scanner.wrong("more behind the value")) }
    }

    pub(crate) fn members(&self) -> &[(String, Self)] {
        if let JsonNodeValue::Object(members) = &self.value { members } else { &[] }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    /// Returns `true` if a member comes twice.
    pub(crate) fn has_twins(&self) -> bool {
        let mut names: Vec<_> = self.members().iter().map(|(name, _)| name).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        names.len() < before
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self.value, JsonNodeValue::Object(_))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let JsonNodeValue::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn elements(&self) -> Option<&[Self]> {
        if let JsonNodeValue::Array(elements) = &self.value { Some(elements) } else { None }
    }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &str) -> ClientFileError {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count().saturating_add(1);
        ClientFileError::Malformed(format!("line {line}: {what}"))
    }

    const fn step(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// Skips whitespace and comments.
    fn skip(&mut self) -> Result<(), ClientFileError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                let len = rest.find(['\n', '\r']).unwrap_or(rest.len());
                self.step(len);
            } else if rest.starts_with("/*") {
                let len = rest.find("*/").ok_or_else(|| self.wrong("a comment without an end"))?;
                self.step(len.saturating_add(2));
            } else if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                self.step(1);
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, ClientFileError> {
        self.skip()?;
        if depth > MAX_DEPTH {
            return Err(self.wrong("nested too deep"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => JsonNodeValue::Object(self.list(b'}', |scanner| {
                if scanner.peek() != Some(b'"') {
                    return Err(scanner.wrong("a member's name expected"));
                }
                let name = scanner.string()?;
                scanner.skip()?;
                if scanner.peek() != Some(b':') {
                    return Err(scanner.wrong("`:` expected"));
                }
                scanner.step(1);
                Ok((name, scanner.value(depth.saturating_add(1))?))
            })?),
            Some(b'[') => {
                JsonNodeValue::Array(self.list(b']', |scanner| scanner.value(depth.saturating_add(1)))?)
            }
            Some(b'"') => JsonNodeValue::Text(self.string()?),
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
                let len = self.rest().bytes().take_while(|byte| is_word(*byte)).count();
                self.step(len);
                JsonNodeValue::Other
            }
            _ => return Err(self.wrong("a value expected")),
        };
        Ok(JsonNode { at: start..self.at, value })
    }

    fn list<T>(
        &mut self,
        end: u8,
        mut one: impl FnMut(&mut Self) -> Result<T, ClientFileError>,
    ) -> Result<Vec<T>, ClientFileError> {
        self.step(1);
        let mut list = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(end) {
                break;
            }
            list.push(one(self)?);
            self.skip()?;
            match self.peek() {
                Some(b',') => self.step(1),
                Some(byte) if byte == end => break,
                _ => return Err(self.wrong("`,` expected")),
            }
        }
        self.step(1);
        Ok(list)
    }

    fn string(&mut self) -> Result<String, ClientFileError> {
        let mut is_escaped = false;
        let quoted = self.rest().bytes().skip(1).take_while(|byte| {
            let goes_on = is_escaped || *byte != b'"';
            is_escaped = *byte == b'\\' && !is_escaped;
            goes_on
        });
        let len = quoted.count().saturating_add(2);
        let token = self.rest().get(..len).ok_or_else(|| self.wrong("a text without an end"))?;
        let text = serde_json::from_str(token).map_err(|_| self.wrong("not a text"))?;
        self.step(len);
        Ok(text)
    }
}
