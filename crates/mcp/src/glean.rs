//! Id and method of a line that cannot be read as a message, because it is too long or not strict JSON. They serve only to
//! refuse under the right id and to count a call as a call; nothing that is read here is ever forwarded.

use countersign_canonical_json::{Limits, Recipe, ValueRef, read};

use crate::message::RpcId;

/// Maximum length of a kept token: the longest text id with every character escaped.
const MAX_TOKEN: usize = 2_048;

/// The readable parts of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gleaned {
    pub(crate) id: Option<RpcId>,
    pub(crate) method: Option<String>,
    /// The line has no method, readable or not, so it may be an answer.
    pub(crate) is_answer: bool,
}

/// Incremental reader of a line, in constant memory: it finds the members `id` and `method` of the outermost object, in
/// any order. A repeated name yields no value, and a line with anything around its object yields nothing.
#[derive(Debug, Default)]
pub(crate) struct Gleaner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// The outermost object is closed.
    closed: bool,
    /// The line is not a single object.
    broken: bool,
    /// The current member, between its colon and the next comma.
    member: Option<GleanedMember>,
    token: Vec<u8>,
    id: GleanedToken,
    method: GleanedToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GleanedMember {
    Id,
    Method,
    Other,
}

#[derive(Debug, Default)]
enum GleanedToken {
    #[default]
    Nothing,
    Token(Vec<u8>),
    Ambiguous,
}

impl Gleaner {
    /// Reads the next part of the line.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.broken {
                return;
            }
            if self.in_string {
                self.in_string = self.escaped || *byte != b'"';
                self.escaped = !self.escaped && *byte == b'\\';
                self.keep(*byte);
            } else {
                self.step(*byte);
            }
        }
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.closed => self.broken = true,
            b'{' | b'[' => {
                self.broken |= self.depth == 0 && byte == b'[';
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                    self.closed = true;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.member.is_none() => {
                let name = std::mem::take(&mut self.token);
                self.member = Some(member(&name));
            }
            b',' if self.depth == 1 => self.end_member(),
            _ => {
                self.broken |= self.depth == 0;
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    /// Keeps a byte of a name or a wanted value; of a container, only its opening bracket.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.member != Some(GleanedMember::Other) && self.token.len() <= MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        let token = std::mem::take(&mut self.token);
        let found = match self.member.take() {
            Some(GleanedMember::Id) => &mut self.id,
            Some(GleanedMember::Method) => &mut self.method,
            Some(GleanedMember::Other) | None => return,
        };
        *found = if matches!(found, GleanedToken::Nothing) {
            GleanedToken::Token(token)
        } else {
            GleanedToken::Ambiguous
        };
    }

    /// Returns the findings at the end of the line.
    pub(crate) fn finish(self) -> Gleaned {
        if self.broken || !self.closed {
            return Gleaned::default();
        }
        let is_answer = matches!(self.method, GleanedToken::Nothing);
        Gleaned {
            id: self.id.value(RpcId::read),
            method: self.method.value(|value| value.as_str().map(Into::into)),
            is_answer,
        }
    }
}

impl GleanedToken {
    fn value<T>(&self, read_as: impl FnOnce(ValueRef<'_>) -> Option<T>) -> Option<T> {
        let Self::Token(token) = self else { return None };
        let value = read(token, Recipe::Rfc8785, &Limits::default()).ok()?;
        read_as(value.value())
    }
}

fn member(name: &[u8]) -> GleanedMember {
    match name {
        b"\"id\"" => GleanedMember::Id,
        b"\"method\"" => GleanedMember::Method,
        _ if !name.contains(&b'\\') => GleanedMember::Other,
        _ => match read(name, Recipe::Rfc8785, &Limits::default())
            .ok()
            .as_ref()
            .and_then(|n| n.value().as_str())
        {
            Some("id") => GleanedMember::Id,
            Some("method") => GleanedMember::Method,
            _ => GleanedMember::Other,
        },
    }
}

/// Reads id and method of a whole line.
pub(crate) fn glean(line: &[u8]) -> Gleaned {
    let mut gleaner = Gleaner::default();
    gleaner.read(line);
    gleaner.finish()
}
