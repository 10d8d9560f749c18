//! Metrics in Prometheus' text format: a gateway writes them to a file, the service answers them over HTTP.

use std::ffi::OsString;
use std::fs::{OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use countersign_core::{AgentId, Millis};
use countersign_keys::trusted::open_regular_with;
use countersign_registry::RegistrySnapshot;
use countersign_tool_gate::{CallStats, Ticks};
use metrics::{Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde::Deserialize;

use super::earlier::{ANSWER_TIME, Damaged, Families, Gauges, WRITTEN, read_back};
use super::health::{Health, Rendering};
use crate::error::HostError;
use crate::files::{Replace, unwritable, write_file};
use crate::record::ReportingLog;
use crate::report::Reporter;
use crate::time::Span;

/// Default interval between two writes of the file, in seconds.
const INTERVAL_SECONDS: u32 = 15;
/// Interval at which samples of histograms are gathered, even without a reader.
const UPKEEP: Duration = Duration::from_secs(5);
/// Number of attempts to lock the file, and the pause between them: an earlier gateway may be about to end.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The `[metrics]` table of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsPart {
    file: Option<PathBuf>,
    interval: Option<Span>,
}

impl MetricsPart {
    /// Iterates over all paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.file.as_mut().into_iter()
    }

    /// Checks that a gateway has a file to write.
    pub(super) fn check_gateway(&self) -> Result<(), HostError> {
        if self.file.is_none() {
            let text = "`metrics` of a gateway requires a `file`; `countersign serve` answers `GET /metrics`";
            return Err(HostError::new("CONFIG_CONFLICT", text));
        }
        Ok(())
    }

    fn interval(&self) -> Result<Duration, HostError> {
        if self.interval.is_some() && self.file.is_none() {
            return Err(HostError::new("CONFIG_CONFLICT", "`interval` of `metrics` requires a `file`"));
        }
        let interval = self.interval.map_or(Millis::from_secs(INTERVAL_SECONDS), Span::millis);
        if interval < Millis::from_secs(1) {
            return Err(HostError::new("CONFIG_CONFLICT", "`interval` of `metrics` is at least `1s`"));
        }
        Ok(Duration::from_millis(interval.as_millis()))
    }
}

/// Metrics of the process, and their destinations.
#[derive(Debug)]
pub(crate) struct Metrics {
    rendering: Rendering,
    file: Option<File>,
    keeper: Option<MetricsThread>,
    /// Lock of the file; it is released after the last write.
    lock: Option<std::fs::File>,
}

/// The metrics file, and the interval between two writes.
#[derive(Clone, Debug)]
struct File {
    path: PathBuf,
    interval: Duration,
    /// Counts that earlier sessions left in the file.
    earlier: Families,
    reporter: Reporter,
}

impl File {
    fn write(&self, rendering: &Rendering, gauges: Gauges) -> Result<(), HostError> {
        let mut families = Families::parse(&rendering.render())
            .ok_or_else(|| HostError::internal("the metrics are not in the text format"))?;
        families.add(&self.earlier);
        write_file(&self.path, families.text(gauges).as_bytes(), Replace::Allowed)
    }

    fn report_failure(&self, error: &HostError) {
        self.reporter.warn(error.code(), &format!("the metrics were not written: {}", error.line()));
    }
}

