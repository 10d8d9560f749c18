use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::error::ClientFileError;
use crate::server::{ArgPlaces, ClientServer, CommandPlaces, ServerStart};

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
    url: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

pub(crate) fn read(text: &str) -> Result<Vec<ClientServer>, ClientFileError> {
    let malformed = |error: toml::de::Error| ClientFileError::Malformed(error.message().to_owned());
    let file: CodexFile = toml::from_str(text).map_err(malformed)?;
    Ok(file.mcp_servers.into_iter().map(|(name, server)| entry(name, server)).collect())
}

fn entry(name: String, server: CodexServer) -> ClientServer {
    let Some(command) = server.command else {
        let start = server.url.map_or(ServerStart::Unknown, ServerStart::Url);
        return ClientServer { name, project: None, start, places: None };
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
    ClientServer { name, project: None, start, places: Some(places) }
}
