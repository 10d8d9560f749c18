use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use countersign_core::{AgentId, Audience, Millis, Principal, RunId, ServerName, SessionId};

use super::proposals::{ProposalOptions, beside};
use crate::command::token::DEFAULT_RUN;
use crate::failure::Failure;
use crate::minting::{mint_words, minted_ttl, shell_line, shell_word};
use crate::record_args::RecordArgs;
use countersign_host::config::{ApprovalConfig, Bindings, Config};
use countersign_host::escape::shown_line;
use countersign_host::inputs::read_definitions;
use countersign_host::random;
use countersign_tool_gate::ApprovalRequest;

/// What the session is opened with.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The signed registry.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// The trust root: the operators' keys whose signatures count.
    #[arg(long, value_name = "FILE")]
    trust_root: PathBuf,
    /// The agent that makes the calls.
    #[arg(long)]
    agent: AgentId,
    /// The tools that the session may use, as name or server:name; all that the registry lists without it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// The session's goal, to be pinned.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    goal: Option<String>,
    /// On whose behalf the calls are made.
    #[arg(long, default_value = "local")]
    principal: Principal,
    /// The gate's HMAC key file. Without it no approval is accepted.
    #[arg(long, value_name = "FILE")]
    approval_key: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArgs,
    /// Keep no record: nothing of the decisions outlives the process.
    #[arg(long, required_unless_present = "record", conflicts_with = "record")]
    no_record: bool,
    /// Server of the tools that are named without one, where several servers have a tool of that name.
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<ServerName>,
    /// Id of the session; a random one without it.
    #[arg(long)]
    pub(super) session: Option<SessionId>,
    /// How long the session may last; as long as the registry allows without it.
    #[arg(long)]
    ttl: Option<Millis>,
    /// Where used approvals and attestations are remembered, for all gates that share the key; beside the key file
    /// without it, or beside the keyring where there is no key file.
    #[arg(long, value_name = "STORE")]
    spent: Option<PathBuf>,
    /// Run whose key approvals are minted with.
    #[arg(long, default_value = DEFAULT_RUN)]
    run: RunId,
    /// Longest lifetime of an approval, from its issue to its expiry.
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    approval_ttl: Millis,
    /// Name of this gate, as approvals may bind it.
    #[arg(long, default_value = DEFAULT_RUN)]
    audience: Audience,
    /// Accept an approval that leaves out any of agent, session, audience, registry version, definition or goal. It then
    /// counts for the same call in any session, once.
    #[arg(long, requires = "approval_key", conflicts_with = "strict_bindings")]
    dangerous_accept_partial_bindings: bool,
    /// Refuse such an approval (the default).
    #[arg(long, requires = "approval_key")]
    strict_bindings: bool,
    /// File with the highest registry version ever accepted: older versions are refused.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// How old the registry's signature may be.
    #[arg(long, value_name = "SPAN", default_value = countersign_host::config::DEFAULT_MAX_AGE)]
    max_age: Millis,
    /// A server's current answer to tools/list, for tools whose definition the registry pins.
    #[arg(long, value_name = "SERVER=FILE")]
    definitions: Vec<String>,
    #[command(flatten)]
    pub(crate) proposals: ProposalOptions,
}

impl CheckOptions {
    /// Returns the settings of the minting command, if approvals are accepted.
    pub(crate) fn minting(&self) -> Option<Minting> {
        let key_file = self.approval_key.as_ref()?.display().to_string();
        Some(Minting { key_file, run: self.run.to_string(), ttl: minted_ttl(self.approval_ttl) })
    }

    /// Builds the configuration from the options.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        if self.goal.as_deref() == Some("-") {
            return Err(Failure::usage("--goal cannot be `-`: standard input holds the calls"));
        }
        if self.spent.is_some() && self.approval_key.is_none() && self.proposals.profile().is_none() {
            return Err(Failure::usage("--spent needs --approval-key or an option of action proposals"));
        }
        let session = match &self.session {
            Some(session) => session.clone(),
            None => random::id("check")?,
        };
        let approvals = self.approval_key.as_ref().map(|key| {
            let store = self.spent.clone().unwrap_or_else(|| beside(key));
            let (run, audience) = (self.run.clone(), self.audience.clone());
            let mut config = ApprovalConfig::new(key.clone(), run, audience, store);
            config.max_lifetime = self.approval_ttl;
            if self.dangerous_accept_partial_bindings {
                config.bindings = Bindings::Partial;
            }
            config
        });
        let spent = approvals.as_ref().map(|config| config.store.clone()).or_else(|| self.spent.clone());
        let mut definitions = BTreeMap::new();
        for given in &self.definitions {
            let (server, file) =
                given.split_once('=').ok_or_else(|| Failure::usage("--definitions: SERVER=FILE expected"))?;
            let server = ServerName::new(server).map_err(|error| Failure::usage(error.to_string()))?;
            definitions.extend(read_definitions(&server, file.as_ref())?);
        }
        let (registry, trust_root) = (self.registry.clone(), self.trust_root.clone());
        let mut config =
            Config::new(registry, trust_root, session, self.agent.clone(), self.principal.clone());
        config.state.clone_from(&self.state);
        config.max_age = self.max_age;
        config.ttl = self.ttl;
        config.tools.clone_from(&self.tools);
        config.server.clone_from(&self.server);
        config.goal.clone_from(&self.goal);
        config.approvals = approvals;
        config.proposals = self.proposals.plan(&self.audience, spent);
        config.record = self.record.plan()?;
        config.definitions = definitions;
        Ok(config)
    }
}

/// Settings of the command that mints an approval.
#[derive(Debug)]
pub(super) struct Minting {
    pub(super) key_file: String,
    pub(super) run: String,
    pub(super) ttl: Millis,
}

impl Minting {
    /// Builds the POSIX shell line that mints the token with every binding. It contains the arguments, with invisible
    /// characters in JSON escapes.
    pub(super) fn line(&self, request: &ApprovalRequest) -> String {
        let args = shell_word(&shown_line(request.args().as_str()));
        let words = mint_words(&self.key_file, &self.run, self.ttl, request.binding(), "-");
        format!("printf %s {args} | {}", shell_line(&words))
    }
}
