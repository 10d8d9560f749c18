use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_core::{AgentId, Timestamp};
use parking_lot::Mutex;

use crate::alarm::{Alarm, AlarmAction, AlarmRule, AlarmState};
use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::snapshot::{AgentSnapshot, Standing};

/// What is counted and known of one agent over all its sessions.
#[derive(Debug)]
pub(crate) struct AgentRow {
    pub(crate) counts: Arc<Counts>,
    watch: Mutex<Watch>,
    /// Written under the lock of `watch` alone, read at every call.
    quarantined: AtomicBool,
}

#[derive(Debug)]
struct Watch {
    alarm: Alarm,
    action: AlarmAction,
    raised: Option<Timestamp>,
}

impl Watch {
    const fn new(rule: AlarmRule, action: AlarmAction) -> Self {
        Self { alarm: Alarm::new(rule), action, raised: None }
    }

    const fn reset(&mut self) {
        self.alarm.reset();
        self.raised = None;
    }
}

impl AgentRow {
    pub(crate) fn new(rule: AlarmRule, action: AlarmAction) -> Self {
        Self {
            counts: Arc::default(),
            watch: Mutex::new(Watch::new(rule, action)),
            quarantined: AtomicBool::new(false),
        }
    }

    pub(crate) fn count(&self, time: Timestamp, refused: Option<RejectionCode>) {
        self.counts.count(time, refused);
        if !refused.is_none_or(is_conduct) {
            return;
        }
        let mut watch = self.watch.lock();
        if watch.raised.is_none() && watch.alarm.observe(refused.is_none()) == AlarmState::Raised {
            watch.raised = Some(time);
            if watch.action == AlarmAction::Quarantine {
                self.quarantined.store(true, Ordering::SeqCst);
            }
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        if self.quarantined.load(Ordering::SeqCst) { Standing::Quarantined } else { Standing::Free }
    }

    pub(crate) fn quarantine(&self) {
        let _held = self.watch.lock();
        self.quarantined.store(true, Ordering::SeqCst);
    }

    /// Lifts the quarantine and starts the alarm anew, so that the old evidence does not raise it again at once. Says
    /// how the agent stood.
    pub(crate) fn lift(&self) -> Standing {
        let mut watch = self.watch.lock();
        let before = self.standing();
        watch.reset();
        self.quarantined.store(false, Ordering::SeqCst);
        before
    }

    pub(crate) fn reset_alarm(&self) {
        self.watch.lock().reset();
    }

    pub(crate) fn watch(&self, rule: AlarmRule, action: AlarmAction) {
        *self.watch.lock() = Watch::new(rule, action);
    }

    pub(crate) fn alarm(&self) -> AlarmState {
        self.watch.lock().alarm.state()
    }

    pub(crate) fn snapshot(&self, agent: AgentId) -> AgentSnapshot {
        let (alarm, alarm_raised, standing) = {
            let watch = self.watch.lock();
            (watch.alarm.clone(), watch.raised, self.standing())
        };
        AgentSnapshot {
            agent,
            counts: self.counts.snapshot(),
            alarm: alarm.state(),
            alarm_level: alarm.level(),
            alarm_raised,
            alarm_rule: *alarm.rule(),
            standing,
        }
    }
}

/// Whether a refusal says something of what the agent does. Step 1 is about whether it may call anything at all, and so is a goal
/// that has expired; a call that waits is not decided; a definition that changed is the server's doing, and a full disk or
/// a panic the host's: neither an outage nor a server must put every agent into quarantine.
const fn is_conduct(code: RejectionCode) -> bool {
    use RejectionCode::{
        ApprovalRequired, AskExpired, AuditUnavailable, Internal, StoreUnavailable, ToolDefinitionChanged,
    };
    code.step() != 1
        && !matches!(
            code,
            ToolDefinitionChanged
                | AskExpired
                | ApprovalRequired
                | StoreUnavailable
                | AuditUnavailable
                | Internal
        )
}
