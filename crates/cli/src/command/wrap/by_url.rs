//! Servers that a client reaches by URL.

use std::path::Path;

use countersign_host::config_file::ConfigFile;
use countersign_host::files::write_secret_file;
use countersign_host::home::UserProfile;
use countersign_host::remote_part::{GivenToken, RemotePart};

use super::variables::{UNKNOWN_VALUE, expanded};
use crate::drafting::MAX_MESSAGE;
use crate::failure::{Failure, one_line};
use crate::mcp_server::ServerSource;
use crate::output::reporter;

/// File of a profile with the token that its server gets.
const TOKEN: &str = "server.token";

/// A server at a URL, with the token that its client sends.
#[derive(Clone)]
pub(crate) struct UrlServer {
    url: String,
    token: Option<String>,
}

impl UrlServer {
    /// Reads an entry of a file in `folder`. An error says why the entry stays open.
    pub(super) fn of(
        url: &str,
        transport: Option<&str>,
        headers: &[(String, String)],
        folder: &Path,
    ) -> Result<Self, String> {
        match transport {
            None | Some("http" | "streamable-http" | "streamable_http" | "streamableHttp") => {}
            Some(other) => {
                return Err(format!("the gateway does not speak its transport `{}`", one_line(other)));
            }
        }
        let known = |what: &str, text: &str| {
            let text = expanded(text, folder);
            let is_known = !text.contains(UNKNOWN_VALUE);
            is_known.then_some(text).ok_or_else(|| format!("only the client knows a variable in its {what}"))
        };
        let mut token = None;
        for (name, value) in headers {
            let value = known("headers", value)?;
            let bearer = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            match bearer {
                Some((_, text)) if name.eq_ignore_ascii_case("authorization") => {
                    token = Some(text.trim().to_owned())
                }
                _ => {
                    let name = one_line(name);
                    return Err(format!(
                        "its header `{name}` is no bearer token, and the gateway sends no other"
                    ));
                }
            }
        }
        Ok(Self { url: known("URL", url)?, token })
    }

    /// Returns access to it. Nothing is sent or written yet.
    pub(super) fn source(&self) -> Result<ServerSource, Failure> {
        let mut part = RemotePart::default();
        part.token = self.token.clone().map(GivenToken::new);
        ServerSource::of(Some(&self.url), Some(&part), &[], MAX_MESSAGE, &reporter())
    }

    /// Returns the end of a configuration's `[server]` table.
    pub(super) fn settings(&self) -> String {
        // A JSON text is one in TOML too.
        let url = serde_json::Value::from(self.url.as_str());
        let remote = self.token.as_ref().map(|_| format!("\n[server.remote]\ntoken_file = \"{TOKEN}\"\n"));
        format!("url = {url}\n{}", remote.unwrap_or_default())
    }

    /// Writes the token to the profile.
    pub(super) fn keep_token(&self, profile: &UserProfile) -> Result<(), Failure> {
        let Some(token) = &self.token else { return Ok(()) };
        Ok(write_secret_file(&profile.path().join(TOKEN), token.as_bytes())?)
    }
}

/// Checks that the configuration of a profile that exists leads to the same server.
pub(super) fn check_profile(profile: &UserProfile, server: Option<&UrlServer>) -> Result<(), Failure> {
    if !profile.config().exists() {
        return Ok(());
    }
    let config = ConfigFile::read(&profile.config())?;
    let own = config.server.one()?;
    let (url, remote) = (own.url.as_deref(), own.remote.as_ref());
    let has_credential = remote.is_some_and(|remote| remote.token_file.is_some() || remote.oauth.is_some());
    let is_same = url == server.map(|server| server.url.as_str());
    let lacks_token = server.is_some_and(|server| server.token.is_some()) && !has_credential;
    if is_same && !lacks_token {
        return Ok(());
    }
    let text = "the configuration of its profile has another `url`, or no credential: correct it, or remove the profile's folder";
    Err(Failure::new("CONFIG_CONFLICT", text).about(profile.config().display()))
}
