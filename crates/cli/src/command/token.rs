use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_approval_token::{
    Approval, ApprovalError, ApprovalToken, MintTerms, Partial, VerifyTerms, mint, verify,
};
use countersign_canonical_json::{Kind, Limits, Recipe, read};
use countersign_core::SpendError;
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, Millis, OperatorId, Principal, RunId, ServerName,
    SessionId, Timestamp, TokenId, ToolId, ToolName,
};
use countersign_host::inputs::run_keys;
use countersign_registry::{LoadOptions, verify_registry};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, Source, read_text, read_trusted_file};
use crate::output::Output;
use crate::time::now;
use countersign_host::inputs::malformed;
use countersign_host::inputs::read_trust_root;
use countersign_host::random;
use countersign_host::session::open_existing_store;

/// Default run, whose keys are used if none is named.
pub(crate) const DEFAULT_RUN: &str = "check";

/// Mint and verify approvals of one exact call.
///
/// An approval token is a ticket for one act: this call id, this tool, these arguments, this principal, once. Who
/// holds the key file can mint one.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Mint a token: prints it.
    #[command(after_help = "Example:\n  countersign token mint --key-file approval.key.json --call-id c1 \
        --server desk --tool refund \\\n    --args args.json --principal alice --session s1 --agent support-bot \
        --audience check \\\n    --registry-version 1 --ttl 5m\n\nA strict gate (the \
        default) requires every binding that it knows.\n`countersign check` prints the command with all of them.")]
    Mint(Mint),
    /// Verify a token against a call: exit code 0 when it approves the call, 3 when not.
    #[command(after_help = "Example:\n  countersign token verify --key-file approval.key.json --call-id c1 \
        --server desk --tool refund \\\n    --args args.json --principal alice --token cs1... --spend spent.sqlite")]
    Verify(TokenVerifyArgs),
}

