//! What leaves the process besides its record: metrics, and a span of each call.
//!
//! Both are for watching. Neither decides anything, holds up a decision or proves anything: what happened is in the record.
//! Each is a feature of this crate, and a configuration that asks for one that was not built in stops the start.

#[cfg(feature = "prometheus")]
mod earlier;
#[cfg(feature = "prometheus")]
mod health;
#[cfg(feature = "prometheus")]
mod metrics;
#[cfg(feature = "prometheus")]
mod scrape;
#[cfg(feature = "otel")]
mod send;
#[cfg(feature = "otel")]
mod spans;
#[cfg(feature = "otel")]
mod traces;

use std::path::PathBuf;
use std::sync::Arc;

use countersign_audit_log::AuditSink;
use countersign_core::AgentId;
use countersign_registry::CapabilityRegistry;

use crate::failure::Failure;
use crate::record::ToldLog;

#[cfg(feature = "prometheus")]
pub(crate) use metrics::MetricsPart;
#[cfg(feature = "otel")]
pub(crate) use traces::TracesPart;

/// The part of a configuration whose feature was not built in: whatever it says.
#[cfg(not(feature = "prometheus"))]
pub(crate) type MetricsPart = serde::de::IgnoredAny;
/// The part of a configuration whose feature was not built in: whatever it says.
#[cfg(not(feature = "otel"))]
pub(crate) type TracesPart = serde::de::IgnoredAny;

/// What a gateway exports. It ends when this goes: the last metrics are written, the last spans sent.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    #[cfg(feature = "prometheus")]
    metrics: Option<metrics::Metrics>,
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
}

impl Exports {
    /// Prepares what the configuration asks for. From here on metrics are counted; no file was made, and nothing sent.
    pub(crate) fn prepare(
        metrics: Option<&MetricsPart>,
        traces: Option<&TracesPart>,
    ) -> Result<Self, Failure> {
        #[cfg(not(feature = "prometheus"))]
        if metrics.is_some() {
            return Err(missing("metrics", "prometheus"));
        }
        #[cfg(not(feature = "otel"))]
        if traces.is_some() {
            return Err(missing("traces", "otel"));
        }
        Ok(Self {
            #[cfg(feature = "prometheus")]
            metrics: metrics.map(metrics::Metrics::prepare).transpose()?,
            #[cfg(feature = "otel")]
            traces: traces.map(traces::Traces::prepare).transpose()?,
        })
    }

    /// The sink, with a span made of each call that it keeps.
    pub(crate) fn around(&self, sink: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            return traces.around(sink);
        }
        sink
    }

    /// Begins to write and to answer, from the counts that earlier sessions left. What cannot be written is known before a session is on record.
    pub(crate) fn begin(&mut self, registry: &CapabilityRegistry) -> Result<(), Failure> {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &mut self.metrics {
            return metrics.begin(&registry.current());
        }
        let _ = registry;
        Ok(())
    }

    /// Exports what there is of the agent's session, which was opened, and how its record fares.
    pub(crate) fn opened(&self, agent: &AgentId, log: Option<&Arc<ToldLog>>) {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            metrics.opened(agent, log);
        }
        let _ = (agent, log);
    }
}

/// Every path in the configuration's part.
pub(crate) fn paths(metrics: &mut Option<MetricsPart>) -> impl Iterator<Item = &mut PathBuf> {
    #[cfg(feature = "prometheus")]
    return metrics.iter_mut().flat_map(MetricsPart::paths);
    #[cfg(not(feature = "prometheus"))]
    {
        let _ = metrics;
        std::iter::empty()
    }
}

#[cfg(not(all(feature = "prometheus", feature = "otel")))]
fn missing(part: &str, feature: &str) -> Failure {
    let build = "cargo install --path crates/cli --features prometheus,otel";
    Failure::new("FEATURE_MISSING", format!("`{part}` needs a build with the feature `{feature}`: {build}"))
}
