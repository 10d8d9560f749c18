//! The profile of one server: its draft, its signed registry, its configuration, and its place in the client's file.

use std::ffi::OsString;
use std::path::Path;

use countersign_audit_log::signed_key;
use countersign_clients::{ClientServer, ServerStart, Wrapping};
use countersign_core::{AgentId, Digest, Millis, OperatorId, ServerName, Timestamp};
use countersign_host::files::{Replace, read_text_file, write_secret_file};
use countersign_host::home::{UserFolder, UserProfile, UserProfileName};
use countersign_host::hook_draft::hook_draft;
use countersign_host::hook_event::HookHost;
use countersign_host::interrupt::Interrupt;
use countersign_host::person::system_user;
use countersign_host::random;
use countersign_host::server::Server;
use countersign_host::server_part::EraName;
use countersign_keys::file::read_log_key;
use countersign_registry::{FileHighWater, HighWaterStore as _, ListedTool, RegistryDraft, ToolTier};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::by_url::{UrlServer, check_profile};
use super::targets::Target;
use super::variables::expanded;
use crate::drafting::{Drafting, tier_of};
use crate::failure::{Failure, one_line};
use crate::files::{read_signers, write_file};
use crate::mcp_server::McpServer;
use crate::output::internal;
use crate::time::now;

/// How long the signed registry counts.
const TTL: Millis = Millis::from_secs(365 * 24 * 60 * 60);
/// Name of a hook's entry.
pub(crate) const HOOK: &str = "built-in tools";
/// File that says which entry a profile belongs to.
const ENTRY: &str = "entry.json";
/// Longest description in a list, in characters.
const ABOUT: usize = 70;
/// Beginnings of sentences that a description of a tool does not need.
const ORDERS: [&str; 12] = [
    "ignore ",
    "you must",
    "always ",
    "never ",
    "do not tell",
    "don't tell",
    "before using",
    "before calling",
    "instead of",
    "<important",
    "system prompt",
    "important:",
];

/// Which entry of a client a profile belongs to. It holds no argument and no environment, but the text of an entry by URL.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrappedEntry {
    pub(crate) client: String,
    pub(crate) file: String,
    pub(crate) project: Option<String>,
    pub(crate) server: String,
    pub(crate) wrapping: Option<Wrapping>,
    /// The hook that was put into the file, if the profile is a hook's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hook: Option<String>,
}

/// A tool as a person sees it before anything is signed.
pub(crate) struct DraftedTool {
    pub(crate) name: String,
    pub(crate) tier: ToolTier,
    pub(crate) free: bool,
    pub(crate) description: String,
    pub(crate) gives_orders: bool,
}

/// A drafted registry of one server.
pub(crate) struct DraftedEntry {
    pub(crate) profile: UserProfileName,
    pub(crate) tools: Vec<DraftedTool>,
    /// The draft's entries, in the order of `tools`.
    pub(crate) draft_tools: Vec<Value>,
    draft: Value,
    name: ServerName,
    agent: AgentId,
    by: OperatorId,
    by_url: Option<UrlServer>,
    /// Era of MCP that the configuration names for the server.
    era: EraName,
    entry: WrappedEntry,
}

/// Returns the client's file that a profile's entry is in.
pub(crate) fn client_file_of(profile: &UserProfile) -> Option<String> {
    Some(WrappedEntry::of(profile)?.file)
}

/// Sets whether a tool of a draft needs an approval.
pub(crate) fn set_approval(tool: &mut Value, free: bool) -> bool {
    let Some(rule) = tool.get_mut("approval") else { return false };
    *rule = json!(if free { "not_required" } else { "required" });
    true
}

impl WrappedEntry {
    /// Reads the entry of a profile; `None` if no client's entry belongs to it.
    pub(crate) fn of(profile: &UserProfile) -> Option<Self> {
        serde_json::from_str(&read_text_file(&profile.path().join(ENTRY)).ok()?).ok()
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.client, &self.file, &self.project, &self.server)
            == (&other.client, &other.file, &other.project, &other.server)
    }

    pub(crate) fn write(&self, profile: &UserProfile) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|_| internal("an entry is not JSON"))?;
        Ok(write_secret_file(&profile.path().join(ENTRY), text.as_bytes())?)
    }
}

