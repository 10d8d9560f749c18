//! The configuration file of a gateway.

use std::path::{Path, PathBuf};

use countersign_action_proposal::{HighImpacts, Profile};
use countersign_approval_token::DEFAULT_GRANT_CAP;
use countersign_core::{AgentId, Audience, ImpactClass, Millis, Principal, SessionId, Timestamp};
use countersign_tool_gate::{AlarmRule, RefusalRate};
use serde::Deserialize;

use crate::config::{ApprovalConfig, Config, DEFAULT_AGE, StoreMaking};
use crate::error::HostError;
use crate::export::{self, Exports, MetricsPart, Process, TracesPart};
use crate::files::{read_text_file, read_trusted_text};
use crate::home::UserFolder;
use crate::inputs::read_trust_root;
use crate::notify::Notifier;
pub use crate::observe_part::LONGEST as LONGEST_OBSERVE;
use crate::observe_part::ObservePart;
use crate::plans::{Around, PlanPart};
use crate::proposals::ProposalPlan;
use crate::record::{PreparedRecord, RecordPart, RecordPlan};
use crate::report::Reporter;
use crate::serve_part::ServePart;
use crate::server_part::{LimitsPart, ServerPart, Servers};
use crate::sign_command::SignCommand;
use crate::signals::{SignalsPart, SignalsPlan};
use crate::time::{Span, now};

/// Default file name of a configuration.
const CONFIG_NAME: &str = "gateway.toml";

/// Content of the file, with paths resolved.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    pub(crate) registry: RegistryPart,
    session: SessionPart,
    /// Source and lifetime of approvals.
    pub approval: Option<ApprovalPart>,
    proposals: Option<ProposalsPart>,
    #[serde(default)]
    plan: PlanPart,
    pub(crate) record: RecordPart,
    signals: Option<SignalsPart>,
    observe: Option<ObservePart>,
    metrics: Option<MetricsPart>,
    traces: Option<TracesPart>,
    /// Limits on memory and waiting times.
    #[serde(default)]
    pub limits: LimitsPart,
    /// The servers, and the methods that may pass.
    pub server: Servers,
    #[cfg(feature = "http")]
    pub(crate) notify: Option<crate::webhook::NotifyPart>,
    #[cfg(not(feature = "http"))]
    pub(crate) notify: Option<serde::de::IgnoredAny>,
    /// Settings of the service.
    #[serde(default)]
    pub serve: ServePart,
}

/// Files that a configuration names, besides those of its [`ApprovalPart`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedFiles {
    /// The signed registry.
    pub registry: PathBuf,
    /// The trust root.
    pub trust_root: PathBuf,
    /// The newest registry version that was accepted.
    pub registry_state: PathBuf,
    /// Folder, key and state of the record.
    pub record: RecordPlan,
    /// The store of quarantines and alarms, if there are `[signals]`.
    pub signals_store: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistryPart {
    pub(crate) file: PathBuf,
    pub(crate) trust_root: PathBuf,
    pub(crate) state: PathBuf,
    max_age: Option<Span>,
}

impl RegistryPart {
    pub(crate) fn max_age(&self) -> Millis {
        self.max_age.map_or(DEFAULT_AGE, Span::millis)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionPart {
    agent: AgentId,
    principal: Principal,
    goal: Option<String>,
    goal_file: Option<PathBuf>,
    ttl: Option<Span>,
    tools: Option<Vec<String>>,
    #[serde(default)]
    renew: bool,
}

/// Source and lifetime of approvals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPart {
    /// The gate's HMAC key file.
    pub key_file: PathBuf,
    /// Store of spent tokens and pending approvals.
    pub store: PathBuf,
    audience: Option<Audience>,
    ttl: Option<Span>,
    hold: Option<Span>,
    #[serde(default)]
    elicit: Elicit,
    max_grant: Option<Span>,
    notify: Option<Vec<String>>,
    #[serde(default)]
    notify_values: Vec<String>,
    /// The configuration's folder, in which `notify` runs.
    #[serde(skip)]
    folder: PathBuf,
    #[serde(default)]
    store_must_exist: bool,
}

/// Rules by which action proposals are judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposalsPart {
    #[serde(default)]
    profile: ProfileName,
    keyring: Option<PathBuf>,
    evidence_root: Option<PathBuf>,
    endorsed: Option<PathBuf>,
    policy: Option<PathBuf>,
    #[serde(default)]
    high_impacts: Vec<ImpactClass>,
    audience: Option<Audience>,
    max_attestation_age: Option<Span>,
    store: Option<PathBuf>,
    sign_with: Option<Vec<String>>,
    #[serde(default)]
    announce: Announce,
    /// The configuration's folder, in which `sign_with` is looked for.
    #[serde(skip)]
    folder: PathBuf,
}