/// What a token binds.
#[derive(Debug, Args)]
struct TokenBindings {
    /// The gate's HMAC key file.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Id of the call.
    #[arg(long)]
    call_id: CallId,
    /// Server of the tool.
    #[arg(long)]
    server: ServerName,
    /// Name of the tool within its server.
    #[arg(long)]
    tool: ToolName,
    /// File with the arguments, as JSON; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    args: Source,
    /// On whose behalf the call is made.
    #[arg(long)]
    principal: Principal,
    /// Run whose key is used.
    #[arg(long, default_value = DEFAULT_RUN)]
    run: RunId,
    /// Session that the call belongs to.
    #[arg(long)]
    session: Option<SessionId>,
    /// Agent that makes the call.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Gate that the token is for.
    #[arg(long)]
    audience: Option<Audience>,
    /// Digest of the tool's definition.
    #[arg(long, value_name = "SHA256")]
    definition: Option<Digest>,
    /// Digest of the session's pinned goal.
    #[arg(long, value_name = "SHA256")]
    ask: Option<Digest>,
    /// Root of the committed plan.
    #[arg(long, value_name = "SHA256")]
    plan: Option<Digest>,
    /// Version of the registry.
    #[arg(long, value_name = "N")]
    registry_version: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Mint {
    #[command(flatten)]
    bindings: TokenBindings,
    /// How long the token counts: a number and ms, s, m, h or d.
    #[arg(long)]
    ttl: Millis,
    /// Longest lifetime of a token.
    #[arg(long, value_name = "TTL", default_value = "1h")]
    ttl_cap: Millis,
    /// Who approves.
    #[arg(long, default_value = "operator")]
    approver: OperatorId,
    /// The signed registry: refuse a tool that it does not list, or not for the agent.
    #[arg(long, value_name = "FILE", requires = "trust_root")]
    registry: Option<PathBuf>,
    /// The trust root: whose signatures of the registry count.
    #[arg(long, value_name = "FILE", requires = "registry")]
    trust_root: Option<PathBuf>,
    /// Id of the token; a random one without it.
    #[arg(long)]
    token_id: Option<TokenId>,
    /// When the token is issued, in milliseconds since 1970; now without it. With --token-id, the same call always
    /// gets the same token.
    #[arg(long, value_name = "MS", value_parser = timestamp)]
    issued: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenVerifyArgs {
    #[command(flatten)]
    bindings: TokenBindings,
    /// The token; `-` reads it from standard input.
    #[arg(long)]
    token: String,
    /// Spend the token in this store, which must be older than the token (`countersign store init`). A second
    /// time is refused.
    #[arg(long, value_name = "STORE")]
    spend: Option<PathBuf>,
    /// Accept a token that leaves out some of the optional bindings given here.
    #[arg(long)]
    accept_partial: bool,
    /// Longest lifetime of a token, from its issue to its expiry.
    #[arg(long, value_name = "TTL", default_value = "1h")]
    ttl_cap: Millis,
    /// Clock skew: how far the clock that minted may run ahead of this one.
    #[arg(long, value_name = "SPAN", default_value = "5s")]
    skew: Millis,
}

impl Token {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Mint(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
        }
    }
}

impl Mint {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let keys = run_keys(&self.bindings.key_file, &self.bindings.run)?;
        let binding = self.bindings.read()?;
        if let (Some(registry), Some(root)) = (&self.registry, &self.trust_root) {
            check_listed(&binding, registry, root)?;
        }
        let token_id = match &self.token_id {
            Some(id) => id.clone(),
            None => random::id("token")?,
        };
        let issued = match self.issued {
            Some(issued) => issued,
            None => now()?,
        };
        let terms = MintTerms::new(token_id.clone(), self.approver.clone(), issued, self.ttl);
        let token = mint(&keys, &binding, &terms, self.ttl_cap)?;
        let report = json!({
            "ok": true,
            "token": token.as_str(),
            "token_id": token_id,
            "call_id": self.bindings.call_id,
            "args_digest": binding.args,
            "issued": issued,
            "expires": issued.saturating_add(self.ttl),
        });
        out.result(&report, token.as_str())?;
        Ok(Exit::Done)
    }
}

impl TokenVerifyArgs {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if self.token == "-" && self.bindings.args == Source::Stdin {
            return Err(Failure::usage("--token and --args cannot both come from standard input"));
        }
        let keys = run_keys(&self.bindings.key_file, &self.bindings.run)?;
        let binding = self.bindings.read()?;
        let partial = if self.accept_partial { Partial::Accept } else { Partial::Refuse };
        let terms = VerifyTerms::default().skew(self.skew).max_lifetime(self.ttl_cap).partial(partial);
        let now = now()?;
        let text = read_text(&self.token)?;
        let token: ApprovalToken =
            text.parse().map_err(|error: ApprovalError| Failure::from(error).into_refusal())?;
        let approval =
            verify(&token, &keys, &binding, now, &terms).map_err(|error| differing(&error).into_refusal())?;
        let report = json!({
            "ok": true,
            "token_id": approval.token_id(),
            "approver": approval.approver(),
            "expires": approval.expires(),
            "spent": self.spend.is_some(),
        });
        let text = format!(
            "{} approved by {} until {}",
            approval.token_id(),
            approval.approver(),
            approval.expires()
        );
        match &self.spend {
            Some(store) => {
                spend(approval, store, now, self.skew)?;
                out.result(&report, &format!("{text}, spent now"))?;
            }
            None => out.result(&report, &text)?,
        }
        Ok(Exit::Done)
    }
}

