use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ClientFileError;
use crate::file::ClientFile;

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "each has a place of its own")]
pub enum ClientApp {
    /// Claude Code: `~/.claude.json` and `.mcp.json`.
    ClaudeCode,
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Cursor: `~/.cursor/mcp.json` and `.cursor/mcp.json`.
    Cursor,
    /// Visual Studio Code: `mcp.json` of the user and `.vscode/mcp.json`.
    VsCode,
    /// Codex: `~/.codex/config.toml` and `.codex/config.toml`.
    Codex,
}

/// For what a file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "clients have these two")]
pub enum ConfigScope {
    /// All projects of the user.
    User,
    /// The project in the current folder.
    Project,
}

/// The folders in which clients keep their files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientPlaces {
    /// Home folder of the user.
    pub home: PathBuf,
    /// Folder of applications' configurations.
    pub config: PathBuf,
    /// Folder of the project.
    pub project: PathBuf,
    /// Codex' own folder, `CODEX_HOME`.
    pub codex: Option<PathBuf>,
}

impl ClientPlaces {
    /// Takes the home folder, the folder of applications' configurations, and the project's folder.
    #[must_use]
    pub const fn new(home: PathBuf, config: PathBuf, project: PathBuf) -> Self {
        Self { home, config, project, codex: None }
    }
}

impl ClientApp {
    /// Every client.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::ClaudeDesktop, Self::Cursor, Self::VsCode, Self::Codex];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
        }
    }

    /// Paths of the client's configurations, whether or not they exist.
    #[must_use]
    pub fn files(self, places: &ClientPlaces) -> Vec<(ConfigScope, PathBuf)> {
        let (home, config, project) = (&places.home, &places.config, &places.project);
        match self {
            Self::ClaudeCode => {
                vec![
                    (ConfigScope::User, home.join(".claude.json")),
                    (ConfigScope::Project, project.join(".mcp.json")),
                ]
            }
            Self::ClaudeDesktop => {
                vec![(ConfigScope::User, config.join("Claude/claude_desktop_config.json"))]
            }
            Self::Cursor => vec![
                (ConfigScope::User, home.join(".cursor/mcp.json")),
                (ConfigScope::Project, project.join(".cursor/mcp.json")),
            ],
            Self::VsCode => vec![
                (ConfigScope::User, config.join("Code/User/mcp.json")),
                (ConfigScope::Project, project.join(".vscode/mcp.json")),
            ],
            Self::Codex => {
                let own = places.codex.clone().unwrap_or_else(|| home.join(".codex"));
                vec![
                    (ConfigScope::User, own.join("config.toml")),
                    (ConfigScope::Project, project.join(".codex/config.toml")),
                ]
            }
        }
    }

    /// Guesses the client of a file from its path.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        let text = path.to_string_lossy().replace('\\', "/");
        let is = |end: &str| text == end || text.ends_with(&format!("/{end}"));
        if is(".claude.json") || is(".mcp.json") {
            Some(Self::ClaudeCode)
        } else if is("claude_desktop_config.json") {
            Some(Self::ClaudeDesktop)
        } else if is(".cursor/mcp.json") {
            Some(Self::Cursor)
        } else if is(".vscode/mcp.json") || is("Code/User/mcp.json") {
            Some(Self::VsCode)
        } else {
            is(".codex/config.toml").then_some(Self::Codex)
        }
    }
}

impl ClientFile {
    /// Reads a configuration as its path says: TOML if it ends in `.toml`, JSON otherwise.
    ///
    /// # Errors
    /// [`ClientFileError`].
    pub fn read(path: &Path, text: String) -> Result<Self, ClientFileError> {
        if path.extension().is_some_and(|ending| ending == "toml") {
            Self::toml(text)
        } else {
            Self::json(text)
        }
    }
}

impl fmt::Display for ClientApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ClientApp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|client| client.name() == text).ok_or(())
    }
}
