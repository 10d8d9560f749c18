//! Replaces `metrics.rs` without the feature `metrics`: nothing is emitted and nothing is kept.

use std::sync::Arc;

use countersign_audit_log::OutcomeKind;
use countersign_core::{AgentId, Timestamp, ToolId};

use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::snapshot::Standing;
use countersign_signals::{Alarm, Probing};

#[derive(Debug, Default)]
pub(crate) struct ProcessMetrics;

impl ProcessMetrics {
    pub(crate) const fn describe(&self) {}

    pub(crate) const fn answer_took(&self, _nanos: u64) {}

    pub(crate) const fn outcome(&self, _outcome: OutcomeKind) {}
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Summed {}

impl Summed {
    pub(crate) const fn count(&self) {}
}

#[derive(Debug)]
pub(crate) struct AgentMetrics;

impl AgentMetrics {
    pub(crate) const fn new(_agent: &AgentId) -> Self {
        Self
    }

    pub(crate) const fn session_started(&self, _time: Timestamp) {}

    pub(crate) const fn summed_calls(&self) -> Summed {
        Summed {}
    }

    pub(crate) const fn summed_messages(&self) -> Summed {
        Summed {}
    }

    pub(crate) fn tool(&self, _tool: &ToolId) -> Arc<AnswerMetrics> {
        Arc::new(AnswerMetrics)
    }

    pub(crate) const fn unknown(&self) -> &AnswerMetrics {
        &AnswerMetrics
    }

    pub(crate) const fn decided(&self, _refused: Option<RejectionCode>, _counts: &Counts) {}

    pub(crate) const fn alarm(&self, _alarm: &Alarm) {}

    pub(crate) const fn signals(&self, _probing: &Probing) {}

    pub(crate) const fn standing(&self, _standing: Standing) {}
}

#[derive(Debug)]
pub(crate) struct AnswerMetrics;

impl AnswerMetrics {
    pub(crate) const fn count(&self, _refused: Option<RejectionCode>) {}
}
