use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_audit_log::{
    CallRecord, Record, RefusedRecord, SeenSums, SessionRecord, StandingChange, Verdict,
};
use countersign_core::{AgentId, SessionId};
use countersign_registry::RegistryView;
use countersign_tool_gate::{RejectionCode, Standing};

use crate::answer::{Answer, Basis, End, HostChecks, Missing, Simulated};
use crate::redecide::Redecision;
use crate::session::{CallHistory, Gates, Session};

/// Default for the number of sessions that are kept at a time.
const MAX_SESSIONS: usize = 1_024;

/// Decides recorded calls again by another registry.
///
/// Its input is the entries of a record in order ([`feed`](Self::feed)). For each decision it returns whether the
/// answer would have been the same. It runs the gate's own checks in the gate's order:
///
/// - Every session gets the contract that it would have been given at its beginning: all tools that the other registry
///   lists for the agent, or those of its own tools that are listed if it had requested fewer. The contract lasts at
///   most as long as the recorded one.
/// - A session is renewed at the recorded time, and gets the contract that it would have been given then. Before, it
///   ends with the contract that it would have had.
/// - A session that others led to is negotiated for each of their agents, but the record does not name those sessions.
///   So its answers are carried over at best. If its parents may have ended earlier under the other registry, or it may
///   have had more, they are undetermined.
/// - Limits are counted over the calls that the session would have been allowed.
/// - Arguments are checked if the record has all of them ([`RecordedFields`](countersign_tool_gate::RecordedFields), the empty
///   pointer).
/// - An approval that verified then counts as present if one is needed now. A call without a recorded approval had
///   none.
/// - Agents are quarantined as recorded. A plan is made for one registry, and is not checked against another one.
///
/// An input that an answer needs may not be recorded. Then the recorded answer is *carried over*, if nothing that it
/// depends on differs: that is known if the registry that was in force is given too ([`was`](Self::was)), or is the
/// other one itself. Otherwise the decision is *undetermined*; whether its session's limits leave anything for later
/// calls is then unknown as well. Nothing is guessed, least of all how an agent would have reacted to another answer.
/// The record does not have a call's inputs for steps that were not reached: for example, a call that was refused at
/// step 4, and passes it now, is undetermined.
///
/// A registry is identified by its version. The other one is taken to be in force at every moment, whatever its issue
/// and expiry; but for a call that was decided under that very version, its time counts. At most 1,024 sessions are
/// kept; the oldest is dropped first.
///
/// ```
/// use std::sync::Arc;
/// use countersign_audit_log::Record;
/// use countersign_registry::RegistryView;
/// use countersign_simulate::{Simulated, Simulation};
/// fn changes(records: &[(u64, Record)], draft: Arc<RegistryView>) -> Vec<u64> {
///     let mut simulation = Simulation::new(draft);
///     let answers = records.iter().map(|(seq, record)| (*seq, simulation.feed(record)));
///     answers.filter(|(_, answer)| matches!(answer, Some(Simulated::Changed { .. }))).map(|(seq, _)| seq).collect()
/// }
/// ```
#[derive(Debug)]
pub struct Simulation {
    registry: Arc<RegistryView>,
    in_force: RegistryView,
    was: BTreeMap<u64, Arc<RegistryView>>,
    checks: HostChecks,
    max_sessions: usize,
    sessions: BTreeMap<SessionId, Session>,
    /// Number of sessions so far.
    opened: u64,
    /// Agents that are quarantined.
    quarantined: BTreeSet<AgentId>,
    sums: SeenSums,
}

impl Simulation {
    /// Starts with the other registry and an empty record.
    #[must_use]
    pub fn new(registry: Arc<RegistryView>) -> Self {
        Self {
            in_force: registry.dangerous_always_in_force(),
            registry,
            was: BTreeMap::new(),
            checks: HostChecks::default(),
            max_sessions: MAX_SESSIONS,
            sessions: BTreeMap::new(),
            opened: 0,
            quarantined: BTreeSet::new(),
            sums: SeenSums::new(),
        }
    }

    /// Adds a registry that was in force, keyed by its version. May be called several times.
    #[must_use]
    pub fn was(mut self, registry: Arc<RegistryView>) -> Self {
        self.was.insert(registry.snapshot().version(), registry);
        self
    }

    /// Sets whether the gates had checks of their host's own. By default, they may have had some.
    #[must_use]
    pub const fn host_checks(mut self, checks: HostChecks) -> Self {
        self.checks = checks;
        self
    }

    /// Sets the number of sessions that are kept at a time, at least one. Each needs about as much memory as its
    /// contract.
    #[must_use]
    pub const fn max_sessions(mut self, most: usize) -> Self {
        self.max_sessions = if most == 0 { 1 } else { most };
        self
    }

    /// Takes the next entry of the record. Returns the result for a decision. For a sum of refusals it returns the
    /// result for each of them, which is always undetermined ([`Missing::Sum`]).
    pub fn feed(&mut self, record: &Record) -> Option<Simulated> {
        match record {
            Record::Session(session) if session.code.is_some() => {}
            Record::Session(session) if session.renewed => self.renew(session),
            Record::Session(session) => self.open(session),
            Record::Decision(call) => return Some(self.decide(call)),
            Record::Refused(sum) => return self.summed(sum),
            Record::Standing(change) if change.standing == StandingChange::Quarantined => {
                self.quarantined.insert(change.agent.clone());
            }
            Record::Standing(change) => {
                self.quarantined.remove(&change.agent);
            }
            Record::Outcome(_) | Record::Gateway(_) | Record::Recovered(_) | _ => {}
        }
        None
    }

