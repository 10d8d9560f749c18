use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_core::{AgentId, Signal, Timestamp};
use parking_lot::Mutex;

use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::metrics::AgentMetrics;
use crate::quarantine::{BY_ALARM, BY_SIGNAL, KeptStanding, QuarantineError, Quarantines};
use crate::replay::AgentReplay;
use crate::snapshot::{AgentSnapshot, Standing};
use countersign_signals::{
    AgentSignals, AlarmAction, AlarmRule, AlarmState, Probe, QuarantineCause, ReplayedSignals, SignalRule,
};

/// Counts, alarm and standing of one agent over all its sessions.
#[derive(Debug)]
pub(crate) struct AgentRow {
    pub(crate) counts: Arc<Counts>,
    pub(crate) metrics: AgentMetrics,
    agent: AgentId,
    watch: Mutex<Watch>,
    /// Number of changes of its standing; odd while it is quarantined. Written only under the lock of `watch`, read at
    /// every call.
    changes: AtomicU64,
    /// The last change taken from the store. Held while the store is used. Lock order: `kept`, then `watch`.
    kept: Mutex<Option<KeptStanding>>,
}

#[derive(Debug)]
struct Watch {
    signals: AgentSignals,
    /// The last change of its standing.
    last: Option<StandingRecord>,
    /// A quarantine that is not in the store yet.
    unsaved: Option<StandingRecord>,
    /// Whether the last change was made between two processes, so that no record has it.
    untold: bool,
}

impl AgentRow {
    pub(crate) fn new(agent: &AgentId, signals: AgentSignals) -> Self {
        let watch = Watch { signals, last: None, unsaved: None, untold: false };
        Self {
            counts: Arc::new(Counts::in_one_part()),
            metrics: AgentMetrics::new(agent),
            agent: agent.clone(),
            watch: Mutex::new(watch),
            changes: AtomicU64::new(0),
            kept: Mutex::new(None),
        }
    }

    /// Counts one answer, and quarantines the agent if the answer raises the alarm, or a signal whose action is
    /// quarantine. Returns the signal that it raises, with its rule.
    pub(crate) fn count(
        &self,
        time: Timestamp,
        (refused, waits): (Option<RejectionCode>, bool),
        probe: Option<Probe>,
    ) -> Option<(Signal, SignalRule)> {
        self.counts.count(time, refused);
        self.metrics.decided(refused, &self.counts);
        let raised = probe.and_then(|probe| self.probe(time, probe));
        if !waits {
            self.observe(time, refused);
        }
        raised
    }

    /// Returns `true` if a signal counts a call that was not approved yet.
    pub(crate) fn has_asked(&self) -> bool {
        self.watch.lock().signals.probing().has_asked()
    }

    fn probe(&self, time: Timestamp, probe: Probe) -> Option<(Signal, SignalRule)> {
        let mut watch = self.watch.lock();
        let (signal, rule) = watch.signals.probe(time, probe)?;
        self.metrics.signals(watch.signals.probing());
        if let Some(cause) = QuarantineCause::of_signal(signal, rule) {
            self.quarantine(&mut watch, time, cause);
        }
        Some((signal, rule))
    }

    fn observe(&self, time: Timestamp, refused: Option<RejectionCode>) {
        if !refused.is_none_or(RejectionCode::is_conduct) {
            return;
        }
        let mut watch = self.watch.lock();
        if watch.signals.raised().is_some() {
            return;
        }
        if let Some(cause) = watch.signals.decide(time, refused.is_none()) {
            self.quarantine(&mut watch, time, cause);
        }
        self.metrics.alarm(watch.signals.alarm());
    }

    /// Quarantines the agent unless it is quarantined already.
    fn quarantine(&self, watch: &mut Watch, time: Timestamp, cause: QuarantineCause) {
        if self.standing() == Standing::Free {
            let by = match cause {
                QuarantineCause::Signal(..) => BY_SIGNAL,
                QuarantineCause::Alarm(_) => BY_ALARM,
            };
            let mut change = StandingRecord::new(time, self.agent.clone(), StandingChange::Quarantined, by);
            change.reason = Some(cause.to_string().as_str().into());
            watch.unsaved = Some(change.clone());
            self.apply(watch, change);
        }
    }