impl DraftedEntry {
    /// Starts or reaches the server, lists its tools and ends it.
    pub(crate) fn draft(
        home: &UserFolder,
        target: &Target,
        server: &ClientServer,
        by_url: Option<UrlServer>,
        wait: Millis,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let entry = WrappedEntry {
            client: target.client.clone(),
            file: target.path.to_str().ok_or_else(|| internal("a path is not UTF-8"))?.to_owned(),
            project: server.project().map(str::to_owned),
            server: server.name().to_owned(),
            wrapping: None,
            hook: None,
        };
        let profile = profile_for(home, &entry)?;
        check_profile(&home.profile(&profile), by_url.as_ref())?;
        let by = system_user().ok_or_else(|| Failure::usage("the system names no user"))?;
        let invalid = |_| internal("a name is not valid");
        let name = ServerName::new(&plain(server.name())).map_err(invalid)?;
        let agent = AgentId::new(&target.client).map_err(invalid)?;
        let version = next_version(&home.profile(&profile))?;
        let drafting =
            Drafting { name: name.clone(), agent: agent.clone(), registered_by: by.clone(), version, wait };
        let source = by_url.as_ref().map(UrlServer::source).transpose()?;
        let start = || match &source {
            Some(source) => Ok(source.start(interrupt)?),
            None => Ok(McpServer::Process(process(target, server, interrupt)?)),
        };
        let (mut draft, era) = drafting.settled(start, EraName::Auto, interrupt)?;
        let draft_tools: Vec<_> =
            draft.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let tools = draft_tools.iter().map(drafted_tool).collect::<Result<_, _>>()?;
        Ok(Self { profile, tools, draft_tools, draft, name, agent, by, by_url, era, entry })
    }

