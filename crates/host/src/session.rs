//! Opens one session: registry, contract, goal, approvals, record and the gate over them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign::{NegotiatedSession, SessionBuilder, SessionError};
use countersign_action_proposal::ProposalVerifier;
use countersign_approval_token::MemorySpentTokens;
use countersign_audit_log::{AuditSink, EndReason, LogNumber, MemorySink};
use countersign_committed_plan::{OnBreach, PlanContext};
use countersign_core::{
    AgentId, Clock, Digest, Millis, ServerName, SessionId, SpentTokens, SystemClock, Timestamp, ToolId,
};
use countersign_keys::{RunKeys, TrustRoot};
use countersign_registry::{
    CapabilityRegistry, LoadOptions, MarkError, NegotiationRequest, RegistryError, SessionContract, Wanted,
};
use countersign_sqlite::{SqliteStore, StoreOpenError};
use countersign_tool_gate::{
    ApprovalSettings, CallStats, ProposalSettings, RecordedFields, RefusalRate, StartPlanError, ToolGate,
    ToolGateBuilder,
};

use crate::config::{ApprovalConfig, Bindings, Config, StoreMaking};
use crate::config_file::ConfigFile;
use crate::error::{HostError, chain};
use crate::export::Exports;
use crate::files::{REGISTRY_BYTES, read_trusted_file};
use crate::high_water::DeferredHighWater;
use crate::inputs::{follow_registry, grant_keys, read_trust_root, run_keys};
use crate::plans::Rule;
use crate::proposals::warn_of_older_than_store;
use crate::record::{OpenRecord, PreparedRecord, ReportingLog};
use crate::recorded::recorded_failure;
use crate::report::Reporter;
use crate::signals::{AlarmKeeper, SignalsPlan};
use crate::time::now;

/// A session that is ready to open: every input was read and checked, and no file was created.
#[derive(Debug)]
pub struct PreparedSession {
    session: NegotiatedSession,
    request: SessionRequest,
    registry_file: PathBuf,
    marks: Arc<DeferredHighWater>,
    clock: Arc<dyn Clock>,
    approvals: Option<(ApprovalConfig, RunKeys)>,
    /// The verifier of proposals, and the store in which attestations are spent.
    proposals: Option<(Arc<ProposalVerifier>, Option<PathBuf>)>,
    record: Option<PreparedRecord>,
    definitions: BTreeMap<ToolId, Digest>,
    recorded: RecordedFields,
    refused_calls: RefusalRate,
    rule: Rule,
    on_breach: OnBreach,
    observe_until: Option<Timestamp>,
    signals: SignalsPlan,
    reporter: Reporter,
}

/// An open session with the parts that a gateway needs besides the gate.
#[derive(Debug)]
pub struct OpenSession {
    /// The gate.
    pub gate: ToolGate,
    /// The sink of every decision.
    pub sink: Arc<dyn AuditSink>,
    /// The log behind the sink, if there is one.
    pub(crate) log: Option<Arc<ReportingLog>>,
    /// Keeper of the agent's alarm, if it continues across sessions.
    alarm: Option<Arc<AlarmKeeper>>,
    /// The gate's clock.
    pub clock: Arc<dyn Clock>,
    /// Pending approvals, if the session accepts approvals.
    pub pending: Option<Arc<SqliteStore>>,
    /// Name of the log among those of its folder, if there is one.
    pub log_number: Option<LogNumber>,
}

/// Ends a session and its log when it is dropped, unless they ended before. The reason is `error` until another one is
/// set.
///
/// why: dropping a session does not end its log. A thread that verifies older entries may hold the log until the
/// process ends.
#[derive(Debug)]
pub struct SessionEnd {
    gate: ToolGate,
    log: Option<Arc<ReportingLog>>,
    alarm: Option<Arc<AlarmKeeper>>,
    reason: EndReason,
}

impl SessionEnd {
    /// Prepares the end of this session.
    #[must_use]
    pub fn new(session: &OpenSession) -> Self {
        let (log, alarm) = (session.log.clone(), session.alarm.clone());
        Self { gate: session.gate.clone(), log, alarm, reason: EndReason::Error }
    }

