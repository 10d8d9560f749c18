use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_core::{AgentId, Millis, OperatorId, ServerName};
use countersign_registry::RegistryDraft;
use serde_json::Value;

use crate::drafting::{Drafting, MAX_MESSAGE};
use crate::failure::{Exit, Failure};
use crate::mcp_server::ServerSource;
use crate::output::{Output, internal, note, reporter, watch_signals};
use countersign_host::config_file::ConfigFile;
use countersign_host::escape::{shown_json, shown_line};
use countersign_host::remote_part::RemotePart;
use countersign_host::server_part::EraName;

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Name of the server in the registry.
    #[arg(long, required_unless_present = "config")]
    name: Option<ServerName>,
    /// Draft the tools of all servers of this configuration. Its registry need not exist.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "url"])]
    config: Option<PathBuf>,
    /// The agent that the draft lists the tools for: by default that of the configuration, or `agent`.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Who registers the agent.
    #[arg(long, default_value = "operator")]
    registered_by: OperatorId,
    /// How long to wait for each answer of the server.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    wait: Millis,
    /// URL of a remote server, in place of a command.
    #[arg(long)]
    url: Option<String>,
    /// File with the bearer token that the server at the URL gets.
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Address or range that the URL may lead to, besides public ones.
    #[arg(long, value_name = "RANGE", requires = "url")]
    address: Vec<String>,
    /// Era of MCP to speak to the server: `auto`, `handshake` or `stateless`. By default that of the configuration, or `auto`.
    #[arg(long, value_name = "ERA")]
    era: Option<EraName>,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl Inspect {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let draft = match &self.config {
            Some(path) => self.draft_of_config(path)?,
            None => self.draft_of_server()?,
        };
        // Text from the server is first displayed here, so invisible characters are escaped; the JSON value is
        // unchanged.
        let text = draft.to_string();
        if out.is_json() {
            out.line(&shown_line(&text))?;
        } else {
            out.line(&shown_json(&text))?;
            note(
                "note: tools that read inside need no approval, all others do; read what `as_listed` and `servers` say, change \
                 the rules, then sign",
            );
        }
        Ok(Exit::Done)
    }

    fn draft_of_server(&self) -> Result<Value, Failure> {
        let Some(name) = self.name.clone() else { return Err(Failure::usage("name missing: give --name")) };
        let interrupt = watch_signals()?;
        let remote = self.url.is_some().then(|| {
            let mut remote = RemotePart::default();
            (remote.token_file, remote.addresses) = (self.token_file.clone(), self.address.clone());
            remote
        });
        let mut source =
            ServerSource::of(self.url.as_deref(), remote.as_ref(), &self.server, MAX_MESSAGE, &reporter())?;
        source.era = self.era.unwrap_or_default();
        let agent = self.agent.clone().map_or_else(|| AgentId::new("agent"), Ok);
        let agent = agent.map_err(|_| internal("`agent` is no agent's id"))?;
        let start = || Ok(source.start(&interrupt)?);
        let (draft, era) = self.drafting(name, agent).settled(start, source.era, &interrupt)?;
        note_era(source.era, era);
        Ok(draft)
    }

    /// Drafts one registry with the tools of all servers.
    fn draft_of_config(&self, path: &Path) -> Result<Value, Failure> {
        let interrupt = watch_signals()?;
        let config = ConfigFile::read(path)?;
        let agent = self.agent.as_ref().unwrap_or(config.agent());
        let drafts = config.server.all().iter().map(|part| {
            let source = ServerSource::of_part(part, &self.server, MAX_MESSAGE, &reporter())?;
            let era = self.era.unwrap_or(source.era);
            let drafting = self.drafting(part.name.clone(), agent.clone());
            let (draft, settled) = drafting.settled(|| Ok(source.start(&interrupt)?), era, &interrupt)?;
            note_era(era, settled);
            Ok(draft)
        });
        let drafts = drafts
            .zip(config.server.all())
            .map(|(draft, part)| draft.map_err(|failure: Failure| failure.about(part.name.as_str())));
        let draft = joined(drafts.collect::<Result<_, _>>()?);
        RegistryDraft::from_json(draft.to_string().as_bytes())?;
        Ok(draft)
    }

    fn drafting(&self, name: ServerName, agent: AgentId) -> Drafting {
        Drafting { name, agent, registered_by: self.registered_by.clone(), version: 1, wait: self.wait }
    }
}

/// Tells the operator of an era that the configuration has to name.
fn note_era(asked: EraName, settled: EraName) {
    if asked != settled {
        note(
            "note: the server ends at `initialize`: set `era = \"stateless\"` in its table of the configuration",
        );
    }
}

/// Joins drafts of several servers: their tools, their entries and the tools of the one agent.
fn joined(drafts: Vec<Value>) -> Value {
    let mut drafts = drafts.into_iter();
    let mut all = drafts.next().unwrap_or_default();
    for mut draft in drafts {
        for list in ["/tools", "/servers", "/agents/0/tools"] {
            let more = draft.pointer_mut(list).map(Value::take);
            if let (Some(Value::Array(list)), Some(Value::Array(more))) = (all.pointer_mut(list), more) {
                list.extend(more);
            }
        }
    }
    all
}
