use std::ops::Range;

/// Arguments with which a gateway stands in front of a server: `mcp run --profile NAME --`.
pub(crate) const LEAD: [&str; 3] = ["mcp", "run", "--profile"];

/// One server of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientServer {
    pub(crate) name: String,
    pub(crate) project: Option<String>,
    pub(crate) start: ServerStart,
    pub(crate) places: Option<CommandPlaces>,
    pub(crate) entry: Option<EntryPlace>,
}

/// How a client reaches a server.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each is shown to a person")]
pub enum ServerStart {
    /// Starts it by a command, with these environment variables and in this folder.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, String)>,
        /// Folder.
        cwd: Option<String>,
    },
    /// Starts a gateway with this profile, which starts the server.
    Gateway {
        /// Name of the profile.
        profile: String,
        /// The gateway's program.
        gateway: String,
        /// Program and arguments of the server. Empty if the profile names the server's URL.
        command: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, String)>,
        /// Folder.
        cwd: Option<String>,
    },
    /// Connects to it by URL.
    Url {
        /// Its address.
        url: String,
        /// Name of the transport, if the entry states it.
        transport: Option<String>,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
    /// By neither a command nor an address.
    Unknown,
}

/// Returns whether a program can be the gateway in front of a server: its file name contains `countersign`, as that of a
/// released or repackaged program does (`countersign-1.2`). By this, entries that [`ClientFile::wrap`] made are
/// recognised.
///
/// [`ClientFile::wrap`]: crate::ClientFile::wrap
#[must_use]
pub fn is_gateway_program(program: &str) -> bool {
    program.rsplit(['/', '\\']).next().is_some_and(|name| name.contains("countersign"))
}

/// Bytes of an entry's command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommandPlaces {
    pub(crate) command: Range<usize>,
    pub(crate) args: Option<ArgPlaces>,
}

/// Bytes that the command of a gateway replaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryPlace {
    /// In JSON the whole entry, in TOML its `url`.
    pub(crate) at: Range<usize>,
    /// The entry's members, with the bytes of their values. In TOML they are not needed.
    pub(crate) members: Vec<(String, Range<usize>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArgPlaces {
    pub(crate) list: Range<usize>,
    pub(crate) elements: Vec<Range<usize>>,
}

impl ClientServer {
    /// Name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The project that the entry counts for, in a file of several projects.
    #[must_use]
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// How the client reaches it.
    #[must_use]
    pub const fn start(&self) -> &ServerStart {
        &self.start
    }

    /// Returns whether a gateway can be put in front of it.
    #[must_use]
    pub const fn can_be_wrapped(&self) -> bool {
        match self.start {
            ServerStart::Command { .. } => self.places.is_some(),
            ServerStart::Url { .. } => self.entry.is_some(),
            ServerStart::Gateway { .. } | ServerStart::Unknown => false,
        }
    }

    /// Tells a gateway in front of a server from the server itself.
    pub(crate) fn start_of(
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<String>,
    ) -> ServerStart {
        let is_ours = is_gateway_program(&command);
        match args.as_slice() {
            [a, b, c, profile] if is_ours && [a, b, c].into_iter().eq(LEAD) => ServerStart::Gateway {
                profile: profile.clone(),
                gateway: command,
                command: Vec::new(),
                env,
                cwd,
            },
            [a, b, c, profile, dashes, server @ ..]
                if is_ours && [a, b, c].into_iter().eq(LEAD) && dashes == "--" && !server.is_empty() =>
            {
                ServerStart::Gateway {
                    profile: profile.clone(),
                    gateway: command,
                    command: server.to_vec(),
                    env,
                    cwd,
                }
            }
            _ => {
                let mut whole = vec![command];
                whole.extend(args);
                ServerStart::Command { command: whole, env, cwd }
            }
        }
    }
}