    /// Sets the reason.
    pub const fn set(&mut self, reason: EndReason) {
        self.reason = reason;
    }

    /// Records the end and writes the log's last checkpoint after it.
    ///
    /// # Errors
    /// A log that could not be ended in order.
    pub fn end(mut self) -> Result<(), HostError> {
        // The log itself reports why it fails.
        let _ = self.gate.end_session(self.reason);
        let ended = self.log.as_ref().map_or(Ok(()), |log| log.end());
        self.keep_alarm();
        ended
    }

    /// Advances the alarm's state to the end of the log.
    fn keep_alarm(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            alarm.keep();
        }
    }
}

impl Drop for SessionEnd {
    fn drop(&mut self) {
        let _ = self.gate.end_session(self.reason);
        if let Some(log) = &self.log {
            log.end_reported();
        }
        self.keep_alarm();
    }
}

/// Files that a session writes.
struct Files {
    log: Option<Arc<ReportingLog>>,
    number: Option<LogNumber>,
    stores: Stores,
    stats: Arc<CallStats>,
    alarm: Option<Arc<AlarmKeeper>>,
}

/// The stores, the agent's counts, and the keeper of its alarm.
type WatchedStores = (Stores, Arc<CallStats>, Option<AlarmKeeper>);

/// Stores of spent tokens and quarantines.
struct Stores {
    /// Spent approvals, and the calls that wait for one.
    approvals: Option<Arc<SqliteStore>>,
    /// Spent attestations.
    attestations: Option<Arc<dyn SpentTokens>>,
    /// Quarantined agents.
    quarantines: Option<Arc<SqliteStore>>,
}

impl PreparedSession {
    /// Returns the context that a plan for this session must have.
    ///
    /// # Errors
    /// [`StartPlanError::NoGoal`], and a context that is not allowed.
    pub fn plan_context(&self) -> Result<PlanContext, StartPlanError> {
        let goal = self.session.goal().ok_or(StartPlanError::NoGoal)?.digest();
        let version = self.registry().view().snapshot().version();
        Ok(PlanContext::new(goal, self.contract().session().clone(), version)?)
    }

    /// Returns the negotiated contract.
    #[must_use]
    pub const fn contract(&self) -> &SessionContract {
        self.session.contract()
    }

    /// Returns the verified registry.
    #[must_use]
    pub const fn registry(&self) -> &Arc<CapabilityRegistry> {
        self.session.registry()
    }

    /// Returns the verifier of action proposals, if the session takes any.
    pub(crate) fn verifier(&self) -> Option<Arc<ProposalVerifier>> {
        self.proposals.as_ref().map(|(verifier, _)| Arc::clone(verifier))
    }

    /// Returns a function that negotiates the session anew, for a renewal.
    pub fn renewal(&self) -> impl Fn(Timestamp) -> Result<SessionContract, HostError> + use<> {
        let (request, registry) = (self.request.clone(), Arc::clone(self.registry()));
        move |now| {
            let request = request.resolve(&registry, now)?;
            registry.negotiate(&request, now).map_err(|error| HostError::from(error).into_refusal())
        }
    }

    /// Lists the disclosed tools with a definition that the registry pins and that was not given.
    #[must_use]
    pub fn tools_without_definition(&self) -> Vec<&ToolId> {
        let view = self.registry().view();
        let is_pinned = |tool: &ToolId| {
            view.snapshot().tool(tool).is_some_and(|rules| rules.entry().definition().is_some())
        };
        let tools = self.contract().tools().iter();
        tools.filter(|tool| is_pinned(tool) && !self.definitions.contains_key(tool)).collect()
    }

    /// Opens the session and creates or opens the files that it writes.
    ///
    /// # Errors
    /// A file that cannot be opened, and a mark that another process moved. A new record is rolled back.
    pub fn open(self) -> Result<OpenSession, HostError> {
        self.open_watched(&Exports::default())
    }

