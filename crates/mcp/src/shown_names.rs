//! Names of tools towards a client that sees the tools of several servers.
//!
//! The tool `read` of the server `files` is shown as `files__read`. A server's name has no `__` and does not end with `_`, so the
//! first `__` of a shown name ends the server's name: no two tools have one shown name. A name above 64 characters has a short
//! form, its beginning and a digest of the whole.

use countersign_core::{Digest, ServerName, ToolName};

use crate::error::SettingsError;

const SEPARATOR: &str = "__";

/// Longest name of a tool that the APIs of common models take, in bytes.
const MAX_SHOWN: usize = 64;

/// Longest name of a server, so that a short form has it whole.
const MAX_SERVER: usize = 32;

/// Length of the digest in a short form, in hexadecimal digits.
const DIGITS: usize = 16;

/// Length of the name's beginning in a short form.
const BEGINNING: usize = MAX_SHOWN - DIGITS - 1;

/// The names of one server's tools towards the client.
#[derive(Clone, Debug)]
pub(crate) struct ShownNames {
    prefix: Box<str>,
}

impl ShownNames {
    pub(crate) fn new(server: &ServerName) -> Result<Self, SettingsError> {
        let name = server.as_str();
        if name.len() > MAX_SERVER || name.contains(SEPARATOR) || name.ends_with('_') {
            return Err(SettingsError::Prefix);
        }
        Ok(Self { prefix: format!("{name}{SEPARATOR}").into() })
    }

    /// Returns whether a shown name is of this server.
    pub(crate) fn has(&self, shown: &str) -> bool {
        shown.starts_with(&*self.prefix)
    }

    /// The name under which the client sees a tool.
    pub(crate) fn shown(&self, tool: &ToolName) -> String {
        let whole = format!("{}{}", self.prefix, tool.as_str());
        if whole.len() <= MAX_SHOWN && !is_short_form(&whole) {
            return whole;
        }
        let digest = Digest::of(whole.as_bytes());
        let digits: String = digest.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let beginning = whole.get(..BEGINNING).unwrap_or_default();
        format!("{beginning}_{}", digits.get(..DIGITS).unwrap_or_default())
    }

    /// The server's name of a tool, from the name that the client calls. `tools` are the tools of this server.
    pub(crate) fn plain<'a>(
        &self,
        shown: &'a str,
        mut tools: impl Iterator<Item = &'a ToolName>,
    ) -> Option<&'a str> {
        let rest = shown.strip_prefix(&*self.prefix)?;
        if is_short_form(shown)
            && let Some(tool) = tools.find(|tool| self.shown(tool) == shown)
        {
            return Some(tool.as_str());
        }
        Some(rest)
    }

    /// The name under which the client sees a prompt, or the id of a task. It has no short form: no API of models takes it.
    pub(crate) fn shown_whole(&self, prompt: &str) -> String {
        format!("{}{prompt}", self.prefix)
    }

    /// The server's name of a prompt, or its id of a task, from the one that the client sees.
    pub(crate) fn plain_whole<'a>(&self, shown: &'a str) -> Option<&'a str> {
        shown.strip_prefix(&*self.prefix)
    }
}

/// Returns whether a name has the looks of a short form. A whole name that does is shown in its own short form.
fn is_short_form(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == MAX_SHOWN
        && name.as_bytes().get(BEGINNING) == Some(&b'_')
        && name.bytes().skip(MAX_SHOWN - DIGITS).all(is_digit)
}