    /// Calls that are recorded as a sum cannot be decided again, and may count for the limits of later ones.
    fn summed(&mut self, sum: &RefusedRecord) -> Option<Simulated> {
        sum.agent.as_ref()?;
        if !self.sums.is_new(sum) {
            return None;
        }
        if let Some(session) = self.sessions.get_mut(&sum.session) {
            session.note(CallHistory::Unclear);
        }
        Some(Simulated::Undetermined(Missing::Sum))
    }

    fn open(&mut self, record: &SessionRecord) {
        if self.sessions.len() >= self.max_sessions {
            self.sessions.retain(|_, session| session.expires > record.time);
        }
        while self.sessions.len() >= self.max_sessions {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.opened);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            self.sessions.remove(&oldest);
        }
        self.opened = self.opened.saturating_add(1);
        let was = self.known(record.registry_version);
        let mut session = Session::open(self.opened, record, &self.in_force, was.map(|view| view.snapshot()));
        if self.sessions.contains_key(&record.session) {
            session.gates = Gates::Several;
        }
        self.sessions.insert(record.session.clone(), session);
    }

    /// Renews a session that is kept. The earlier state of any other session is unknown, so it stays unknown.
    fn renew(&mut self, record: &SessionRecord) {
        let was = self.known(record.registry_version).map(RegistryView::snapshot);
        let renewed = Session::open(self.opened, record, &self.in_force, was);
        if let Some(session) = self.sessions.get_mut(&record.session).filter(|it| it.line == renewed.line) {
            session.renew(renewed);
        }
    }

    /// Returns the registry of that version, if it was given.
    fn known(&self, version: u64) -> Option<&RegistryView> {
        if version == self.registry.snapshot().version() {
            return Some(&self.registry);
        }
        self.was.get(&version).map(|view| &**view)
    }

    fn decide(&mut self, call: &CallRecord) -> Simulated {
        let Self { registry, in_force, was, sessions, .. } = self;
        let is_of = |session: &&mut Session| session.line.last() == Some(&call.agent);
        let Some(session) = sessions.get_mut(&call.session).filter(is_of) else {
            return Simulated::Undetermined(Missing::Session);
        };
        let version = registry.snapshot().version();
        let same_version = call.registry_version == version;
        // The same checks by the same registry: if the answer differs, its reason is not recorded.
        let same_gate =
            same_version && session.version == version && session.history == CallHistory::AsRecorded;
        let simulated = match Recorded::of(call) {
            Recorded::Anyway(missing) => Simulated::Same(Basis::Carried(missing)),
            Recorded::Unclear(missing) => Simulated::Undetermined(missing),
            Recorded::Answer(recorded) => {
                let known = if same_version { Some(&*registry) } else { was.get(&call.registry_version) };
                let is_quarantined = session.line.iter().any(|agent| self.quarantined.contains(agent));
                let mut redecision = Redecision {
                    call,
                    refused: recorded.code(),
                    session,
                    same_gate,
                    view: if same_version { registry } else { in_force },
                    was: known.map(|view| view.snapshot()),
                    standing: if is_quarantined { Standing::Quarantined } else { Standing::Free },
                    checks: self.checks,
                    carried: None,
                };
                let end = redecision.decide();
                let basis = redecision.carried.map_or(Basis::Redecided, Basis::Carried);
                let compare = |now| {
                    if now == recorded {
                        Simulated::Same(basis)
                    } else {
                        Simulated::Changed { recorded, now, basis }
                    }
                };
                match end {
                    Ok(place) => {
                        if recorded == Answer::Accepted || !same_gate {
                            place.keep();
                        }
                        compare(Answer::Accepted)
                    }
                    Err(End::Refused(code)) => compare(Answer::Refused(code)),
                    Err(End::Unknown(missing)) => Simulated::Undetermined(missing),
                }
            }
        };
        let simulated = if same_gate { simulated.as_recorded() } else { simulated };
        session.note(match simulated {
            Simulated::Same(_) => CallHistory::AsRecorded,
            Simulated::Changed { .. } => CallHistory::Changed,
            Simulated::Undetermined(_) => CallHistory::Unclear,
        });
        simulated
    }
}

/// A recorded decision.
enum Recorded {
    Answer(Answer),
    /// The answer does not depend on the registry.
    Anyway(Missing),
    /// The record does not show which check gave which result.
    Unclear(Missing),
}

impl Recorded {
    fn of(call: &CallRecord) -> Self {
        if call.about_plan {
            return Self::Unclear(Missing::Plan);
        }
        if call.verdict == Verdict::Accept {
            return Self::Answer(Answer::Accepted);
        }
        match call.code.as_ref().and_then(|code| RejectionCode::from_code(code.as_str())) {
            None => Self::Unclear(Missing::Code),
            Some(RejectionCode::Internal) => Self::Unclear(Missing::Host),
            // An earlier lost outcome is not recorded, and is checked before anything else.
            Some(RejectionCode::AuditUnavailable) => Self::Anyway(Missing::Host),
            Some(code) => Self::Answer(Answer::Refused(code)),
        }
    }
}