/// The thread that gathers samples and writes the file. It ends when its channel closes.
#[derive(Debug)]
struct MetricsThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Metrics {
    /// Starts to count.
    pub(crate) fn prepare(part: &MetricsPart, reporter: &Reporter) -> Result<Self, HostError> {
        let interval = part.interval()?;
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(ANSWER_TIME.to_owned()), &buckets())
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|_| HostError::internal("a metrics recorder is already installed"))?;
        let file = part.file.clone().map(|path| File {
            path,
            interval,
            earlier: Families::default(),
            reporter: reporter.clone(),
        });
        let rendering = Rendering { handle, written: Arc::default(), health: Arc::default() };
        Ok(Self { rendering, file, keeper: None, lock: None })
    }

    /// Starts a gateway's metrics: locks the file, reads back its counts and writes it, which shows that it is writable.
    pub(crate) fn begin(&mut self, registry: &RegistrySnapshot) -> Result<(), HostError> {
        if let Some(file) = &mut self.file {
            self.lock = Some(lock(&file.path)?);
            file.earlier = read_back(&file.path, registry).unwrap_or_else(|Damaged(why)| {
                let path = file.path.display();
                let text = format!("{path}: {why}; its counters begin at zero");
                file.reporter.warn("METRICS_RESTARTED", &text);
                Families::default()
            });
            file.write(&self.rendering, Gauges::LeftOut)?;
        }
        self.keep(self.file.clone())
    }

    /// Starts the service's metrics. It writes no file: [`text`](Self::text) reads the gateway's.
    pub(crate) fn begin_service(&mut self) -> Result<(), HostError> {
        self.keep(None)
    }

    /// Starts the thread that gathers samples, and writes the file if there is one.
    fn keep(&mut self, file: Option<File>) -> Result<(), HostError> {
        let (stop, stopped) = channel();
        let rendering = self.rendering.clone();
        let thread = spawn("metrics-keeper", move || {
            let interval = file.as_ref().map_or(UPKEEP, |file| file.interval);
            let mut left = interval;
            let mut told = false;
            loop {
                let pause = left.min(UPKEEP);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                rendering.handle.run_upkeep();
                left = left.saturating_sub(pause);
                if !left.is_zero() {
                    continue;
                }
                left = interval;
                let Some(file) = &file else { continue };
                match file.write(&rendering, Gauges::Kept) {
                    Ok(()) => told = false,
                    Err(failure) if !told => {
                        file.report_failure(&failure);
                        told = true;
                    }
                    Err(_) => {}
                }
            }
        })?;
        self.keeper = Some(MetricsThread { stop, thread });
        Ok(())
    }

    /// Returns the service's metrics in Prometheus' text format, with the counts of the gateway's file.
    pub(crate) fn text(&self, registry: &RegistrySnapshot) -> Result<String, HostError> {
        let text = self.rendering.render();
        let Some(File { path, .. }) = &self.file else { return Ok(text) };
        let counted = read_back(path, registry)
            .map_err(|Damaged(why)| HostError::new("METRICS_DAMAGED", why).about(path.display()))?;
        let mut families = Families::parse(&text)
            .ok_or_else(|| HostError::internal("the metrics are not in the text format"))?;
        families.add(&counted);
        Ok(families.text(Gauges::Kept))
    }

    /// Writes the metrics of a session that has just opened: its counters at zero, and its gauges.
    pub(crate) fn opened(&self, agent: &AgentId, log: Option<&Arc<ReportingLog>>) {
        describe_gauge!(WRITTEN, Unit::Seconds, "Time of the file or the scrape, in Unix time.");
        self.rendering.written.get_or_init(|| gauge!(WRITTEN, "agent" => agent.as_str().to_owned()));
        if let Some(log) = log {
            self.rendering.health.get_or_init(|| Health::new(agent, log));
        }
        if let Some(file) = &self.file
            && let Err(failure) = file.write(&self.rendering, Gauges::Kept)
        {
            file.report_failure(&failure);
        }
    }
}

/// Writes the last counts. Gauges are left out: they belong to a running session.
impl Drop for Metrics {
    fn drop(&mut self) {
        let Some(MetricsThread { stop, thread }) = self.keeper.take() else { return };
        drop(stop);
        let _ = thread.join();
        if let Some(file) = &self.file
            && let Err(failure) = file.write(&self.rendering, Gauges::LeftOut)
        {
            file.report_failure(&failure);
        }
    }
}

/// Acquires the lock beside the file: two gateways that write one file lose each other's counts.
fn lock(path: &Path) -> Result<std::fs::File, HostError> {
    let mut beside = OsString::from(path);
    beside.push(".lock");
    let options = &mut OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let (lock, _) =
        open_regular_with(Path::new(&beside), options).map_err(|error| unwritable(path, &error))?;
    for tries_left in (0..LOCK_TRIES).rev() {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if tries_left > 0 => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let text = "file in use by another gateway; give each gateway its own";
                return Err(HostError::new("METRICS_LOCKED", text).about(path.display()));
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(path, &error)),
        }
    }
    Ok(lock)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, HostError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map_err(|error| HostError::new("METRICS_THREAD", error.to_string()))
}

/// Returns the histogram bounds that the gate itself uses, in seconds.
fn buckets() -> Vec<f64> {
    #[derive(Debug)]
    struct Still;

    impl Ticks for Still {
        fn nanos(&self) -> u64 {
            0
        }
    }

    let counted = CallStats::new().ticks(Arc::new(Still)).snapshot().answer_time;
    counted.into_iter().flat_map(|times| times.buckets).map(|(bound, _)| bound).collect()
}
