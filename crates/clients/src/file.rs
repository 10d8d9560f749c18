use std::ops::Range;

use crate::edit::{Edit, apply};
use crate::error::ClientFileError;
use crate::server::{ClientServer, LEAD, ServerStart};
use crate::{json_entries, toml_entries};

/// Text of a client's configuration, and the servers in it.
#[derive(Clone, Debug)]
pub struct ClientFile {
    text: String,
    format: Format,
    servers: Vec<ClientServer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
}

/// What `unwrap` cannot read out of the file: whether the entry had a list of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Wrapping {
    /// The entry had a list of arguments.
    pub had_args: bool,
}

impl Wrapping {
    /// The entry had a list of arguments, or it is not known.
    #[must_use]
    pub const fn with_args() -> Self {
        Self { had_args: true }
    }
}

impl ClientFile {
    /// Reads a JSON configuration: comments, trailing commas and a byte order mark are allowed.
    ///
    /// # Errors
    /// [`ClientFileError`].
    pub fn json(text: String) -> Result<Self, ClientFileError> {
        let servers = json_entries::read(&text)?;
        Ok(Self { text, format: Format::Json, servers })
    }

    /// Reads a TOML configuration.
    ///
    /// # Errors
    /// [`ClientFileError`].
    pub fn toml(text: String) -> Result<Self, ClientFileError> {
        let servers = toml_entries::read(&text)?;
        Ok(Self { text, format: Format::Toml, servers })
    }

    /// Text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The servers, in the file's order.
    #[must_use]
    pub fn servers(&self) -> &[ClientServer] {
        &self.servers
    }

    /// Returns the file with a gateway in front of one server, and what `unwrap` needs.
    ///
    /// # Errors
    /// [`ClientFileError::NoServer`].
    pub fn wrap(
        &self,
        server: &ClientServer,
        program: &str,
        profile: &str,
    ) -> Result<(Self, Wrapping), ClientFileError> {
        let missing = || ClientFileError::NoServer(server.name.clone());
        let (ServerStart::Command { .. }, Some(places)) = (&server.start, &server.places) else {
            return Err(missing());
        };
        let token = self.text.get(places.command.clone()).ok_or_else(missing)?;
        let [a, b, c] = LEAD.map(quoted);
        let lead = format!("{a}, {b}, {c}, {}, \"--\", {token}", quoted(profile));
        let mut edits = vec![Edit::replace(&places.command, quoted(program))];
        match &places.args {
            Some(args) => {
                let lead = if args.elements.is_empty() { lead } else { format!("{lead}, ") };
                edits.push(Edit::insert(args.list.start.saturating_add(1), lead));
            }
            None => {
                let text = match self.format {
                    Format::Json => format!(", \"args\": [{lead}]"),
                    Format::Toml => format!("\nargs = [{lead}]"),
                };
                edits.push(Edit::insert(places.command.end, text));
            }
        }
        let file = self.edited(edits).ok_or_else(missing)??;
        Ok((file, Wrapping { had_args: places.args.is_some() }))
    }

    /// Returns the file with the gateway in front of one server taken away.
    ///
    /// # Errors
    /// [`ClientFileError::NoServer`].
    pub fn unwrap(&self, server: &ClientServer, wrapping: Wrapping) -> Result<Self, ClientFileError> {
        let missing = || ClientFileError::NoServer(server.name.clone());
        let (ServerStart::Gateway { .. }, Some(places)) = (&server.start, &server.places) else {
            return Err(missing());
        };
        let args = places.args.as_ref().ok_or_else(missing)?;
        let token = args.elements.get(LEAD.len().saturating_add(2)).ok_or_else(missing)?;
        let program = self.text.get(token.clone()).ok_or_else(missing)?;
        let mut edits = vec![Edit::replace(&places.command, program)];
        if wrapping.had_args || args.elements.len() > LEAD.len().saturating_add(3) {
            let start = args.list.start.saturating_add(1);
            let rest = self.text.get(token.end..).ok_or_else(missing)?;
            let comma = if rest.starts_with(", ") { 2 } else { usize::from(rest.starts_with(',')) };
            let is_last = args.elements.len() == LEAD.len().saturating_add(3);
            let end = token.end.saturating_add(if is_last { 0 } else { comma });
            edits.push(Edit::delete(start..end));
        } else {
            let between = self.text.get(places.command.end..args.list.start).unwrap_or_default();
            let is_ours = [", \"args\": ", "\nargs = "].contains(&between);
            // In another place the list is a person's own by now; an empty one starts the same server.
            let at = if is_ours { places.command.end..args.list.end } else { inside(&args.list) };
            edits.push(Edit::delete(at));
        }
        self.edited(edits).ok_or_else(missing)?
    }

    fn edited(&self, edits: Vec<Edit>) -> Option<Result<Self, ClientFileError>> {
        let text = apply(&self.text, edits)?;
        Some(match self.format {
            Format::Json => Self::json(text),
            Format::Toml => Self::toml(text),
        })
    }
}

fn inside(list: &Range<usize>) -> Range<usize> {
    list.start.saturating_add(1)..list.end.saturating_sub(1)
}

/// A text that JSON and TOML both read.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
