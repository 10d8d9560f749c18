use clap::Args;
use countersign_action_proposal::{ActionProposal, ProposedCall};
use countersign_core::{AgentId, CallId, Digest, ImpactClass, Principal, ServerName, SessionId};

use super::read::read_args;
use crate::failure::Failure;
use crate::files::Source;

/// What is known of the call that a proposal is for.
#[derive(Debug, Args)]
pub(super) struct Facts {
    /// The called tool. Without it the proposal is checked on its own, bound to no call.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// File with the call's arguments, as JSON. Under `strict` a tool without arguments is refused.
    #[arg(long, value_name = "FILE")]
    args: Option<Source>,
    /// Use the proposal's own arguments as the call's. For a check without a call; a gate never does.
    #[arg(long, conflicts_with = "args")]
    own_args: bool,
    /// Impact of the tool, as set by the operator.
    #[arg(long)]
    impact: Option<ImpactClass>,
    #[command(flatten)]
    bound: Bound,
}

/// What an attestation binds besides the proposal.
#[derive(Debug, Default, Args)]
pub(super) struct Bound {
    /// Server of the tool.
    #[arg(long)]
    pub(super) server: Option<ServerName>,
    /// Id of the call.
    #[arg(long)]
    pub(super) call_id: Option<CallId>,
    /// On whose behalf the call is made.
    #[arg(long)]
    pub(super) principal: Option<Principal>,
    /// Agent that makes the call.
    #[arg(long)]
    pub(super) agent: Option<AgentId>,
    /// Session that the call belongs to.
    #[arg(long)]
    pub(super) session: Option<SessionId>,
    /// Version of the registry.
    #[arg(long, value_name = "N")]
    pub(super) registry_version: Option<u64>,
    /// Digest of the session's pinned goal.
    #[arg(long, value_name = "SHA256")]
    pub(super) ask: Option<Digest>,
    /// Root of the committed plan.
    #[arg(long, value_name = "SHA256")]
    pub(super) plan: Option<Digest>,
}

impl Facts {
    /// Returns `true` if the arguments come from standard input.
    pub(super) fn takes_stdin(&self) -> bool {
        self.args == Some(Source::Stdin)
    }

    /// Returns the digest of the call's arguments, if they are given.
    pub(super) fn read_args(&self) -> Result<Option<Digest>, Failure> {
        self.args.as_ref().map(read_args).transpose()
    }

    /// Builds the call from the known facts.
    pub(super) fn call<'a>(&'a self, args: Option<Digest>, proposal: &ActionProposal) -> ProposedCall<'a> {
        let mut call = match &self.tool {
            Some(tool) => ProposedCall::to_tool_named(tool),
            None => ProposedCall::unbound(),
        };
        let args = if self.own_args { Some(proposal.args_digest()) } else { args };
        if let Some(digest) = args {
            call = call.args(digest);
        }
        if let Some(impact) = self.impact {
            call = call.impact(impact);
        }
        self.bound.add_to(call)
    }
}

impl Bound {
    pub(super) fn add_to<'a>(&'a self, mut call: ProposedCall<'a>) -> ProposedCall<'a> {
        if let Some(server) = &self.server {
            call = call.server(server);
        }
        if let Some(id) = &self.call_id {
            call = call.call_id(id);
        }
        if let Some(principal) = &self.principal {
            call = call.principal(principal);
        }
        if let Some(agent) = &self.agent {
            call = call.agent(agent);
        }
        if let Some(session) = &self.session {
            call = call.session(session);
        }
        if let Some(version) = self.registry_version {
            call = call.registry_version(version);
        }
        if let Some(ask) = self.ask {
            call = call.ask(ask);
        }
        if let Some(plan) = self.plan {
            call = call.plan(plan);
        }
        call
    }
}
