//! MCP servers: processes, and servers at a URL.

use std::ffi::OsString;
use std::io::Read;

use countersign_core::Millis;
use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::interrupt::Interrupt;
use countersign_host::remote_part::RemotePart;
use countersign_host::report::Reporter;
use countersign_host::server::{Client, Server};
use countersign_host::server_part::{EraName, ServerPart, Servers};
use countersign_mcp::{GatewaySettings, LostRequests, PeerStream};
#[cfg(feature = "remote")]
use countersign_remote::{RemoteServer, RemoteSession};

use crate::failure::Failure;

pub(crate) type ServerOutput = Box<dyn Read + Send>;

/// How a session gets its server.
#[derive(Debug)]
pub(crate) struct ServerSource {
    start: SourceStart,
    /// Era of MCP that is spoken to it.
    pub(crate) era: EraName,
}

#[derive(Debug)]
enum SourceStart {
    /// A process for each session.
    Command(Vec<OsString>),
    #[cfg(feature = "remote")]
    Url(RemoteServer),
}

/// The server of one session.
#[derive(Debug)]
pub(crate) enum McpServer {
    Process(Server),
    #[cfg(feature = "remote")]
    Remote(RemoteSession),
}

impl ServerSource {
    /// Takes the command, or the URL. `most` is the longest message of a server, in bytes.
    pub(crate) fn of(
        url: Option<&str>,
        remote: Option<&RemotePart>,
        command: &[OsString],
        most: usize,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        let conflict = |text: &str| Err(Failure::new("CONFIG_CONFLICT", text));
        match (url, remote, command) {
            (None, _, []) => Err(Failure::usage("server missing: give its command after `--`, or its URL")),
            (None, Some(_), _) => conflict("`server.remote` is for a server at a URL: `url` is missing"),
            (None, None, command) => Ok(Self::auto(SourceStart::Command(command.to_vec()))),
            (Some(_), _, [_, ..]) => {
                conflict("a server at a URL has no command: leave out `url` or the command")
            }
            #[cfg(feature = "remote")]
            (Some(url), remote, []) => {
                let remote = remote.cloned().unwrap_or_default();
                Ok(Self::auto(SourceStart::Url(RemoteServer::open(url, &remote, most, reporter)?)))
            }
            #[cfg(not(feature = "remote"))]
            (Some(_), _, []) => {
                let _ = (most, reporter);
                Err(Failure::new(
                    "FEATURE_MISSING",
                    "a server at a URL needs a build with the feature `remote`",
                ))
            }
        }
    }

    /// Takes the servers of a configuration, in its order. `command` is the command line's, for the only server.
    pub(crate) fn of_config(
        config: &ConfigFile,
        command: &[OsString],
        settings: &[GatewaySettings],
        reporter: &Reporter,
    ) -> Result<Vec<Self>, Failure> {
        let several = matches!(config.server, Servers::Several(_));
        if several && !command.is_empty() {
            let text =
                "several servers have their commands in the configuration: leave out the one after `--`";
            return Err(Failure::new("CONFIG_CONFLICT", text));
        }
        let of = |(part, settings): (&ServerPart, &GatewaySettings)| {
            Self::of_part(part, command, settings.longest_server_line(), reporter)
                .map_err(|failure| if several { failure.about(part.name.as_str()) } else { failure })
        };
        config.server.all().iter().zip(settings).map(of).collect()
    }

    /// Takes the server of one table. `command` is the command line's.
    pub(crate) fn of_part(
        part: &ServerPart,
        command: &[OsString],
        most: usize,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        if !part.command.is_empty() && !command.is_empty() {
            let text = "the server has a command in the configuration and after `--`: leave out one";
            return Err(Failure::new("CONFIG_CONFLICT", text));
        }
        let own: Vec<_> = part.command.iter().map(OsString::from).collect();
        let command = if command.is_empty() { &own } else { command };
        let source = Self::of(part.url.as_deref(), part.remote.as_ref(), command, most, reporter)?;
        Ok(Self { era: part.era, ..source })
    }

    const fn auto(start: SourceStart) -> Self {
        Self { start, era: EraName::Auto }
    }

    pub(crate) fn start(&self, interrupt: &Interrupt) -> Result<McpServer, HostError> {
        match &self.start {
            SourceStart::Command(command) => Server::start(command, interrupt).map(McpServer::Process),
            #[cfg(feature = "remote")]
            SourceStart::Url(server) => server.session().map(McpServer::Remote),
        }
    }
}

impl McpServer {
    /// Takes the server's input and output, once.
    #[cfg_attr(not(feature = "remote"), expect(unused_variables, reason = "a process loses no request"))]
    pub(crate) fn pipes(
        &mut self,
        lost: Option<&LostRequests>,
    ) -> Result<(PeerStream, ServerOutput), HostError> {
        match self {
            Self::Process(server) => {
                let (input, output) = server.pipes()?;
                Ok((PeerStream::new(input), Box::new(output)))
            }
            #[cfg(feature = "remote")]
            Self::Remote(session) => {
                let (input, output) = session.pipes(lost.cloned())?;
                Ok((PeerStream::of_lines(input), Box::new(output)))
            }
        }
    }

    /// Takes the server's input and output for a client.
    pub(crate) fn client(&mut self, wait: Millis, interrupt: &Interrupt) -> Result<Client, HostError> {
        let (input, output) = self.pipes(None)?;
        Ok(Client::new(input, output, wait, interrupt.clone()))
    }

    /// Ends the server, whose input is closed already.
    pub(crate) fn end(self) {
        match self {
            Self::Process(server) => server.end(),
            #[cfg(feature = "remote")]
            Self::Remote(session) => session.end(),
        }
    }
}