/// A profile, parsed from its name.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
struct ProfileName(Profile);

impl TryFrom<String> for ProfileName {
    type Error = countersign_action_proposal::ProfileError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// Whether the gateway asks the person at the client, by MCP's elicitation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a form is the one kind that takes an answer")]
pub enum Elicit {
    /// No.
    #[default]
    None,
    /// By a form, in which the person approves or denies.
    Form,
}

/// How clients learn that a tool needs an action proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the gateway's settings have each of them")]
pub enum Announce {
    /// Not from the list of tools.
    Nothing,
    /// By the member `__pic` in the tool's input schema.
    #[default]
    Schema,
    /// By the gateway's own tool.
    Tool,
    /// By both.
    Both,
}

impl ApprovalPart {
    /// Returns how long a question may wait, and how long its approval counts.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.ttl.map_or(Millis::from_secs(600), |span| span.millis())
    }

    /// Returns the longest lifetime of a grant; zero if none counts.
    #[must_use]
    pub fn max_grant(&self) -> Millis {
        self.max_grant.map_or(DEFAULT_GRANT_CAP, Span::millis)
    }

    /// Returns the command that is run for each new question.
    ///
    /// # Errors
    /// `CONFIG_NOTIFY`.
    pub fn notifier(&self, reporter: &Reporter) -> Result<Option<Notifier>, HostError> {
        let Some(command) = &self.notify else { return Ok(None) };
        Notifier::new(command, &self.folder, self.notify_values.clone(), reporter.clone()).map(Some)
    }

    /// Returns how long a hook waits for an answer, if the configuration says so.
    #[must_use]
    pub fn stated_hold(&self) -> Option<Millis> {
        self.hold.map(Span::millis)
    }

    /// Returns whether the gateway asks the person at the client.
    #[must_use]
    pub const fn elicit(&self) -> Elicit {
        self.elicit
    }

    /// Returns how long the gateway holds a call that waits; zero if it refuses it at once.
    #[must_use]
    pub fn hold(&self) -> Millis {
        self.hold.map_or(Millis::ZERO, Span::millis)
    }
}

/// Finds the configuration file: the named one, else `gateway.toml` in the current folder, else
/// `countersign/gateway.toml` in the user's configuration folder, else that of the user's only profile.
///
/// # Errors
/// `USAGE` if no file is found, or several profiles are.
pub fn find_config(named: Option<&Path>) -> Result<PathBuf, HostError> {
    let mut found = find_configs(named)?;
    if found.len() > 1 {
        let names: Vec<_> =
            UserFolder::of_user()?.profiles()?.iter().map(|profile| profile.name().to_string()).collect();
        let text = format!("several profiles: give --profile with one of {}", names.join(", "));
        return Err(HostError::usage(text));
    }
    found.pop().ok_or_else(no_config)
}

/// Finds the configuration files that a person's answer can belong to: the one of [`find_config`], or those of all the user's
/// profiles. At least one.
///
/// # Errors
/// `USAGE` if no file is found; a profile that others can open.
pub fn find_configs(named: Option<&Path>) -> Result<Vec<PathBuf>, HostError> {
    if let Some(path) = named {
        return Ok(vec![path.to_owned()]);
    }
    let home = UserFolder::of_user();
    let user = home.as_ref().ok().map(|home| home.path().join(CONFIG_NAME));
    let found = [Some(PathBuf::from(CONFIG_NAME)), user].into_iter().flatten().find(|path| path.exists());
    if let Some(path) = found {
        return Ok(vec![path]);
    }
    let home = home.map_err(|_| no_config())?;
    let profiles = home.profiles()?;
    if profiles.is_empty() {
        return Err(no_config());
    }
    profiles.iter().map(|profile| home.config_of(profile.name())).collect()
}

fn no_config() -> HostError {
    HostError::usage(
        "configuration not found: name it with --config, or create gateway.toml in this folder or \
         countersign/gateway.toml in your configuration folder",
    )
}