    /// Opens the session as [`open`](Self::open) does, with exports around the record.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_watched(mut self, exports: &Exports) -> Result<OpenSession, HostError> {
        let Files { log, number, stores, stats, alarm } = self.files()?;
        let sink = log.clone().map_or_else(|| Arc::new(MemorySink::keeping(0)) as _, |log| log as _);
        let sink = exports.around(sink);
        self.marks.raise_now().map_err(|error| registry_failure(error.into()))?;
        let id = self.contract().session().clone();
        follow_registry(self.session.registry(), self.registry_file, id, Arc::clone(&sink), self.reporter);
        let (recorded, refused_calls, on_breach) = (self.recorded, self.refused_calls, self.on_breach);
        let mut session = self.session.gate(move |gate| {
            gate.stats(stats).recorded_fields(recorded).refused_calls(refused_calls).on_breach(on_breach)
        });
        if let Some(until) = self.observe_until {
            session = session.gate(move |gate| gate.dangerous_observe(until));
        }
        if self.rule == Rule::Always {
            session = session.gate(ToolGateBuilder::plan_first);
        }
        if let (Some((config, keys)), Some(store)) = (self.approvals, &stores.approvals) {
            let spent = Arc::clone(store);
            let settings =
                ApprovalSettings::new(keys, spent, config.audience).max_lifetime(config.max_lifetime);
            let settings = match config.bindings {
                Bindings::Partial => settings.dangerous_accept_partial_bindings(),
                Bindings::Strict => settings,
            };
            let settings = if config.max_grant.is_zero() {
                settings
            } else {
                let grants = Arc::clone(store);
                settings.grants(grants, grant_keys(&config.key)?, config.max_grant)
            };
            session = session.gate(|gate| gate.approvals(settings));
        }
        if let (Some((verifier, _)), Some(spent)) = (self.proposals, stores.attestations) {
            session = session.gate(|gate| gate.proposals(ProposalSettings::new(verifier, spent)));
        }
        for (tool, definition) in self.definitions {
            session = session.gate(move |gate| gate.definition(tool, definition));
        }
        let gate = session.open(Arc::clone(&sink))?;
        exports.opened(gate.contract().agent(), log.as_ref());
        Ok(OpenSession {
            gate,
            sink,
            log,
            alarm,
            clock: self.clock,
            pending: stores.approvals,
            log_number: number,
        })
    }

    /// Opens the record and the stores, and restores the agent's state from them. On a failure, a new record is rolled
    /// back.
    fn files(&mut self) -> Result<Files, HostError> {
        let record = self.record.take().map(PreparedRecord::open).transpose()?;
        match self.watched_stores(record.as_ref()) {
            Ok((stores, stats, alarm)) => {
                let number = record.as_ref().map(|record| record.number);
                let (log, alarm) = (record.map(OpenRecord::in_use), alarm.map(Arc::new));
                alarm.iter().for_each(AlarmKeeper::watch);
                Ok(Files { log, number, stores, stats, alarm })
            }
            Err(failure) => {
                if let Some(record) = record {
                    record.roll_back();
                }
                Err(failure)
            }
        }
    }

    fn watched_stores(&self, record: Option<&OpenRecord>) -> Result<WatchedStores, HostError> {
        let stores = self.stores()?;
        let agent = self.contract().agent();
        let (stats, alarm) = self.signals.stats(stores.quarantines.clone(), agent, record, &self.reporter)?;
        Ok((stores, stats, alarm))
    }

    /// Opens the stores. Equal paths share one store.
    fn stores(&self) -> Result<Stores, HostError> {
        let mut opened: BTreeMap<&Path, Arc<SqliteStore>> = BTreeMap::new();
        if let Some((config, _)) = &self.approvals {
            let store = match config.making {
                StoreMaking::IfMissing => open_store(&config.store)?,
                StoreMaking::Never => open_existing_store(&config.store)?,
            };
            opened.insert(&config.store, Arc::new(store));
        }
        let approvals = opened.values().next().cloned();
        let mut open = |path| match opened.entry(path) {
            Entry::Occupied(there) => Ok(Arc::clone(there.get())),
            Entry::Vacant(free) => open_store(path).map(|store| Arc::clone(free.insert(Arc::new(store)))),
        };
        let attestations = match &self.proposals {
            None => None,
            Some((_, None)) => Some(Arc::new(MemorySpentTokens::new()) as Arc<dyn SpentTokens>),
            Some((verifier, Some(path))) => {
                let store = open(path)?;
                if let Some(created) = store.created() {
                    warn_of_older_than_store(verifier, created, &self.reporter);
                }
                Some(store as _)
            }
        };
        let quarantines = self.signals.store.as_deref().map(&mut open).transpose()?;
        Ok(Stores { approvals, attestations, quarantines })
    }
}