    /// Drafts the registry of a host's own tools, which its hook asks about. A draft that was signed before is kept, and tools in
    /// `guarded` are added to it: a gateway decides about them.
    pub(super) fn of_hook(
        home: &UserFolder,
        host: HookHost,
        settings: &Path,
        root: &str,
        guarded: &[String],
    ) -> Result<Self, Failure> {
        let text =
            |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| internal("a path is not UTF-8"));
        let entry = WrappedEntry {
            client: host.as_str().to_owned(),
            file: text(settings)?,
            project: None,
            server: HOOK.to_owned(),
            wrapping: None,
            hook: None,
        };
        let profile = profile_for(home, &entry)?;
        let by = system_user().ok_or_else(|| Failure::usage("the system names no user"))?;
        let invalid = |_| internal("a name is not valid");
        let name = ServerName::new(host.as_str()).map_err(invalid)?;
        let agent = AgentId::new(host.as_str()).map_err(invalid)?;
        let mut draft = match signed_draft(&home.profile(&profile))? {
            Some(draft) => draft,
            None => hook_draft(host, &agent, root, &[])?,
        };
        let known = |draft: &Value, name: &str| {
            let tools = draft.get("tools").and_then(Value::as_array);
            tools.is_some_and(|tools| tools.iter().any(|tool| tool.get("name") == Some(&json!(name))))
        };
        for tool in guarded {
            if known(&draft, tool) {
                continue;
            }
            let id = json!({"server": host.as_str(), "name": tool});
            // why: Cursor names no server, so a server without a gateway can have a tool of this name.
            let approval = if host == HookHost::Cursor { "required" } else { "not_required" };
            let entry = json!({"server": host.as_str(), "name": tool, "impact": "read", "approval": approval,
                "args_schema": {"type": "object"}});
            for (list, value) in [("/tools", entry), ("/agents/0/tools", id)] {
                draft
                    .pointer_mut(list)
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .for_each(|it| it.push(value.clone()));
            }
        }
        if let Some(version) = draft.get_mut("version") {
            *version = json!(next_version(&home.profile(&profile))?);
        }
        let draft_tools: Vec<_> =
            draft.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let tools = draft_tools.iter().map(|tool| hook_tool(tool, root, guarded)).collect();
        let (by_url, era) = (None, EraName::Auto);
        Ok(Self { profile, tools, draft_tools, draft, name, agent, by, by_url, era, entry })
    }

    /// Signs the registry and writes the profile. A configuration that exists keeps all but its `[observe]` table.
    pub(crate) fn sign(&self, home: &UserFolder, observe_until: Option<Timestamp>) -> Result<(), Failure> {
        let profile = home.profile(&self.profile);
        profile.prepare()?;
        if let Some(server) = &self.by_url {
            server.keep_token(&profile)?;
        }
        let mut draft = self.draft.clone();
        if let Some(tools) = draft.get_mut("tools") {
            *tools = Value::from(self.draft_tools.clone());
        }
        let text = serde_json::to_string_pretty(&draft).map_err(|_| internal("a draft is not JSON"))?;
        let keys = read_signers(&[home.operator_key()])?;
        let issued = now()?;
        let expires = issued.checked_add(TTL).map_err(|error| Failure::usage(error.to_string()))?;
        let signed = RegistryDraft::from_json(text.as_bytes())?.sign(
            issued,
            expires,
            &keys.iter().collect::<Vec<_>>(),
        )?;
        write_file(&profile.registry(), signed.to_json().as_bytes(), Replace::Allowed)?;
        write_file(&profile.draft(), text.as_bytes(), Replace::Allowed)?;
        let before = profile.config().exists().then(|| read_text_file(&profile.config())).transpose()?;
        let text = before.clone().map_or_else(|| self.configuration(home), Ok)?;
        let text = with_observe(&text, observe_until);
        if before.as_ref() != Some(&text) {
            write_secret_file(&profile.config(), text.as_bytes())?;
        }
        Ok(())
    }

    /// Keeps the client entry of the profile, and the facts that `unwrap` needs.
    pub(crate) fn keep(
        &self,
        home: &UserFolder,
        wrapping: Option<Wrapping>,
        hook: Option<String>,
    ) -> Result<(), Failure> {
        let entry = WrappedEntry { wrapping, hook, ..self.entry.clone() };
        entry.write(&home.profile(&self.profile))
    }

    /// Origin of the profile's log: that of the log which is there, or else a new one.
    fn origin(&self, home: &UserFolder) -> Result<String, Failure> {
        let key = read_log_key(&home.log_key())?.verifying_key();
        let known = signed_key(home.profile(&self.profile).log(), &key).ok().flatten();
        if let Some(known) = known {
            return Ok(known.origin().to_string());
        }
        let log: String = random::id("log")?;
        Ok(format!("localhost/{}/{log}", self.profile))
    }

    fn configuration(&self, home: &UserFolder) -> Result<String, Failure> {
        let Self { agent, by, profile, name, .. } = self;
        let origin = self.origin(home)?;
        let by_url = self.by_url.as_ref().map(UrlServer::settings).unwrap_or_default();
        let era = if self.era == EraName::Stateless { "era = \"stateless\"\n" } else { "" };
        Ok(format!(
            "# Made by `countersign wrap`. See docs/gateway.md.\n\n[registry]\nfile = \"registry.json\"\n\
             trust_root = \"../../trust-root.json\"\nstate = \"registry.state\"\nmax_age = \"365d\"\n\n\
             [session]\nagent = \"{agent}\"\nprincipal = \"{by}\"\nttl = \"1h\"\nrenew = true\n\n\
             [approval]\nkey_file = \"../../approval.key\"\nstore = \"../../approvals.sqlite\"\naudience = \"{profile}\"\nttl = \"10m\"\n\
             # Clients give up after 60 s: a call waits for its answer a little less.\nhold = \"45s\"\n\n\
             [record]\nfolder = \"log\"\nkey_file = \"../../log.key\"\norigin = \"{origin}\"\n\n\
             [server]\nname = \"{name}\"\n{era}{by_url}"
        ))
    }
}

/// Starts an entry's server as its client does.
fn process(target: &Target, server: &ClientServer, interrupt: &Interrupt) -> Result<Server, Failure> {
    let ServerStart::Command { command, env, cwd } = server.start() else {
        return Err(internal("a server without a command"));
    };
    let expand = |text: &str| expanded(text, target.folder());
    let command: Vec<_> = command.iter().map(|part| OsString::from(expand(part))).collect();
    let env: Vec<_> = env.iter().map(|(name, value)| (name.clone(), expand(value))).collect();
    let cwd = cwd.as_deref().or(server.project()).map(expand);
    let cwd = cwd.as_deref().map(Path::new).filter(|folder| folder.is_dir());
    Ok(Server::start_within(&command, &env, cwd, interrupt)?)
}

/// Puts this `[observe]` table into a configuration, in place of one that it has. Without a time the configuration enforces.
fn with_observe(config: &str, until: Option<Timestamp>) -> String {
    let table = |line: &str| line.trim_start().starts_with('[').then(|| line.trim().starts_with("[observe]"));
    let mut inside = false;
    let mut text: String = config
        .split_inclusive('\n')
        .filter(|line| {
            inside = table(line).unwrap_or(inside);
            !inside
        })
        .collect();
    if let Some(until) = until {
        text = format!("{}\n\n[observe]\nuntil = \"{until}\"\n", text.trim_end());
    }
    text
}

