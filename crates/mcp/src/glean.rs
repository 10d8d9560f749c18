//! Id and method of a line that cannot be read as a message, because it is too long or no strict JSON. They serve only to say
//! "refused" under the right id and to count a call as a call; nothing is ever passed on by what is read here.

use countersign_canonical_json::{Limits, Recipe, ValueRef, read};

use crate::message::RpcId;

/// The longest token that is kept: an id of the longest text, every character of it escaped.
const MAX_TOKEN: usize = 2_048;

/// What could be made out of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gleaned {
    pub(crate) id: Option<RpcId>,
    pub(crate) method: Option<String>,
    /// The line has no method, readable or not, so it can be an answer.
    pub(crate) is_answer: bool,
}

/// Reads a line bit by bit, with little memory however long it is: the members of its outermost object named `id` and
/// `method`, in whatever order. A line with two of one name, or with anything around its object, tells nothing.
#[derive(Debug, Default)]
pub(crate) struct Gleaner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// The outermost object has been closed.
    closed: bool,
    /// The line is no single object.
    broken: bool,
    /// The member whose value comes, between its colon and the next comma.
    member: Option<Member>,
    token: Vec<u8>,
    id: Found,
    method: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    Other,
}

#[derive(Debug, Default)]
enum Found {
    #[default]
    Nothing,
    Token(Vec<u8>),
    Ambiguous,
}

impl Gleaner {
    /// Reads on.
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

    /// Keeps a byte of a name, or of a value that is wanted; of a container only that it is one.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.member != Some(Member::Other) && self.token.len() <= MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        let token = std::mem::take(&mut self.token);
        let found = match self.member.take() {
            Some(Member::Id) => &mut self.id,
            Some(Member::Method) => &mut self.method,
            Some(Member::Other) | None => return,
        };
        *found = if matches!(found, Found::Nothing) { Found::Token(token) } else { Found::Ambiguous };
    }

    /// The end of the line.
    pub(crate) fn finish(self) -> Gleaned {
        if self.broken || !self.closed {
            return Gleaned::default();
        }
        let is_answer = matches!(self.method, Found::Nothing);
        Gleaned {
            id: self.id.value(RpcId::read),
            method: self.method.value(|value| value.as_str().map(Into::into)),
            is_answer,
        }
    }
}

impl Found {
    fn value<T>(&self, read_as: impl FnOnce(ValueRef<'_>) -> Option<T>) -> Option<T> {
        let Self::Token(token) = self else { return None };
        let value = read(token, Recipe::Rfc8785, &Limits::default()).ok()?;
        read_as(value.value())
    }
}

fn member(name: &[u8]) -> Member {
    match name {
        b"\"id\"" => Member::Id,
        b"\"method\"" => Member::Method,
        _ if !name.contains(&b'\\') => Member::Other,
        _ => match read(name, Recipe::Rfc8785, &Limits::default())
            .ok()
            .as_ref()
            .and_then(|n| n.value().as_str())
        {
            Some("id") => Member::Id,
            Some("method") => Member::Method,
            _ => Member::Other,
        },
    }
}

/// Id and method of a whole line.
pub(crate) fn glean(line: &[u8]) -> Gleaned {
    let mut gleaner = Gleaner::default();
    gleaner.read(line);
    gleaner.finish()
}