/// A request for a session, with tools by name.
#[derive(Clone, Debug)]
struct SessionRequest {
    session: SessionId,
    agent: AgentId,
    ttl: Option<Millis>,
    tools: Option<Vec<String>>,
    server: Option<ServerName>,
    max_age: Millis,
}

impl ConfigFile {
    /// Reads and verifies the registry in force. Creates no file.
    ///
    /// # Errors
    /// A registry, trust root or state that cannot be read or does not verify.
    pub fn current_registry(&self) -> Result<Arc<CapabilityRegistry>, HostError> {
        let root = read_trust_root(&self.registry.trust_root)?;
        let marks = Arc::new(DeferredHighWater::new(Some(&self.registry.state)));
        load_registry(&self.registry.file, &root, marks, self.registry.max_age(), now()?)
    }
}

impl ConfigFile {
    /// Prepares the verifier of proposals and the store of used attestations, for checks outside a session.
    ///
    /// # Errors
    /// `CONFIG_NO_PROPOSALS`, and an input that cannot be read or does not verify.
    pub fn proposal_verifier(
        &self,
        reporter: &Reporter,
    ) -> Result<(Arc<ProposalVerifier>, Arc<dyn SpentTokens>), HostError> {
        let missing = || HostError::new("CONFIG_NO_PROPOSALS", "`proposals` missing in the configuration");
        let plan = self.proposals()?.ok_or_else(missing)?;
        let root = read_trust_root(&self.registry.trust_root)?;
        let verifier = plan.prepare(&root, &*self.current_registry()?, now()?, reporter)?;
        let spent: Arc<dyn SpentTokens> = match &plan.store {
            Some(path) => Arc::new(open_store(path)?),
            None => Arc::new(MemorySpentTokens::new()),
        };
        Ok((verifier, spent))
    }
}

impl Config {
    /// Reads and checks all inputs of the session, and negotiates it. Creates no file.
    ///
    /// # Errors
    /// An input that cannot be read or does not verify, and a session that the registry refuses.
    pub fn prepare(self, reporter: &Reporter) -> Result<PreparedSession, HostError> {
        let now = now()?;
        let approvals = match self.approvals {
            Some(config) => {
                let keys = run_keys(&config.key, &config.run)?;
                Some((config, keys))
            }
            None => None,
        };
        let root = read_trust_root(&self.trust_root)?;
        let record = self.record.as_ref().map(|record| record.prepare(&root, now, reporter)).transpose()?;
        let marks = Arc::new(DeferredHighWater::new(self.state.as_deref()));
        let registry = load_registry(&self.registry, &root, Arc::clone(&marks), self.max_age, now)?;
        let recorded = self.record.as_ref().map(|record| record.arguments.clone()).unwrap_or_default();
        recorded.check(&registry).map_err(recorded_failure)?;
        let proposals = match &self.proposals {
            Some(plan) => Some((plan.prepare(&root, &registry, now, reporter)?, plan.store.clone())),
            None => None,
        };
        let Self { session, agent, ttl, tools, server, max_age, .. } = self;
        let request = SessionRequest { session, agent, ttl, tools, server, max_age };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let wanted = request.resolve(&registry, now)?;
        let mut builder = SessionBuilder::over(registry, Arc::clone(&clock), wanted, self.principal);
        if let Some(goal) = &self.goal {
            builder = builder.goal(goal);
        }
        Ok(PreparedSession {
            session: builder.negotiate().map_err(session_error)?,
            request,
            registry_file: self.registry,
            marks,
            clock,
            approvals,
            proposals,
            record,
            definitions: self.definitions,
            recorded,
            refused_calls: self.record.as_ref().map_or(RefusalRate::CALLS, |record| record.refused_calls),
            rule: self.rule,
            on_breach: self.on_breach,
            observe_until: self.observe_until,
            signals: self.signals,
            reporter: reporter.clone(),
        })
    }
}