    /// Applies the change if it is one. An agent that is released starts with no evidence, so that the old evidence
    /// does not raise the alarm again at once.
    fn apply(&self, watch: &mut Watch, change: StandingRecord) {
        use Standing::{Free, Quarantined};
        let after = Standing::after(change.standing);
        let by = match (self.standing(), after) {
            (Free, Free) => 0,
            (Quarantined, Quarantined) if watch.last.as_ref() == Some(&change) => 0,
            (Quarantined, Quarantined) => 2,
            (Free, Quarantined) | (Quarantined, Free) => 1,
        };
        if after == Free {
            watch.unsaved = None;
            self.restart(watch);
        }
        watch.last = Some(change);
        watch.untold = false;
        self.changes.fetch_add(by, Ordering::SeqCst);
        self.metrics.standing(self.standing());
    }

    fn restart(&self, watch: &mut Watch) {
        watch.signals.restart();
        self.show(watch);
    }

    /// Returns the agent's standing as far as this process knows.
    pub(crate) fn standing(&self) -> Standing {
        standing_after(self.changes.load(Ordering::SeqCst))
    }

    /// Returns the number of changes of the agent's standing.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Returns the number of changes that the record of a newly opened gate already covers. A free agent needs no
    /// entry, unless the record ends with its quarantine.
    pub(crate) fn told(&self) -> u64 {
        let watch = self.watch.lock();
        let is_untold = watch.untold || self.standing() == Standing::Quarantined;
        self.changes().saturating_sub(u64::from(is_untold))
    }

    /// Returns the number of changes, and the last one.
    pub(crate) fn last_change(&self) -> (u64, Option<StandingRecord>) {
        let watch = self.watch.lock();
        (self.changes(), watch.last.clone())
    }

    /// Writes unsaved changes to the store, then takes the store's last change over.
    pub(crate) fn sync(&self, store: &dyn Quarantines) -> Result<(), QuarantineError> {
        self.sync_held(store, &mut self.kept.lock())
    }

    fn sync_held(
        &self,
        store: &dyn Quarantines,
        kept: &mut Option<KeptStanding>,
    ) -> Result<(), QuarantineError> {
        let unsaved = self.watch.lock().unsaved.clone();
        if let Some(change) = unsaved {
            guarded(|| store.change(&change))?;
            self.watch.lock().unsaved = None;
        }
        // A missing entry does not lift a quarantine.
        let Some(latest) = self.latest(store)? else { return Ok(()) };
        let mut watch = self.watch.lock();
        // A quarantine that the alarm has caused since is later than the store's change, and is written first.
        if watch.unsaved.is_none() && kept.as_ref() != Some(&latest) {
            self.apply(&mut watch, latest.change.clone());
            *kept = Some(latest);
        }
        drop(watch);
        Ok(())
    }

    fn latest(&self, store: &dyn Quarantines) -> Result<Option<KeptStanding>, QuarantineError> {
        let latest = guarded(|| store.latest(&self.agent))?;
        if latest.as_ref().is_some_and(|latest| latest.change.agent != self.agent) {
            return Err(QuarantineError::Unavailable("the store answered for another agent".into()));
        }
        Ok(latest)
    }

    /// Begins a replay of the agent's records by the rules in force now.
    pub(crate) fn replay(&self, store: Option<&dyn Quarantines>) -> Result<AgentReplay, QuarantineError> {
        let latest = store.map(|store| self.latest(store)).transpose()?.flatten();
        let lift = latest.filter(|latest| Standing::after(latest.change.standing) == Standing::Free);
        Ok(AgentReplay::new(self.agent.clone(), &self.watch.lock().signals, lift))
    }

    /// Resumes from a replay of the records of earlier processes.
    pub(crate) fn take_up(
        &self,
        store: Option<&dyn Quarantines>,
        replay: AgentReplay,
    ) -> Result<(), QuarantineError> {
        let AgentReplay { signals, lift } = replay;
        let mut kept = self.kept.lock();
        if !self.go_on(signals, lift.as_ref()) {
            return Ok(());
        }
        // The lift is taken into account already, and must not reset the alarm once more.
        *kept = lift;
        if let Some(store) = store {
            self.sync_held(store, &mut kept)?;
        }
        self.settle(store.is_some());
        store.map_or(Ok(()), |store| self.sync_held(store, &mut kept))
    }

