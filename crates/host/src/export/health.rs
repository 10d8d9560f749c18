//! Gauges of the record's health.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use countersign_core::AgentId;
use metrics::{Gauge, Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::record::{RecordHealth, ReportingLog};
use crate::time::now;

const ENTRIES: &str = "countersign_record_entries";
const UNSYNCED: &str = "countersign_record_unsynced_entries";
const BYTES: &str = "countersign_record_bytes";
const SYNCED: &str = "countersign_record_synced_timestamp_seconds";
const KEPT: &str = "countersign_checkpoint_kept_timestamp_seconds";
const COSIGNED: &str = "countersign_checkpoint_cosigned_timestamp_seconds";

/// Names of all gauges.
pub(super) const RECORD_METRICS: [&str; 6] = [ENTRIES, UNSYNCED, BYTES, SYNCED, KEPT, COSIGNED];

/// Health of one session's record.
///
/// Times are those of the event, not ages: an age that a dead process left behind would stay small forever.
#[derive(Debug)]
pub(super) struct Health {
    agent: String,
    log: Weak<ReportingLog>,
}

impl Health {
    pub(super) fn new(agent: &AgentId, log: &Arc<ReportingLog>) -> Self {
        describe_gauge!(ENTRIES, Unit::Count, "Entries of the log that the gateway writes.");
        describe_gauge!(UNSYNCED, Unit::Count, "Entries that are not synced.");
        describe_gauge!(BYTES, Unit::Bytes, "Size of the log's segments.");
        describe_gauge!(SYNCED, Unit::Seconds, "Time of the last sync, in Unix time.");
        describe_gauge!(KEPT, Unit::Seconds, "Time of the last checkpoint in checkpoint_file, in Unix time.");
        describe_gauge!(
            COSIGNED,
            Unit::Seconds,
            "Time of the last cosignature in checkpoint_file, in Unix time."
        );
        Self { agent: agent.as_str().to_owned(), log: Arc::downgrade(log) }
    }

    /// Updates the gauges. A gauge with an unknown value is not set.
    pub(super) fn set(&self) {
        let Some(log) = self.log.upgrade() else { return };
        let RecordHealth { entries, unsynced, bytes, synced, kept, cosigned } = log.health();
        for (name, count) in [(ENTRIES, entries), (UNSYNCED, unsynced), (BYTES, bytes)] {
            #[expect(clippy::cast_precision_loss, reason = "a count, to 53 bits")]
            self.gauge(name, count as f64);
        }
        for (name, time) in [(SYNCED, synced), (KEPT, kept), (COSIGNED, cosigned)] {
            if let Some(time) = time.as_ref().map(Duration::as_secs_f64) {
                self.gauge(name, time);
            }
        }
    }

    fn gauge(&self, name: &'static str, value: f64) {
        gauge!(name, "agent" => self.agent.clone()).set(value);
    }
}

/// Renders the metrics and the time of rendering.
#[derive(Clone, Debug)]
pub(super) struct Rendering {
    pub(super) handle: PrometheusHandle,
    /// Missing until the session is open.
    pub(super) written: Arc<OnceLock<Gauge>>,
    /// Missing until the session is open, and without a record.
    pub(super) health: Arc<OnceLock<Health>>,
}

impl Rendering {
    pub(super) fn render(&self) -> String {
        if let (Some(written), Ok(now)) = (self.written.get(), now()) {
            written.set(Duration::from_millis(now.as_millis()).as_secs_f64());
        }
        if let Some(health) = self.health.get() {
            health.set();
        }
        self.handle.render()
    }
}
