//! The servers of a gateway.

use std::fmt;
use std::path::PathBuf;
use std::slice;
use std::str::FromStr;

use countersign_core::ServerName;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::HostError;
use crate::remote_part::RemotePart;
use crate::time::Span;

/// The table `[server]`, or the tables `[[server]]`.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is one server, or there are several")]
pub enum Servers {
    /// One server. Its tools keep their names.
    One(Box<ServerPart>),
    /// Several servers. Their tools are shown under their names.
    Several(Vec<ServerPart>),
}

/// A server, and the methods that may pass between it and its client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerPart {
    /// The server's name in the registry.
    pub name: ServerName,
    /// Command that starts the server, and its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// URL of a remote server, in place of a command.
    pub url: Option<String>,
    /// Credential and connections of a remote server.
    pub remote: Option<RemotePart>,
    /// Further methods of the client that may pass.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Further methods of the server that may pass.
    #[serde(default)]
    pub server_methods: Vec<String>,
    /// Era of MCP that is spoken to the server.
    #[serde(default)]
    pub era: EraName,
    /// Era of MCP that is spoken to the client.
    #[serde(default)]
    pub client_era: EraName,
    /// Limits of this server's gateway, in place of those of all.
    #[serde(default)]
    pub limits: LimitsPart,
}

/// An era of MCP, as the configuration names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum EraName {
    /// The one that the peer speaks.
    #[default]
    Auto,
    /// Revisions that begin with `initialize`.
    Handshake,
    /// Revision 2026-07-28.
    Stateless,
}

impl FromStr for EraName {
    type Err = HostError;

    fn from_str(name: &str) -> Result<Self, HostError> {
        match name {
            "auto" => Ok(Self::Auto),
            "handshake" => Ok(Self::Handshake),
            "stateless" => Ok(Self::Stateless),
            _ => Err(HostError::usage("no era of MCP: `auto`, `handshake` or `stateless`")),
        }
    }
}

/// Limits on memory and waiting times. An omitted limit is the gateway's own.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsPart {
    /// Longest line of the client, in bytes.
    pub client_line: Option<usize>,
    /// Longest line of the server, in bytes.
    pub server_line: Option<usize>,
    /// Number of requests that may be unanswered, each way.
    pub outstanding: Option<usize>,
    /// Time for the server to list its tools.
    pub list_wait: Option<Span>,
    /// Time for answers after the client left.
    pub drain: Option<Span>,
}

impl LimitsPart {
    /// Returns these limits, and those of `all` for the omitted ones.
    #[must_use]
    pub fn over(self, all: Self) -> Self {
        Self {
            client_line: self.client_line.or(all.client_line),
            server_line: self.server_line.or(all.server_line),
            outstanding: self.outstanding.or(all.outstanding),
            list_wait: self.list_wait.or(all.list_wait),
            drain: self.drain.or(all.drain),
        }
    }
}

impl ServerPart {
    /// Returns whether the table says how the server is reached.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.url.is_some() || !self.command.is_empty()
    }
}

impl Servers {
    /// Returns all servers.
    #[must_use]
    pub fn all(&self) -> &[ServerPart] {
        match self {
            Self::One(server) => slice::from_ref(server),
            Self::Several(servers) => servers,
        }
    }

    /// Returns the only server.
    ///
    /// # Errors
    /// `CONFIG_CONFLICT` for `[[server]]`.
    pub fn one(&self) -> Result<&ServerPart, HostError> {
        self.only("this takes a configuration with one server")
    }

    /// Returns the only server, or an error that says what it is needed for.
    pub(crate) fn only(&self, needed: &str) -> Result<&ServerPart, HostError> {
        match self {
            Self::One(server) => Ok(server),
            Self::Several(_) => {
                Err(HostError::new("CONFIG_CONFLICT", format!("{needed}: `server` has several servers")))
            }
        }
    }

    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let servers = match self {
            Self::One(server) => slice::from_mut(&mut **server),
            Self::Several(servers) => servers.as_mut_slice(),
        };
        servers.iter_mut().flat_map(|server| &mut server.remote).flat_map(RemotePart::paths)
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;
        impl<'de> Visitor<'de> for Tables {
            type Value = Servers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table `[server]`, or tables `[[server]]`")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Servers, A::Error> {
                let server = ServerPart::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Servers::One(Box::new(server)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tables: A) -> Result<Servers, A::Error> {
                let mut servers: Vec<ServerPart> = Vec::new();
                while let Some(server) = tables.next_element::<ServerPart>()? {
                    if servers.iter().any(|other| other.name == server.name) {
                        let text = format!("two servers have the name `{}`", server.name.as_str());
                        return Err(A::Error::custom(text));
                    }
                    servers.push(server);
                }
                if servers.is_empty() {
                    return Err(A::Error::custom("`server` is empty"));
                }
                Ok(Servers::Several(servers))
            }
        }
        deserializer.deserialize_any(Tables)
    }
}
