use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use countersign_core::{AgentId, Millis, OperatorId, ServerName};

use crate::drafting::{Drafting, MAX_MESSAGE};
use crate::failure::{Exit, Failure};
use crate::mcp_server::ServerSource;
use crate::output::{Output, note, reporter, watch_signals};
use countersign_host::escape::{shown_json, shown_line};
use countersign_host::remote_part::RemotePart;

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Name of the server in the registry.
    #[arg(long)]
    name: ServerName,
    /// The agent that the draft lists the tools for.
    #[arg(long, default_value = "agent")]
    agent: AgentId,
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
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl Inspect {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let interrupt = watch_signals()?;
        let remote = self.url.is_some().then(|| {
            let mut remote = RemotePart::default();
            (remote.token_file, remote.addresses) = (self.token_file.clone(), self.address.clone());
            remote
        });
        let source =
            ServerSource::of(self.url.as_deref(), remote.as_ref(), &self.server, MAX_MESSAGE, &reporter())?;
        let server = source.start(&interrupt)?;
        let drafting = Drafting {
            name: self.name.clone(),
            agent: self.agent.clone(),
            registered_by: self.registered_by.clone(),
            version: 1,
            wait: self.wait,
        };
        let draft = drafting.draft_of(server, &interrupt)?;
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
}
