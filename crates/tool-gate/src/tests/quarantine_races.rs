//! Races between a store of quarantines and the alarm.

use std::sync::Arc;

use super::signals::{agent, standing};
use super::world::start;
use crate::agent_row::AgentRow;
use crate::*;
use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_core::AgentId;
use countersign_signals::{AgentSignals, Probing};
use parking_lot::Mutex;

/// A store that returns a preset answer after a change to the agent's row.
#[derive(Debug)]
struct Late {
    says: Mutex<KeptStanding>,
    meanwhile: Mutex<Option<Arc<AgentRow>>>,
}

impl Late {
    fn saying(number: u64, change: StandingChange, by: &str) -> Self {
        let says = KeptStanding { number, change: standing(&agent(), change, by) };
        Self { says: Mutex::new(says), meanwhile: Mutex::new(None) }
    }
}

impl Quarantines for Late {
    fn latest(&self, _: &AgentId) -> Result<Option<KeptStanding>, QuarantineError> {
        let said = self.says.lock().clone();
        if let Some(row) = self.meanwhile.lock().take() {
            for _ in 0..9 {
                row.count(start(), (Some(RejectionCode::ArgsSchema), false), None);
            }
        }
        Ok(Some(said))
    }

    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        let mut says = self.says.lock();
        let before = Standing::after(says.change.standing);
        *says = KeptStanding { number: says.number + 1, change: change.clone() };
        Ok(before)
    }

    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError> {
        Ok(vec![self.says.lock().change.clone()])
    }
}

fn row() -> Arc<AgentRow> {
    let [asked, undisclosed] = [Signal::Asked, Signal::Undisclosed].map(SignalRule::usual);
    let probing = Probing::new(asked, undisclosed);
    let signals = AgentSignals::new(AlarmRule::default(), AlarmAction::Quarantine, probing);
    Arc::new(AgentRow::new(&agent(), signals))
}

#[test]
fn old_lift_does_not_undo_a_concurrent_alarm() {
    let (row, store) = (row(), Late::saying(2, StandingChange::Lifted, "ada"));
    *store.meanwhile.lock() = Some(Arc::clone(&row));
    row.sync(&store).unwrap();
    assert_eq!((row.standing(), row.alarm()), (Standing::Quarantined, AlarmState::Raised));
    row.sync(&store).unwrap();
    assert_eq!(row.standing(), Standing::Quarantined);
    assert_eq!(store.says.lock().change.by.as_str(), BY_ALARM, "and it is kept at the next call");
}

#[test]
fn another_change_under_a_number_that_was_there_before_counts() {
    let (row, store) = (row(), Late::saying(3, StandingChange::Lifted, "ada"));
    row.sync(&store).unwrap();
    assert_eq!(row.standing(), Standing::Free);
    // An older copy of the store was restored, and counted on from there.
    store.says.lock().change = standing(&agent(), StandingChange::Quarantined, "grace");
    row.sync(&store).unwrap();
    assert_eq!(row.standing(), Standing::Quarantined);
}
