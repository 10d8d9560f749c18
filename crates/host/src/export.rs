//! Exports of the process besides its record: metrics, and a span of each call.
//!
//! Both are for monitoring. Neither makes, delays or proves a decision: the record is the proof. Each is a feature of
//! this crate. A configuration that needs a missing feature stops the start.

#[cfg(feature = "prometheus")]
mod earlier;
#[cfg(feature = "prometheus")]
mod health;
#[cfg(feature = "prometheus")]
mod metrics;
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

use crate::error::HostError;
use crate::record::ReportingLog;
use crate::report::Reporter;

#[cfg(feature = "prometheus")]
pub(crate) use metrics::MetricsPart;
#[cfg(feature = "otel")]
pub(crate) use traces::TracesPart;

// A configuration part without its feature: any content is accepted here, and refused later.
#[cfg(not(feature = "prometheus"))]
pub(crate) use serde::de::IgnoredAny as MetricsPart;
// A configuration part without its feature: any content is accepted here, and refused later.
#[cfg(not(feature = "otel"))]
pub(crate) use serde::de::IgnoredAny as TracesPart;

/// The kind of process that exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two kinds of process open sessions")]
pub enum Process {
    /// A gateway of one session. It writes its metrics to a file.
    Gateway,
    /// `countersign serve`. It answers its metrics over HTTP, with the counts of the gateway's file.
    Service,
}

/// The exports of a process. Dropping it writes the last metrics and sends the last spans.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Exports {
    #[cfg(feature = "prometheus")]
    metrics: Option<metrics::Metrics>,
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
}

impl Exports {
    /// Prepares the configured exports. Metrics are counted from here on; no file is created and nothing is sent.
    pub(crate) fn prepare(
        metrics: Option<&MetricsPart>,
        traces: Option<&TracesPart>,
        process: Process,
        reporter: &Reporter,
    ) -> Result<Self, HostError> {
        #[cfg(not(feature = "prometheus"))]
        if metrics.is_some() {
            return Err(missing("metrics", "prometheus"));
        }
        #[cfg(not(feature = "otel"))]
        if traces.is_some() {
            return Err(missing("traces", "otel"));
        }
        #[cfg(feature = "prometheus")]
        if let (Process::Gateway, Some(part)) = (process, metrics) {
            part.check_gateway()?;
        }
        let _ = (process, reporter);
        Ok(Self {
            #[cfg(feature = "prometheus")]
            metrics: metrics.map(|part| metrics::Metrics::prepare(part, reporter)).transpose()?,
            #[cfg(feature = "otel")]
            traces: traces.map(|part| traces::Traces::prepare(part, reporter)).transpose()?,
        })
    }

    /// Wraps the sink, so that each call that it keeps becomes a span.
    pub(crate) fn around(&self, sink: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            return traces.around(sink);
        }
        sink
    }

    /// Starts a gateway's exports, from the counts of earlier sessions. why: an unwritable file fails here, before a session is
    /// recorded.
    ///
    /// # Errors
    /// A file that cannot be written or is in use.
    pub fn begin(&mut self, registry: &CapabilityRegistry) -> Result<(), HostError> {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &mut self.metrics {
            return metrics.begin(&registry.current());
        }
        let _ = registry;
        Ok(())
    }

    /// Starts the service's exports.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn begin_service(&mut self) -> Result<(), HostError> {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &mut self.metrics {
            return metrics.begin_service();
        }
        Ok(())
    }

    /// Returns the service's metrics in Prometheus' text format, if they are counted. The counts of the gateway's file are added.
    ///
    /// # Errors
    /// `METRICS_DAMAGED`: no gateway wrote the file in this form.
    pub fn text(&self, registry: &CapabilityRegistry) -> Result<Option<String>, HostError> {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            return metrics.text(&registry.current()).map(Some);
        }
        let _ = registry;
        Ok(None)
    }

    /// Exports the metrics of a session that has just opened, and the health of its record.
    pub(crate) fn opened(&self, agent: &AgentId, log: Option<&Arc<ReportingLog>>) {
        #[cfg(feature = "prometheus")]
        if let Some(metrics) = &self.metrics {
            metrics.opened(agent, log);
        }
        let _ = (agent, log);
    }
}

/// Iterates over all paths in the configuration's part.
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
fn missing(part: &str, feature: &str) -> HostError {
    let build = "cargo install --path crates/cli --features prometheus,otel";
    HostError::new("FEATURE_MISSING", format!("`{part}` needs a build with the feature `{feature}`: {build}"))
}
