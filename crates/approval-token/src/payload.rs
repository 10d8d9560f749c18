use std::borrow::Cow;

use countersign_canonical_json::{Canonical, ordinary, to_canonical};
use countersign_core::{Digest, Timestamp};
use serde::Serialize;

/// Recipe of the payload: its members and their meaning.
pub(crate) const RECIPE: &str = "approval-1";

/// Domain label that the tag covers before the payload.
pub(crate) const LABEL: &str = "countersign/approval-1";

/// Largest integer that the reader of canonical JSON takes for one.
const MAX_INTEGER: u64 = 1 << 53;

/// PayloadText of a token. Absent members are left out and never `null`.
///
/// why: strings borrow from the decoded text, since most of them are only compared.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Payload<'a> {
    pub(crate) recipe: Cow<'a, str>,
    pub(crate) key_id: Cow<'a, str>,
    pub(crate) token_id: Cow<'a, str>,
    pub(crate) call_id: Cow<'a, str>,
    pub(crate) server: Cow<'a, str>,
    pub(crate) tool: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<Digest>,
    pub(crate) args: Digest,
    pub(crate) args_recipe: Cow<'a, str>,
    pub(crate) principal: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<Cow<'a, str>>,
    pub(crate) run: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) registry_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<Cow<'a, str>>,
    pub(crate) approver: Cow<'a, str>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl<'a> Payload<'a> {
    /// Returns the canonical bytes, or `None` if a number has no exact form.
    pub(crate) fn to_canonical(&self) -> Option<Canonical> {
        to_canonical(self).ok()
    }

    /// Reads payload bytes in their one spelling: canonical JSON (recipe `jcs-1`) with these members and no others.
    ///
    /// why: canonical JSON has one order of members and one text of each value, so a token is read front to back and
    /// needs no tree. The test `reader_agrees_with_the_canonical_one` compares it with the general reader.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut members = PayloadText { rest: std::str::from_utf8(bytes).ok()?.strip_prefix('{')? };
        let agent = members.optional("\"agent\":", PayloadText::string)?;
        let approver = members.required("\"approver\":", PayloadText::string)?;
        let args = members.required("\"args\":", PayloadText::digest)?;
        let args_recipe = members.required("\"args_recipe\":", PayloadText::string)?;
        let ask = members.optional("\"ask\":", PayloadText::digest)?;
        let audience = members.optional("\"audience\":", PayloadText::string)?;
        let call_id = members.required("\"call_id\":", PayloadText::string)?;
        let definition = members.optional("\"definition\":", PayloadText::digest)?;
        let expires = members.required("\"expires\":", PayloadText::time)?;
        let issued = members.required("\"issued\":", PayloadText::time)?;
        let key_id = members.required("\"key_id\":", PayloadText::string)?;
        let plan = members.optional("\"plan\":", PayloadText::digest)?;
        let principal = members.required("\"principal\":", PayloadText::string)?;
        let recipe = members.required("\"recipe\":", PayloadText::string)?;
        let registry_version = members.optional("\"registry_version\":", PayloadText::integer)?;
        let run = members.required("\"run\":", PayloadText::string)?;
        let server = members.required("\"server\":", PayloadText::string)?;
        let session = members.optional("\"session\":", PayloadText::string)?;
        let token_id = members.required("\"token_id\":", PayloadText::string)?;
        members.skip("\"tool\":")?;
        let tool = members.string()?;
        if members.rest != "}" {
            return None;
        }
        Some(Self {
            recipe,
            key_id,
            token_id,
            call_id,
            server,
            tool,
            definition,
            args,
            args_recipe,
            principal,
            agent,
            session,
            run,
            ask,
            plan,
            registry_version,
            audience,
            approver,
            issued,
            expires,
        })
    }
}

/// Rest of a canonical object, before its next member.
struct PayloadText<'a> {
    rest: &'a str,
}

impl<'a> PayloadText<'a> {
    /// Reads a member that another one follows. `name` includes quotation marks and colon.
    fn required<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.skip(name)?;
        let value = read(self)?;
        self.skip(",")?;
        Some(value)
    }

    /// As [`required`](Self::required), if the member is present. `null` is refused: absence has one spelling.
    fn optional<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.rest.starts_with(name) { self.required(name, read).map(Some) } else { Some(None) }
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Takes that many bytes.
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }

    /// Reads a string literal (RFC 8785, section 3.2.2.2). Only one with escapes is copied.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.skip("\"")?;
        let mut text = Cow::Borrowed(self.take(ordinary(self.rest.as_bytes()))?);
        while let Some(rest) = self.rest.strip_prefix('\\') {
            self.rest = rest;
            let c = self.escape()?;
            text.to_mut().push(c);
            let run = self.take(ordinary(self.rest.as_bytes()))?;
            text.to_mut().push_str(run);
        }
        self.skip("\"")?;
        Some(text)
    }

    /// Reads an escape behind its backslash. Each character that needs one has exactly one.
    fn escape(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = match chars.next()? {
            c @ ('"' | '\\') => c,
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            'u' => {
                let digits = self.take(5)?;
                let c = char::from(u8::from_str_radix(digits.strip_prefix("u00")?, 16).ok()?);
                let has_short_form = matches!(c, '\u{8}' | '\t' | '\n' | '\u{c}' | '\r');
                let is_lower_case = !digits.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'+');
                return (c < ' ' && !has_short_form && is_lower_case).then_some(c);
            }
            _ => return None,
        };
        self.rest = chars.as_str();
        Some(c)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.skip("\"")?;
        let digits = self.take(64)?;
        self.skip("\"")?;
        digits.parse().ok()
    }

    /// Reads a number that is an integer from 0 to 2^53, which is written in plain digits.
    fn integer(&mut self) -> Option<u64> {
        let digits = self.take(self.rest.bytes().position(|byte| !byte.is_ascii_digit())?)?;
        let is_padded = digits.len() > 1 && digits.starts_with('0');
        digits.parse().ok().filter(|value| *value <= MAX_INTEGER && !is_padded)
    }

    fn time(&mut self) -> Option<Timestamp> {
        Timestamp::from_millis(self.integer()?).ok()
    }
}
