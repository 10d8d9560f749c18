//! Sends a span of each call to a collector by OTLP over HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_audit_log::AuditSink;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanProcessor,
};
use serde::Deserialize;

use super::send::{CollectorUrl, REQUEST, Sender};
use super::spans::{CallSpans, SpanCounts};
use crate::error::HostError;
use crate::report::Reporter;

/// Time limit for the last spans at the end.
const FAREWELL: Duration = Duration::from_secs(4);
/// Most spans that wait to be sent; further spans are lost.
const QUEUE: usize = 2_048;
/// Most spans in one request.
const BATCH: usize = 512;
/// Interval at which spans are sent.
const PAUSE: Duration = Duration::from_secs(5);

/// The `[traces]` table of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TracesPart {
    endpoint: CollectorUrl,
    #[serde(default)]
    dangerous_plain_http: bool,
    service_name: Option<String>,
}

/// Spans of this process on their way to a collector.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tally: Arc<SpanCounts>,
    reporter: Reporter,
}

impl Traces {
    /// Prepares the exporter. Sends nothing yet.
    pub(crate) fn prepare(part: &TracesPart, reporter: &Reporter) -> Result<Self, HostError> {
        let sender = Sender::new(&part.endpoint, part.dangerous_plain_http.into())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(part.endpoint.as_str())
            .with_timeout(REQUEST)
            .build()
            // The library's error text could quote a header, which is a secret.
            .map_err(|_| HostError::new("TRACES_EXPORTER", "invalid OTLP settings in the environment"))?;
        let tally = Arc::new(SpanCounts::default());
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(PAUSE)
            .build();
        let counted = CountingExporter { exporter, tally: Arc::clone(&tally) };
        let name = part.service_name.clone().unwrap_or_else(|| "countersign".to_owned());
        let provider = provider(name, BatchSpanProcessor::new(counted, config));
        Ok(Self { provider, tally, reporter: reporter.clone() })
    }

    /// Wraps the sink, so that each call that it keeps becomes a span.
    pub(crate) fn around(&self, sink: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        let scope = InstrumentationScope::builder("countersign").with_version(env!("CARGO_PKG_VERSION"));
        let tracer = self.provider.tracer_with_scope(scope.build());
        Arc::new(CallSpans::new(sink, tracer, Arc::clone(&self.tally)))
    }
}

/// Makes a provider that samples every call, whatever the sender's sampling flag is.
pub(super) fn provider(service: String, processor: impl SpanProcessor + 'static) -> SdkTracerProvider {
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOn)
        .with_span_processor(processor)
        .with_resource(resource.build())
        .build()
}

/// Sends the last spans within a time limit, and reports the number of lost ones.
impl Drop for Traces {
    fn drop(&mut self) {
        let _ = self.provider.shutdown_with_timeout(FAREWELL);
        let lost = self.tally.lost();
        if lost > 0 {
            self.reporter.warn("TRACES_LOST", &format!("{lost} spans did not reach the collector"));
        }
    }
}

/// An exporter that counts the spans that were sent.
#[derive(Debug)]
struct CountingExporter {
    exporter: SpanExporter,
    tally: Arc<SpanCounts>,
}

impl opentelemetry_sdk::trace::SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let result = opentelemetry_sdk::trace::SpanExporter::export(&self.exporter, batch).await;
        if result.is_ok() {
            self.tally.sent.fetch_add(count, Ordering::Relaxed);
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