impl ConfigFile {
    /// Reads a configuration. Unknown members are errors; paths are relative to the file's folder.
    ///
    /// # Errors
    /// A file that cannot be read or trusted, and `CONFIG_MALFORMED`.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let text = read_trusted_text(path)?;
        let mut config: Self = toml::from_str(&text).map_err(|error| malformed(path, &text, &error))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let mut paths =
            vec![&mut config.registry.file, &mut config.registry.trust_root, &mut config.registry.state];
        paths.extend(&mut config.session.goal_file);
        if let Some(approval) = &mut config.approval {
            // An empty path is no folder.
            approval.folder = Path::new(".").join(folder);
            paths.extend([&mut approval.key_file, &mut approval.store]);
        }
        if let Some(proposals) = &mut config.proposals {
            proposals.folder = Path::new(".").join(folder);
            paths.extend(proposals.paths());
        }
        paths.extend(config.plan.paths());
        paths.extend(config.record.paths());
        if let Some(signals) = &mut config.signals {
            paths.extend(signals.paths());
        }
        paths.extend(export::paths(&mut config.metrics));
        paths.extend(config.serve.paths());
        paths.extend(config.server.paths());
        #[cfg(feature = "http")]
        paths.extend(config.notify.iter_mut().flat_map(|part| part.paths()));
        for path in paths {
            *path = folder.join(&*path);
        }
        config.record.keep_state_beside(&config.registry.state);
        if let Some(signals) = &mut config.signals {
            signals.keep_store_beside(&config.registry.state);
        }
        Ok(config)
    }

    /// Prepares the record of the operators' answers: beside the session's log, with the same key.
    ///
    /// # Errors
    /// A trust root, a key or a checkpoint that cannot be read, and a key of the trust root.
    pub fn answer_record(&self, now: Timestamp, reporter: &Reporter) -> Result<PreparedRecord, HostError> {
        self.record.plan().prepare(&read_trust_root(&self.registry.trust_root)?, now, reporter)
    }

    /// Returns how clients learn that a tool needs an action proposal.
    #[must_use]
    pub fn announce(&self) -> Announce {
        self.proposals.as_ref().map(|part| part.announce).unwrap_or_default()
    }

    /// Returns the command that signs attestations, if the configuration names one.
    ///
    /// # Errors
    /// `CONFIG_SIGN`.
    pub fn sign_command(&self) -> Result<Option<SignCommand>, HostError> {
        let named = self.proposals.as_ref().and_then(|part| Some((part.sign_with.as_ref()?, &part.folder)));
        named.map(|(command, folder)| SignCommand::new(command, folder)).transpose()
    }

    /// Returns the settings for plans.
    #[must_use]
    pub const fn plans(&self) -> &PlanPart {
        &self.plan
    }

    /// Refuses settings for plans that contradict each other or the rest of the configuration.
    ///
    /// # Errors
    /// `CONFIG_CONFLICT`, `CONFIG_NO_GOAL`, `CONFIG_NO_APPROVALS`.
    pub fn check_plans(&self, plans: &PlanPart, session: Option<&SessionId>) -> Result<(), HostError> {
        plans.check(&Around {
            has_goal: self.session.goal.is_some() || self.session.goal_file.is_some(),
            has_approvals: self.approval.is_some(),
            names_session: session.is_some(),
        })
    }

    /// Returns the settings of signals; the default watches the agent for its session only.
    fn signals(&self) -> Result<SignalsPlan, HostError> {
        self.signals.as_ref().map_or_else(|| Ok(SignalsPlan::default()), SignalsPart::plan)
    }

    /// Prepares the exports.
    ///
    /// # Errors
    /// Settings that contradict each other or need a missing feature, and destinations that cannot be used.
    pub fn exports(&self, process: Process, reporter: &Reporter) -> Result<Exports, HostError> {
        Exports::prepare(self.metrics.as_ref(), self.traces.as_ref(), process, reporter)
    }

    /// Returns the rate up to which refused messages other than calls have entries of their own.
    #[must_use]
    pub fn refused_messages(&self) -> RefusalRate {
        self.record.refused_messages()
    }

    /// Returns the files that the configuration names. They need not exist.
    #[must_use]
    pub fn named_files(&self) -> NamedFiles {
        NamedFiles {
            registry: self.registry.file.clone(),
            trust_root: self.registry.trust_root.clone(),
            registry_state: self.registry.state.clone(),
            record: self.record.plan(),
            signals_store: self.signals.as_ref().and_then(SignalsPart::store).cloned(),
        }
    }

    /// Returns the folder of the record, if it exists.
    #[must_use]
    pub fn record_folder(&self) -> Option<PathBuf> {
        Some(self.record.plan().folder).filter(|folder| folder.exists())
    }

    /// Returns the share of accepted calls at which the drop alarm takes an agent's calls for a drop.
    #[must_use]
    pub fn alarm_line(&self) -> f64 {
        self.signals().map_or_else(|_| AlarmRule::default().dropped(), |plan| plan.rule().dropped())
    }

    /// Returns `true` if the session is renewed when it expires.
    #[must_use]
    pub const fn renews(&self) -> bool {
        self.session.renew
    }

    /// Returns the configuration of the gateway's session under these settings for plans.
    ///
    /// # Errors
    /// Settings that contradict each other, and a goal that cannot be read.
    pub fn config(&self, session: SessionId, plans: &PlanPart) -> Result<Config, HostError> {
        let approvals = match &self.approval {
            Some(approval) => {
                let (key, store) = (approval.key_file.clone(), approval.store.clone());
                let mut config = ApprovalConfig::new(key, run_of(&session)?, self.audience()?, store);
                config.max_lifetime = approval.ttl();
                config.max_grant = approval.max_grant();
                if approval.store_must_exist {
                    config.making = StoreMaking::Never;
                }
                Some(config)
            }
            None => None,
        };
        let (registry, trust_root) = (self.registry.file.clone(), self.registry.trust_root.clone());
        let (agent, principal) = (self.session.agent.clone(), self.session.principal.clone());
        let mut config = Config::new(registry, trust_root, session, agent, principal);
        config.goal = match (&self.session.goal, &self.session.goal_file) {
            (Some(_), Some(_)) => {
                return Err(HostError::new("CONFIG_CONFLICT", "`session` has both `goal` and `goal_file`"));
            }
            (Some(goal), None) => Some(goal.clone()),
            (None, Some(path)) => Some(read_text_file(path)?),
            (None, None) => None,
        };
        config.approvals = approvals;
        config.proposals = self.proposals()?;
        config.state = Some(self.registry.state.clone());
        config.max_age = self.registry.max_age();
        config.ttl = self.session.ttl.map(Span::millis);
        config.tools.clone_from(&self.session.tools);
        config.server = self.server.one().ok().map(|server| server.name.clone());
        config.record = Some(self.record.plan());
        config.rule = plans.rule;
        config.on_breach = plans.on_breach()?;
        config.observe_until =
            self.observe.as_ref().map(|observe| observe.until(now()?)).transpose()?.flatten();
        config.signals = self.signals()?;
        Ok(config)
    }

    pub(crate) fn proposals(&self) -> Result<Option<ProposalPlan>, HostError> {
        self.proposals.as_ref().map(|part| self.proposal_plan(part)).transpose()
    }

    fn proposal_plan(&self, part: &ProposalsPart) -> Result<ProposalPlan, HostError> {
        let store = match (&self.approval, &part.store) {
            (Some(approval), None) => approval.store.clone(),
            (None, Some(store)) => store.clone(),
            (Some(_), Some(_)) => {
                let text = "`store` is not valid in `proposals` beside `approval`: its store is used";
                return Err(HostError::new("CONFIG_CONFLICT", text));
            }
            (None, None) => {
                let text = "`proposals` requires a `store` without `approval`";
                return Err(HostError::new("CONFIG_NO_STORE", text));
            }
        };
        Ok(ProposalPlan {
            profile: part.profile.0,
            keyring: part.keyring.clone(),
            evidence_root: part.evidence_root.clone(),
            endorsed: part.endorsed.clone(),
            policy: part.policy.clone(),
            high: part.high_impacts.iter().copied().collect::<HighImpacts>(),
            audience: part.audience.clone().map_or_else(|| self.audience(), Ok)?,
            max_attestation_age: part.max_attestation_age.map(|span| span.millis()),
            store: Some(store),
        })
    }

    /// Returns the agent of its sessions.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.session.agent
    }

    /// Returns the gate's name that approvals bind; by default the name of the only server.
    ///
    /// # Errors
    /// `CONFIG_CONFLICT` without a name for several servers, and `INTERNAL`.
    pub fn audience(&self) -> Result<Audience, HostError> {
        let named = self.approval.as_ref().and_then(|approval| approval.audience.clone());
        named.map_or_else(|| audience_of(self.server.only("`audience` is missing")?), Ok)
    }
}

impl ProposalsPart {
    /// Iterates over all paths in it.
    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let paths = [
            &mut self.keyring,
            &mut self.evidence_root,
            &mut self.endorsed,
            &mut self.policy,
            &mut self.store,
        ];
        paths.into_iter().flatten()
    }
}

/// Returns the run whose key mints a gateway's approvals: the session itself, so that each session has its own key.
///
/// # Errors
/// `INTERNAL`.
pub fn run_of(session: &SessionId) -> Result<countersign_core::RunId, HostError> {
    session.as_str().parse().map_err(|_| HostError::internal("a session's id is not a run's"))
}

fn audience_of(server: &ServerPart) -> Result<Audience, HostError> {
    server.name.as_str().parse().map_err(|_| HostError::internal("a server's name is not an audience"))
}

/// HostError for a malformed file with the line number, but without the line's text.
fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> HostError {
    let message = error.message();
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.lines().count().max(1));
    let place = line.map(|line| format!(", near line {line}")).unwrap_or_default();
    HostError::new("CONFIG_MALFORMED", format!("{message}{place}")).about(path.display())
}