fn drafted_tool(entry: &Value) -> Result<DraftedTool, Failure> {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
    let listed = entry.get("as_listed").cloned().unwrap_or_default();
    let listed: ListedTool = serde_json::from_value(listed).map_err(|_| internal("a tool is not listed"))?;
    let tier = tier_of(name, &listed);
    let whole = one_line(listed.get("description").and_then(Value::as_str).unwrap_or_default());
    let lower = whole.to_lowercase();
    let cut: String = whole.chars().take(ABOUT).collect();
    let description = if cut.len() < whole.len() { format!("{cut}…") } else { cut };
    let gives_orders = ORDERS.iter().any(|order| lower.contains(order));
    Ok(DraftedTool { name: name.to_owned(), tier, free: tier.is_free(), description, gives_orders })
}

/// A host's own tool. Its rule is that of the draft for hooks.
fn hook_tool(tool: &Value, root: &str, guarded: &[String]) -> DraftedTool {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let inside = format!("inside {}", one_line(root));
    let (tier, free, description) = match tool.get("approval") {
        Some(Value::String(rule)) if rule == "not_required" && guarded.contains(&name) => {
            (ToolTier::ReadsInside, true, "the gateway of its server decides".to_owned())
        }
        Some(Value::String(rule)) if rule == "not_required" && tool.get("constraints").is_some() => {
            (ToolTier::ReadsInside, true, format!("{inside} alone"))
        }
        Some(Value::String(rule)) if rule == "not_required" => (ToolTier::ReadsInside, true, String::new()),
        Some(Value::Object(_)) => {
            (ToolTier::ReadsInside, true, format!("{inside}; a person approves it elsewhere"))
        }
        _ if guarded.contains(&name) => {
            (ToolTier::ReadsOutside, false, "a tool of this name, of any MCP server".to_owned())
        }
        _ => (ToolTier::MoneyOrIrreversible, false, String::new()),
    };
    DraftedTool { name, tier, free, description, gives_orders: false }
}

/// The profile that belongs to this entry already, or else a new name.
fn profile_for(home: &UserFolder, entry: &WrappedEntry) -> Result<UserProfileName, Failure> {
    for profile in home.profiles()? {
        if WrappedEntry::of(&profile).is_some_and(|other| other.is_same(entry)) {
            return Ok(profile.name().clone());
        }
    }
    let whole = format!("{}\n{}\n{:?}\n{}", entry.client, entry.file, entry.project, entry.server);
    let digest = Digest::of(whole.as_bytes()).to_string();
    let mark: String = digest.chars().rev().take(8).collect();
    let base: String = format!("{}-{}", entry.client, plain(&entry.server)).chars().take(60).collect();
    Ok(format!("{base}-{mark}").parse()?)
}

/// Returns the draft that was signed before.
fn signed_draft(profile: &UserProfile) -> Result<Option<Value>, Failure> {
    if !profile.draft().exists() {
        return Ok(None);
    }
    let draft = serde_json::from_str(&read_text_file(&profile.draft())?);
    draft.map(Some).map_err(|_| Failure::new("FILE_NOT_TEXT", "not JSON").about(profile.draft().display()))
}

/// Returns the names of the tools in the draft of a server's profile.
pub(super) fn tools_of(profile: &UserProfile) -> Result<Vec<String>, Failure> {
    let draft = signed_draft(profile)?;
    let tools = draft.as_ref().and_then(|draft| draft.get("tools")?.as_array());
    let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    Ok(tools.into_iter().flatten().filter_map(name).collect())
}

/// Returns the version after those of the draft that was signed before and of the registry that was accepted last.
fn next_version(profile: &UserProfile) -> Result<u64, Failure> {
    let drafted = signed_draft(profile)?.and_then(|draft| draft.get("version")?.as_u64()).unwrap_or_default();
    let accepted = FileHighWater::new(profile.path().join("registry.state")).current().ok().flatten();
    let accepted = accepted.map_or(0, |mark| mark.version());
    Ok(drafted.max(accepted).saturating_add(1))
}

/// Replaces what a name cannot hold.
fn plain(name: &str) -> String {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    let text: String = name.chars().map(letter).take(60).collect();
    let text = text.trim_matches(['-', '.', '_']);
    if text.is_empty() { "server".to_owned() } else { text.to_owned() }
}
