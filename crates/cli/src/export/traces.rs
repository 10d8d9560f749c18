//! A span of each call, sent to a collector by OTLP over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

use super::send::{Endpoint, Sender};
use super::spans::Spans;
use crate::failure::Failure;
use crate::output::note;

/// How long one request to the collector may take, with all its repetitions.
pub(super) const REQUEST: Duration = Duration::from_secs(3);
/// How long the last spans may take at the end.
const FAREWELL: Duration = Duration::from_secs(4);
/// How many spans wait to be sent, at most; one more is lost.
const QUEUE: usize = 2_048;
/// How many spans go into one request, at most.
const BATCH: usize = 512;
/// How often spans are sent.
const PAUSE: Duration = Duration::from_secs(5);

/// The traces' part of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TracesPart {
    endpoint: Endpoint,
    #[serde(default)]
    dangerous_plain_http: bool,
    service_name: Option<String>,
}

/// The spans of this process, on their way to a collector.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tally: Arc<Tally>,
}

/// How many spans there were, and how many of them arrived.
#[derive(Debug, Default)]
pub(super) struct Tally {
    made: AtomicU64,
    sent: AtomicU64,
}

impl Tally {
    /// Counts a span that was made, or would have been.
    pub(super) fn count(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    fn lost(&self) -> u64 {
        self.made.load(Ordering::Relaxed).saturating_sub(self.sent.load(Ordering::Relaxed))
    }
}

impl Traces {
    /// Reads where spans go. Nothing is sent yet.
    pub(crate) fn prepare(part: &TracesPart) -> Result<Self, Failure> {
        let sender = Sender::new(&part.endpoint, part.dangerous_plain_http.into())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(part.endpoint.as_str())
            .with_timeout(REQUEST)
            .build()
            // The library's own words could quote a header, which is a secret.
            .map_err(|_| {
                Failure::new("TRACES_EXPORTER", "the environment's settings for OTLP cannot be used")
            })?;
        let tally = Arc::new(Tally::default());
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(PAUSE)
            .build();
        let counted = Counted { exporter, tally: Arc::clone(&tally) };
        let name = part.service_name.clone().unwrap_or_else(|| "countersign".to_owned());
        Ok(Self { provider: provider(name, BatchSpanProcessor::new(counted, config)), tally })
    }

    /// The sink, with a span made of each call that it keeps.
    pub(crate) fn around(&self, sink: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        let scope = InstrumentationScope::builder("countersign").with_version(env!("CARGO_PKG_VERSION"));
        let tracer = self.provider.tracer_with_scope(scope.build());
        Arc::new(Spans::new(sink, tracer, Arc::clone(&self.tally)))
    }
}

/// Makes spans of every call, whatever its sender says of sampling.
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

/// The last spans are sent, within a deadline; what did not arrive is told.
impl Drop for Traces {
    fn drop(&mut self) {
        let _ = self.provider.shutdown_with_timeout(FAREWELL);
        let lost = self.tally.lost();
        if lost > 0 {
            note(&format!("warning TRACES_LOST: {lost} spans did not reach the collector"));
        }
    }
}

/// The exporter, with a count of what arrived.
#[derive(Debug)]
struct Counted {
    exporter: SpanExporter,
    tally: Arc<Tally>,
}

impl opentelemetry_sdk::trace::SpanExporter for Counted {
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
