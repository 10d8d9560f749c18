use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::error::ClientFileError;
use crate::server::{ArgPlaces, ClientServer, CommandPlaces, EntryPlace, ServerStart};

/// The part of a configuration that names servers; all else is not read.
#[derive(Deserialize)]
struct CodexFile {
    #[serde(default)]
    mcp_servers: BTreeMap<String, CodexServer>,
}

#[derive(Deserialize)]
struct CodexServer {
    command: Option<Spanned<String>>,
    args: Option<Spanned<Vec<Spanned<String>>>>,
    url: Option<Spanned<String>>,
    bearer_token_env_var: Option<toml::Value>,
    http_headers: Option<toml::Value>,
    env_http_headers: Option<toml::Value>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

pub(crate) fn read(text: &str) -> Result<Vec<ClientServer>, ClientFileError> {
    let malformed = |error: toml::de::Error| ClientFileError::Malformed(error.message().to_owned());
    let file: CodexFile = toml::from_str(text).map_err(malformed)?;
    Ok(file.mcp_servers.into_iter().map(|(name, server)| entry(text, name, server)).collect())
}

fn entry(text: &str, name: String, server: CodexServer) -> ClientServer {
    let Some(command) = server.command else {
        let Some(url) = server.url else {
            return ClientServer {
                name,
                project: None,
                start: ServerStart::Unknown,
                places: None,
                entry: None,
            };
        };
        // With a command, the client refuses members for a server at a URL.
        let has_more = [server.bearer_token_env_var, server.http_headers, server.env_http_headers]
            .iter()
            .any(Option::is_some);
        let at = key_start(text, "url", url.span().start).filter(|_| !has_more);
        let entry = at.map(|start| EntryPlace { at: start..url.span().end, members: Vec::new() });
        let start = ServerStart::Url { url: url.into_inner(), transport: None, headers: Vec::new() };
        return ClientServer { name, project: None, start, places: None, entry };
    };
    let (at, args_at) = (command.span(), server.args.as_ref().map(|args| args.span()));
    let args = server.args.map(Spanned::into_inner).unwrap_or_default();
    let places = CommandPlaces {
        command: at,
        args: args_at.map(|list| ArgPlaces { list, elements: args.iter().map(Spanned::span).collect() }),
    };
    let texts = args.into_iter().map(Spanned::into_inner).collect();
    let env = server.env.into_iter().collect();
    let start = ClientServer::start_of(command.into_inner(), texts, env, server.cwd);
    ClientServer { name, project: None, start, places: Some(places), entry: None }
}

/// Returns where a key begins whose value begins at `value`, if it is the first of its line.
pub(crate) fn key_start(text: &str, key: &str, value: usize) -> Option<usize> {
    let before = text.get(..value)?;
    let line = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let lead = before.get(line..)?;
    let is_key = lead.trim().strip_suffix('=').is_some_and(|found| found.trim_end() == key);
    is_key.then(|| line.saturating_add(lead.len().saturating_sub(lead.trim_start().len())))
}
