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
        /// Program and arguments of the server.
        command: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, String)>,
        /// Folder.
        cwd: Option<String>,
    },
    /// Connects to it.
    Url(String),
    /// By neither a command nor an address.
    Unknown,
}

/// Bytes of an entry's command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommandPlaces {
    pub(crate) command: Range<usize>,
    pub(crate) args: Option<ArgPlaces>,
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

    /// Tells a gateway in front of a server from the server itself.
    pub(crate) fn start_of(
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<String>,
    ) -> ServerStart {
        let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
        let is_ours = matches!(program, "countersign" | "countersign.exe");
        match args.as_slice() {
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
