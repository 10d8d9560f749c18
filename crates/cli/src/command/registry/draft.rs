use clap::Args;
use countersign_core::AgentId;
use countersign_host::hook_draft::hook_draft;
use countersign_host::hook_event::HookHost;

use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};

#[derive(Debug, Args)]
pub(crate) struct RegistryDraftArgs {
    /// The host whose own tools the draft lists.
    #[arg(long, value_name = "HOST")]
    host: HookHost,
    /// The agent that gets the tools; the host's name without it.
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Folder inside which reading is free; the current one without it.
    #[arg(long, value_name = "FOLDER")]
    root: Option<String>,
    /// A further tool, by the host's own name, such as `mcp__desk__search`. It needs an approval. May be repeated.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
}

impl RegistryDraftArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let agent = match &self.agent {
            Some(agent) => agent.clone(),
            None => {
                AgentId::new(self.host.as_str()).map_err(|_| internal("a host's name is not an agent's"))?
            }
        };
        let folder = match &self.root {
            Some(root) => root.clone(),
            None => current_folder()?,
        };
        let draft = hook_draft(self.host, &agent, &folder, &self.tools)?;
        let text = serde_json::to_string_pretty(&draft).map_err(|_| internal("a draft is not JSON"))?;
        out.line(&text)?;
        Ok(Exit::Done)
    }
}

fn current_folder() -> Result<String, Failure> {
    let folder = std::env::current_dir().ok().and_then(|folder| folder.to_str().map(str::to_owned));
    folder.ok_or_else(|| Failure::usage("the current folder has no usable name: name one with --root"))
}
