//! The configuration file of the gateway.

use std::path::{Path, PathBuf};

use countersign_action_proposal::{HighImpacts, Profile};
use countersign_core::{AgentId, Audience, ImpactClass, Millis, Principal, ServerName, SessionId, Timestamp};
use countersign_mcp::{GatewayLimits, GatewaySettings, SettingsError};
use serde::Deserialize;

use crate::command::keys::read_trust_root;
use crate::command::mcp::plans::{Around, PlanFlags, PlanPart};
use crate::command::registry::DEFAULT_MAX_AGE;
use crate::export::{self, Exports, MetricsPart, TracesPart};
use crate::failure::Failure;
use crate::files::{read_text_file, read_trusted_text};
use crate::proposals::ProposalPlan;
use crate::record::{PreparedRecord, RecordPart};
use crate::session::{ApprovalPlan, Bindings, SessionPlan, StoreMaking};
use crate::signals::{SignalsPart, SignalsPlan};

/// Default file name of a configuration.
const CONFIG_NAME: &str = "gateway.toml";

/// Content of the file, with paths resolved.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    registry: RegistryPart,
    session: SessionPart,
    pub(crate) approval: Option<ApprovalPart>,
    proposals: Option<ProposalsPart>,
    #[serde(default)]
    plan: PlanPart,
    record: RecordPart,
    signals: Option<SignalsPart>,
    metrics: Option<MetricsPart>,
    traces: Option<TracesPart>,
    #[serde(default)]
    limits: LimitsPart,
    server: ServerPart,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryPart {
    file: PathBuf,
    trust_root: PathBuf,
    state: PathBuf,
    max_age: Option<Span>,
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
pub(crate) struct ApprovalPart {
    pub(crate) key_file: PathBuf,
    pub(crate) store: PathBuf,
    audience: Option<Audience>,
    ttl: Option<Span>,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPart {
    name: ServerName,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    server_methods: Vec<String>,
}

/// Limits on memory and waiting times. An omitted limit is that of [`GatewayLimits`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsPart {
    client_line: Option<usize>,
    server_line: Option<usize>,
    outstanding: Option<usize>,
    list_wait: Option<Span>,
    drain: Option<Span>,
}

impl LimitsPart {
    fn limits(self) -> Result<GatewayLimits, SettingsError> {
        let mut limits = GatewayLimits::default();
        if let Some(bytes) = self.client_line {
            limits = limits.with_client_line(bytes)?;
        }
        if let Some(bytes) = self.server_line {
            limits = limits.with_server_line(bytes)?;
        }
        if let Some(requests) = self.outstanding {
            limits = limits.with_outstanding(requests)?;
        }
        if let Some(wait) = self.list_wait {
            limits = limits.with_list_wait(wait.0)?;
        }
        if let Some(wait) = self.drain {
            limits = limits.with_drain(wait.0)?;
        }
        Ok(limits)
    }
}

/// A time span in text form, such as `10m`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Span(Millis);

impl TryFrom<String> for Span {
    type Error = countersign_core::TimeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl Span {
    pub(crate) const fn millis(self) -> Millis {
        self.0
    }
}

impl ApprovalPart {
    /// Returns how long a question may wait, and how long its approval counts.
    pub(crate) fn ttl(&self) -> Millis {
        self.ttl.map_or(Millis::from_secs(600), |span| span.0)
    }
}

/// Finds the configuration file: the named one, else `gateway.toml` in the current folder, else
/// `countersign/gateway.toml` in the user's configuration folder.
pub(crate) fn find_config(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let user = user.map(|folder| folder.join("countersign").join(CONFIG_NAME));
    let found = [Some(PathBuf::from(CONFIG_NAME)), user].into_iter().flatten().find(|path| path.exists());
    found.ok_or_else(|| {
        let text = "no configuration: name it with --config, or have gateway.toml in this folder or \
                    countersign/gateway.toml in your configuration folder";
        Failure::usage(text)
    })
}

impl Config {
    /// Reads a configuration. Unknown members are errors; paths are relative to the file's folder.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = read_trusted_text(path)?;
        let mut config: Self = toml::from_str(&text).map_err(|error| malformed(path, &text, &error))?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let mut paths =
            vec![&mut config.registry.file, &mut config.registry.trust_root, &mut config.registry.state];
        paths.extend(&mut config.session.goal_file);
        if let Some(approval) = &mut config.approval {
            paths.extend([&mut approval.key_file, &mut approval.store]);
        }
        if let Some(proposals) = &mut config.proposals {
            paths.extend(proposals.paths());
        }
        paths.extend(config.plan.paths());
        paths.extend(config.record.paths());
        if let Some(signals) = &mut config.signals {
            paths.extend(signals.paths());
        }
        paths.extend(export::paths(&mut config.metrics));
        for path in paths {
            *path = folder.join(&*path);
        }
        config.record.keep_state_beside(&config.registry.state);
        Ok(config)
    }

    /// Prepares the record of the operators' answers: beside the session's log, with the same key.
    pub(crate) fn answer_record(&self, now: Timestamp) -> Result<PreparedRecord, Failure> {
        self.record.plan().prepare(&read_trust_root(&self.registry.trust_root)?, now)
    }

    /// Returns the rules for plans: those of the file, overridden by the command line.
    pub(crate) fn plans(&self, flags: &PlanFlags, session: Option<&SessionId>) -> Result<PlanPart, Failure> {
        let plans = self.plan.clone().or(flags);
        plans.check(&Around {
            has_goal: self.session.goal.is_some() || self.session.goal_file.is_some(),
            has_approvals: self.approval.is_some(),
            names_session: session.is_some(),
        })?;
        Ok(plans)
    }

    /// Returns the settings of signals; the default watches the agent for its session only.
    fn signals(&self) -> Result<SignalsPlan, Failure> {
        self.signals.as_ref().map_or_else(|| Ok(SignalsPlan::default()), SignalsPart::plan)
    }

    /// Prepares the exports.
    pub(crate) fn exports(&self) -> Result<Exports, Failure> {
        Exports::prepare(self.metrics.as_ref(), self.traces.as_ref())
    }

    /// Returns the server's name in the registry.
    pub(crate) const fn server(&self) -> &ServerName {
        &self.server.name
    }

    /// Returns the gateway's settings: methods, limits and the lifetime of approvals.
    pub(crate) fn settings(&self) -> Result<GatewaySettings, Failure> {
        let limits = self.limits.limits()?;
        let mut settings = GatewaySettings::new(self.server.name.clone())
            .with_limits(limits)
            .with_refused_messages(self.record.refused_messages());
        for method in &self.server.methods {
            settings = settings.allow_client_method(method)?;
        }
        for method in &self.server.server_methods {
            settings = settings.allow_server_method(method)?;
        }
        Ok(match &self.approval {
            Some(approval) => settings.with_approval_ttl(approval.ttl())?,
            None => settings,
        })
    }

    /// Returns `true` if the session is renewed when it expires.
    pub(crate) const fn renews(&self) -> bool {
        self.session.renew
    }

    /// Returns the plan of the gateway's session.
    pub(crate) fn plan(&self, session: SessionId) -> Result<SessionPlan, Failure> {
        let goal = match (&self.session.goal, &self.session.goal_file) {
            (Some(_), Some(_)) => {
                return Err(Failure::new("CONFIG_CONFLICT", "`session` has both `goal` and `goal_file`"));
            }
            (Some(goal), None) => Some(goal.clone()),
            (None, Some(path)) => Some(read_text_file(path)?),
            (None, None) => None,
        };
        let default_age = || DEFAULT_MAX_AGE.parse().map(Span);
        let max_age = self.registry.max_age.map_or_else(default_age, Ok);
        let max_age = max_age.map_err(|error| Failure::new("CONFIG_MALFORMED", error.to_string()))?.0;
        let approvals = match &self.approval {
            Some(approval) => Some(ApprovalPlan {
                key: approval.key_file.clone(),
                run: run_of(&session)?,
                audience: self.audience()?,
                store: approval.store.clone(),
                making: if approval.store_must_exist { StoreMaking::Never } else { StoreMaking::IfMissing },
                max_lifetime: approval.ttl(),
                bindings: Bindings::Strict,
            }),
            None => None,
        };
        let proposals = match &self.proposals {
            Some(proposals) => Some(self.proposal_plan(proposals)?),
            None => None,
        };
        Ok(SessionPlan {
            registry: self.registry.file.clone(),
            trust_root: self.registry.trust_root.clone(),
            state: Some(self.registry.state.clone()),
            max_age,
            session,
            agent: self.session.agent.clone(),
            principal: self.session.principal.clone(),
            ttl: self.session.ttl.map(|span| span.0),
            tools: self.session.tools.clone(),
            server: Some(self.server.name.clone()),
            goal,
            approvals,
            proposals,
            record: Some(self.record.plan()),
            definitions: std::collections::BTreeMap::new(),
            signals: self.signals()?,
        })
    }

    fn proposal_plan(&self, part: &ProposalsPart) -> Result<ProposalPlan, Failure> {
        let store = match (&self.approval, &part.store) {
            (Some(approval), None) => approval.store.clone(),
            (None, Some(store)) => store.clone(),
            (Some(_), Some(_)) => {
                let text =
                    "attestations are spent in the store of `approval`: `proposals` has none of its own";
                return Err(Failure::new("CONFIG_CONFLICT", text));
            }
            (None, None) => {
                let text = "`proposals` needs a `store` where there is no `approval`";
                return Err(Failure::new("CONFIG_NO_STORE", text));
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
            max_attestation_age: part.max_attestation_age.map(|span| span.0),
            store: Some(store),
        })
    }

    /// Returns the gate's name that approvals bind; by default the server's name.
    fn audience(&self) -> Result<Audience, Failure> {
        let named = self.approval.as_ref().and_then(|approval| approval.audience.clone());
        named.map_or_else(|| audience_of(&self.server.name), Ok)
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
pub(crate) fn run_of(session: &SessionId) -> Result<countersign_core::RunId, Failure> {
    session.as_str().parse().map_err(|_| crate::output::internal("a session's id is not a run's"))
}

fn audience_of(server: &ServerName) -> Result<Audience, Failure> {
    server.as_str().parse().map_err(|_| crate::output::internal("a server's name is not an audience"))
}

/// Failure for a malformed file with the line number, but without the line's text.
fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let message = error.message();
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.lines().count().max(1));
    let place = line.map(|line| format!(", near line {line}")).unwrap_or_default();
    Failure::new("CONFIG_MALFORMED", format!("{message}{place}")).about(path.display())
}