    /// Restores the alarm; returns `false` if it has counted already.
    fn go_on(&self, past: ReplayedSignals, lift: Option<&KeptStanding>) -> bool {
        let mut watch = self.watch.lock();
        // Each answer is counted before it reaches the alarm, which needs the lock.
        if self.counts.total() > 0 {
            return false;
        }
        let quarantined = past.quarantined();
        watch.signals.resume(past);
        self.show(&watch);
        if let (Some(since), Some(KeptStanding { change, .. })) = (quarantined, lift)
            && change.time >= since
        {
            // It was lifted while no gate was open that could record the lift.
            watch.last = Some(change.clone());
            watch.untold = true;
            self.changes.fetch_add(2, Ordering::SeqCst);
        }
        true
    }

    /// Clears an alarm or signal that was raised in the session before: its effect ended with that session. If its
    /// action is a quarantine that the store does not have, the process ended too early, and the agent is quarantined
    /// now.
    fn settle(&self, is_kept: bool) {
        let mut watch = self.watch.lock();
        for (raised, cause) in watch.signals.settle(is_kept) {
            self.quarantine(&mut watch, raised, cause);
        }
        self.show(&watch);
    }

    /// Sets the gauges of alarm and signals.
    fn show(&self, watch: &Watch) {
        self.metrics.alarm(watch.signals.alarm());
        self.metrics.signals(watch.signals.probing());
    }

    /// Changes the agent's standing here and in the store, and returns the standing before. If the store fails, a
    /// quarantine still holds here, and a lift does not take effect.
    pub(crate) fn set_standing(
        &self,
        change: &StandingRecord,
        store: Option<&dyn Quarantines>,
    ) -> Result<Standing, QuarantineError> {
        let mut kept = self.kept.lock();
        let synced = store.map_or(Ok(()), |store| self.sync_held(store, &mut kept));
        let before = self.standing();
        if Standing::after(change.standing) == Standing::Free {
            synced?;
            if let Some(store) = store {
                guarded(|| store.change(change))?;
            }
            self.apply(&mut self.watch.lock(), change.clone());
        } else if before == Standing::Free {
            let mut watch = self.watch.lock();
            watch.unsaved = store.map(|_| change.clone());
            self.apply(&mut watch, change.clone());
        }
        if let Some(store) = store {
            self.sync_held(store, &mut kept)?;
        }
        Ok(before)
    }

    pub(crate) fn reset_alarm(&self) {
        self.restart(&mut self.watch.lock());
    }

    pub(crate) fn watch(&self, rule: AlarmRule, action: AlarmAction) {
        let mut watch = self.watch.lock();
        watch.signals.watch(rule, action);
        self.show(&watch);
    }

    pub(crate) fn alarm(&self) -> AlarmState {
        self.watch.lock().signals.alarm().state()
    }

    /// Returns the time at which the signal was raised.
    pub(crate) fn signal(&self, signal: Signal) -> Option<Timestamp> {
        self.watch.lock().signals.probing().find(signal).1
    }

    pub(crate) fn snapshot(&self, agent: AgentId) -> AgentSnapshot {
        let (alarm, alarm_raised, standing, signals) = {
            let watch = self.watch.lock();
            let raised = |signal: &Signal| Some((*signal, watch.signals.probing().find(*signal).1?));
            let signals = Signal::ALL.iter().filter_map(raised).collect();
            (watch.signals.alarm().clone(), watch.signals.raised(), self.standing(), signals)
        };
        AgentSnapshot {
            agent,
            counts: self.counts.snapshot(),
            alarm: alarm.state(),
            alarm_level: alarm.level(),
            alarm_raised,
            alarm_rule: *alarm.rule(),
            standing,
            signals,
        }
    }
}

/// Returns an agent's standing after this number of changes.
pub(crate) const fn standing_after(changes: u64) -> Standing {
    if changes & 1 == 1 { Standing::Quarantined } else { Standing::Free }
}

/// Calls the store, which can be the host's code and panic.
fn guarded<T>(ask: impl FnOnce() -> Result<T, QuarantineError>) -> Result<T, QuarantineError> {
    catch_unwind(AssertUnwindSafe(ask))
        .unwrap_or_else(|_| Err(QuarantineError::Unavailable("the store panicked".into())))
}
