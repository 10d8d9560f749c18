use std::ops::Range;

use crate::edit::{Edit, apply};
use crate::error::ClientFileError;
use crate::json::JsonNode;
use crate::server::{ClientServer, EntryPlace, LEAD, ServerStart};
use crate::{json_entries, toml_entries};

/// Members of a JSON entry that are of its transport by URL.
const TRANSPORT: [&str; 8] = ["type", "transport", "url", "serverUrl", "httpUrl", "headers", "oauth", "auth"];

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

/// What `unwrap` cannot read out of the file.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Wrapping {
    /// The entry had a list of arguments.
    pub had_args: bool,
    /// Text of an entry by URL. It may hold a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_url: Option<String>,
}

impl std::fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by_url = self.by_url.as_ref().map(|_| "..");
        f.debug_struct("Wrapping").field("had_args", &self.had_args).field("by_url", &by_url).finish()
    }
}

impl Wrapping {
    /// The entry had a list of arguments, or it is not known.
    #[must_use]
    pub const fn with_args() -> Self {
        Self { had_args: true, by_url: None }
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
        if let (ServerStart::Url { .. }, Some(place)) = (&server.start, &server.entry) {
            return self.wrap_url(place, program, profile).ok_or_else(missing)?;
        }
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
        Ok((file, Wrapping { had_args: places.args.is_some(), by_url: None }))
    }

    /// Puts the gateway's command in the place of an entry's URL. Members that are not of the transport stay.
    fn wrap_url(
        &self,
        place: &EntryPlace,
        program: &str,
        profile: &str,
    ) -> Option<Result<(Self, Wrapping), ClientFileError>> {
        let before = self.text.get(place.at.clone())?;
        let [a, b, c] = LEAD.map(quoted);
        let (program, args) = (quoted(program), format!("[{a}, {b}, {c}, {}]", quoted(profile)));
        let text = match self.format {
            Format::Json => {
                let own = [format!("\"command\": {program}"), format!("\"args\": {args}")];
                let kept = members(&self.text, place, |name| !TRANSPORT.contains(&name))?;
                object(own.into_iter().chain(kept))
            }
            Format::Toml => format!("command = {program}\nargs = {args}"),
        };
        let wrapping = Wrapping { had_args: false, by_url: Some(before.to_owned()) };
        let file = self.edited(vec![Edit::replace(&place.at, text)])?;
        Some(file.map(|file| (file, wrapping)))
    }

    /// Gives an entry by URL its text back. If a member that stayed was changed since, it keeps the change.
    fn unwrap_url(&self, server: &ClientServer, before: &str) -> Option<Result<Self, ClientFileError>> {
        let edit = match self.format {
            Format::Json => {
                let now = server.entry.as_ref()?;
                let node = JsonNode::read(before).ok()?;
                let old = node.members().iter().map(|(name, value)| (name.clone(), value.at.clone()));
                let old = EntryPlace { at: node.at.clone(), members: old.collect() };
                let stayed = members(before, &old, |name| !TRANSPORT.contains(&name))?;
                let kept = members(&self.text, now, |name| !["command", "args"].contains(&name))?;
                let text = if stayed == kept {
                    before.to_owned()
                } else {
                    object(members(before, &old, |name| TRANSPORT.contains(&name))?.into_iter().chain(kept))
                };
                Edit::replace(&now.at, text)
            }
            Format::Toml => {
                let places = server.places.as_ref()?;
                let start = toml_entries::key_start(&self.text, "command", places.command.start)?;
                let args = &places.args.as_ref()?.list;
                // In another place the list is a person's own by now.
                (self.text.get(places.command.end..args.start)? == "\nargs = ").then_some(())?;
                Edit::replace(&(start..args.end), before)
            }
        };
        self.edited(vec![edit])
    }

    /// Returns the file with the gateway in front of one server taken away.
    ///
    /// # Errors
    /// [`ClientFileError::NoServer`], [`ClientFileError::NoOriginal`].
    pub fn unwrap(&self, server: &ClientServer, wrapping: &Wrapping) -> Result<Self, ClientFileError> {
        let missing = || ClientFileError::NoServer(server.name.clone());
        let (ServerStart::Gateway { command, .. }, Some(places)) = (&server.start, &server.places) else {
            return Err(missing());
        };
        if command.is_empty() {
            let lost = || ClientFileError::NoOriginal(server.name.clone());
            let before = wrapping.by_url.as_ref().ok_or_else(lost)?;
            return self.unwrap_url(server, before).ok_or_else(lost)?;
        }
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

/// Returns the members of an entry that satisfy `is`, as text.
fn members(text: &str, place: &EntryPlace, is: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let chosen = place.members.iter().filter(|(name, _)| is(name));
    chosen.map(|(name, at)| Some(format!("{}: {}", quoted(name), text.get(at.clone())?))).collect()
}

fn object(members: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
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