/// Maps an error of the facade: a refused session is a refusal.
fn session_error(error: SessionError) -> HostError {
    let (code, text) = (error.code(), chain(&error));
    match error {
        SessionError::Negotiate(error) => HostError::from(error).into_refusal(),
        SessionError::Pin(error) => error.into(),
        SessionError::Open(error) => error.into(),
        SessionError::Clock | _ => HostError::new(code, text),
    }
}

fn load_registry(
    file: &Path,
    root: &TrustRoot,
    marks: Arc<DeferredHighWater>,
    max_age: Millis,
    now: Timestamp,
) -> Result<Arc<CapabilityRegistry>, HostError> {
    let bytes = read_trusted_file(file, REGISTRY_BYTES)?;
    let mut options = LoadOptions::default();
    options.max_age = max_age;
    let registry = CapabilityRegistry::load(&bytes, root, marks, options, now);
    registry.map(Arc::new).map_err(|error| registry_failure(error).about(file.display()))
}

impl SessionRequest {
    /// Resolves the tools' names under the registry in force.
    fn resolve(
        &self,
        registry: &CapabilityRegistry,
        now: Timestamp,
    ) -> Result<NegotiationRequest, HostError> {
        let mut request = NegotiationRequest::new(self.session.clone(), self.agent.clone());
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(names) = &self.tools {
            let entry = registry
                .lookup(&self.agent, self.max_age, now)
                .map_err(|error| HostError::from(error).into_refusal())?;
            let tools = names
                .iter()
                .map(|name| self.tool(name, entry.tools().iter()))
                .collect::<Result<Vec<_>, _>>()?;
            request = request.wanted_tools(Wanted::these(tools));
        }
        Ok(request)
    }

    /// Resolves a tool's name among the listed tools of the agent.
    fn tool<'a>(&self, name: &str, listed: impl Iterator<Item = &'a ToolId>) -> Result<ToolId, HostError> {
        if let Some((server, name)) = name.split_once(':') {
            return ToolId::new(server, name).map_err(|error| HostError::usage(error.to_string()));
        }
        let found: Vec<_> = listed.filter(|tool| tool.name().as_str() == name).collect();
        match (found.as_slice(), &self.server) {
            ([tool], _) => Ok((*tool).clone()),
            ([], _) => {
                let text = format!("no tool `{name}` is listed for the agent");
                Err(HostError::refused("CAPABILITY_NOT_LISTED", text))
            }
            (_, Some(server)) if found.iter().any(|tool| tool.server() == server) => {
                ToolId::new(server.as_str(), name).map_err(|error| HostError::usage(error.to_string()))
            }
            _ => Err(HostError::usage(format!("ambiguous tool name `{name}`: use server:{name}"))),
        }
    }
}

/// Opens or creates the file of spent tokens and pending approvals.
///
/// # Errors
/// A store that cannot be opened.
pub fn open_store(path: &Path) -> Result<SqliteStore, HostError> {
    SqliteStore::open(path, now()?).map_err(|error| HostError::from(error).about(path.display()))
}

/// Opens an existing store.
///
/// # Errors
/// A store that is missing or cannot be opened.
pub fn open_existing_store(path: &Path) -> Result<SqliteStore, HostError> {
    let failure = |error: StoreOpenError| {
        if !matches!(error, StoreOpenError::Missing) {
            return error.into();
        }
        let text = "store not found: `countersign store init` creates one, which refuses earlier approvals";
        HostError::new(error.code(), text)
    };
    SqliteStore::open_existing(path).map_err(|error| failure(error).about(path.display()))
}

/// Maps a registry error to a failure: an invalid registry is refused (exit 3), a mark that cannot be read or written
/// is an error (exit 1).
#[must_use]
pub fn registry_failure(error: RegistryError) -> HostError {
    use MarkError::{Corrupt, Full, Moved, Unavailable, Untrusted};
    let is_mishap =
        matches!(error, RegistryError::Mark(Corrupt | Full | Moved | Unavailable(_) | Untrusted(_)));
    let failure = HostError::from(error);
    if is_mishap { failure } else { failure.into_refusal() }
}
