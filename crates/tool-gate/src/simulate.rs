//! What another registry would have answered to the calls that are on record.

mod answer;
mod redecide;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_audit_log::{
    CallRecord, Record, RefusedRecord, SeenSums, SessionRecord, StandingChange, Verdict,
};
use countersign_core::{AgentId, SessionId};
use countersign_registry::RegistryView;

use self::answer::End;
pub use self::answer::{Answer, Basis, HostChecks, Missing, Simulated};
use self::redecide::Redecision;
use self::session::{CallHistory, Gates, Session};
use crate::code::RejectionCode;
use crate::snapshot::Standing;

/// How many sessions are held at a time, unless said otherwise.
const MAX_SESSIONS: usize = 1_024;

/// Decides calls that are on record again, by another registry.
///
/// It is fed with the entries of a record in order ([`feed`](Self::feed)) and says of each decision whether the answer
/// would have been the same. It asks the gate's own questions in the gate's order:
///
/// - Every session gets the contract that it would have been given at its beginning: all that the other registry lists for the
///   agent, or what is listed of its own tools where it had asked for fewer, for as long as it lasted at most.
/// - A session is renewed when it was on record, and gets the contract that it would have been given then. Before, it ends where its
///   contract would have ended.
/// - A session that others led to goes through all of their agents, but which sessions those were is not on record. So its answers
///   are carried over at best; where another registry may have let its parents end earlier, or give it more than it had, they
///   are undetermined.
/// - Limits are counted over what the session would have been allowed.
/// - Arguments are looked at where the record has all of them ([`RecordedFields`](crate::RecordedFields), the empty pointer).
/// - An approval that verified then counts as there, where one is needed now; where none is on record, there was none.
/// - Agents are quarantined as they were, and a plan, which is made for one registry, is not held against another one.
///
/// What an answer needs and the record has not is *carried over* from the answer on record, if nothing differs that it
/// depends on: that is known where the registry that was in force is given too ([`was`](Self::was)), or is the other one
/// itself. Otherwise the decision is *undetermined*; whether limits of its session leave anything for later calls is not known
/// either, then. Nothing is guessed, above all not what an agent would have done after another answer. In particular, the
/// record does not have what came along with a call for steps that were not asked then: a call that was refused at step 4,
/// say, and gets past it now, is undetermined.
///
/// A registry is known by its version. The other one is taken to be in force at every moment, whenever it was issued and
/// expires; but for a call that was decided under that very version, its time counts. At most 1,024 sessions are held;
/// the oldest goes first.
///
/// ```
/// use std::sync::Arc;
/// use countersign_audit_log::Record;
/// use countersign_registry::RegistryView;
/// use countersign_tool_gate::{Simulated, Simulation};
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
    /// How many sessions there were.
    opened: u64,
    /// One name for each agent that is in quarantine.
    quarantined: BTreeSet<AgentId>,
    sums: SeenSums,
}

impl Simulation {
    /// Starts with the other registry, and nothing on record.
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

    /// Adds a registry that was in force, by its version. There may be several.
    #[must_use]
    pub fn was(mut self, registry: Arc<RegistryView>) -> Self {
        self.was.insert(registry.snapshot().version(), registry);
        self
    }

    /// Says whether the gates had checks of their host's own. Without it, they may have had some.
    #[must_use]
    pub const fn host_checks(mut self, checks: HostChecks) -> Self {
        self.checks = checks;
        self
    }

    /// Sets how many sessions are held at a time, one at least. Each takes about as much as its contract.
    #[must_use]
    pub const fn max_sessions(mut self, most: usize) -> Self {
        self.max_sessions = if most == 0 { 1 } else { most };
        self
    }

    /// Takes the next entry of the record. Says what becomes of it, if it is a decision; of a sum of refusals, what becomes of each of
    /// them, which always is undetermined ([`Missing::Sum`]).
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

    /// Calls that are on record as a sum cannot be decided again, and may count for the limits of later ones.
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

    /// Renews a session that is held. What came before is not known of another one, so it stays unknown.
    fn renew(&mut self, record: &SessionRecord) {
        let was = self.known(record.registry_version).map(RegistryView::snapshot);
        let renewed = Session::open(self.opened, record, &self.in_force, was);
        if let Some(session) = self.sessions.get_mut(&record.session).filter(|it| it.line == renewed.line) {
            session.renew(renewed);
        }
    }

    /// The registry of that version, as far as it was given.
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
        // The same questions of the same registry: if the answer is another one, the reason is not on record.
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

/// What the record says of a decision.
enum Recorded {
    Answer(Answer),
    /// No registry has a part in it.
    Anyway(Missing),
    /// It is not known what came of which question.
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
            // An earlier outcome is not on record: it is asked before anything else.
            Some(RejectionCode::AuditUnavailable) => Self::Anyway(Missing::Host),
            Some(code) => Self::Answer(Answer::Refused(code)),
        }
    }
}