/// Returns why a token is refused. Once its tag has verified, the caller has its key and may learn the difference.
fn differing(error: &ApprovalError) -> Failure {
    let what = match error.reason() {
        "shape" | "tag" | "expired" => return Failure::new(error.code(), error.to_string()),
        "other-call" => "the token binds another --call-id",
        "other-server" => "the token binds another --server",
        "other-tool" => "the token binds another --tool",
        "other-args" => "the token binds other --args",
        "other-args-recipe" => "the token binds arguments by another recipe",
        "other-principal" => "the token binds another --principal",
        "other-definition" => "the token binds another --definition, or one of the two is missing",
        "other-agent" => "the token binds another --agent, or one of the two is missing",
        "other-session" => "the token binds another --session, or one of the two is missing",
        "other-ask" => "the token binds another --ask, or one of the two is missing",
        "other-plan" => "the token binds another --plan, or one of the two is missing",
        "other-registry-version" => {
            "the token binds another --registry-version, or one of the two is missing"
        }
        "other-audience" => "the token binds another --audience, or one of the two is missing",
        "self-approval" => "the approver is the agent",
        "lifetime" => "its lifetime exceeds --ttl-cap",
        "not-yet" => "its time of issue is ahead by more than --skew",
        reason => reason,
    };
    Failure::new(error.code(), format!("{error}: {what}"))
}

fn spend(approval: Approval, store: &Path, now: Timestamp, skew: Millis) -> Result<(), Failure> {
    let store = open_existing_store(store)?;
    match approval.spend(&store, now, skew) {
        Ok(_) => Ok(()),
        Err(error @ SpendError::Unavailable(_)) => Err(error.into()),
        Err(error) => Err(Failure::from(error).into_refusal()),
    }
}

impl TokenBindings {
    fn read(&self) -> Result<CallFacts, Failure> {
        let limits = Limits::default();
        let cap = u64::try_from(limits.max_bytes()).unwrap_or(u64::MAX).saturating_add(1);
        let args = read(&self.args.read_prefix(cap)?, Recipe::Jcs1, &limits)
            .map_err(|error| malformed(&error).about("--args"))?;
        if args.value().kind() != Kind::Object {
            return Err(Failure::new("ARGS_NOT_OBJECT", "arguments are not a JSON object").about("--args"));
        }
        let tool = ToolId::from_names(self.server.clone(), self.tool.clone());
        let mut binding =
            CallFacts::new(self.call_id.clone(), tool, args.digest(), Recipe::Jcs1, self.principal.clone());
        if let Some(session) = &self.session {
            binding = binding.session(session.clone());
        }
        if let Some(agent) = &self.agent {
            binding = binding.agent(agent.clone());
        }
        if let Some(audience) = &self.audience {
            binding = binding.audience(audience.clone());
        }
        if let Some(definition) = self.definition {
            binding = binding.definition(definition);
        }
        if let Some(ask) = self.ask {
            binding = binding.ask(ask);
        }
        if let Some(plan) = self.plan {
            binding = binding.plan(plan);
        }
        if let Some(version) = self.registry_version {
            binding = binding.registry_version(version);
        }
        Ok(binding)
    }
}

/// Refuses a tool that the registry does not list, or does not list for the bound agent.
fn check_listed(binding: &CallFacts, registry: &Path, root: &Path) -> Result<(), Failure> {
    let root = read_trust_root(root)?;
    let bytes = read_trusted_file(registry, REGISTRY_BYTES)?;
    let snapshot = verify_registry(&bytes, &root, None, &LoadOptions::default(), now()?)
        .map_err(|error| Failure::from(error).about(registry.display()).into_refusal())?;
    let tool = &binding.tool;
    let refused = |text: String| Err(Failure::refused("CAPABILITY_NOT_LISTED", text));
    if snapshot.tool(tool).is_none() {
        return refused(format!("the registry lists no tool `{tool}`"));
    }
    match &binding.agent {
        Some(agent) if !snapshot.agent(agent).is_some_and(|entry| entry.tools().contains(tool)) => {
            refused(format!("the registry lists no tool `{tool}` for the agent"))
        }
        _ => Ok(()),
    }
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    let millis: u64 = text.parse().map_err(|_| "not a whole number of milliseconds".to_owned())?;
    Timestamp::from_millis(millis).map_err(|error| error.to_string())
}
