use std::sync::atomic::{AtomicU64, Ordering};

/// A monotonic clock for durations: nanoseconds since a start of its own choosing. It never goes backwards, and it is
/// not the time of day. In a process it should read `std::time::Instant`.
///
/// ```
/// use countersign_tool_gate::Ticks;
///
/// #[derive(Debug)]
/// struct SinceStart(std::time::Instant);
///
/// impl Ticks for SinceStart {
///     fn nanos(&self) -> u64 {
///         u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
///     }
/// }
/// let ticks = SinceStart(std::time::Instant::now());
/// assert!(ticks.nanos() <= ticks.nanos());
/// ```
pub trait Ticks: Send + Sync + std::fmt::Debug {
    /// Returns the nanoseconds since the start.
    fn nanos(&self) -> u64;
}

/// The system's monotonic clock. `wasm32-unknown-unknown` has no such clock, and this type does not exist there.
///
/// ```
/// use std::sync::Arc;
/// use countersign_tool_gate::{CallStats, SystemTicks};
/// let stats = CallStats::new().ticks(Arc::new(SystemTicks::new()));
/// assert_eq!(stats.snapshot().answer_time.map(|times| times.count), Some(0));
/// ```
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
#[derive(Clone, Copy, Debug)]
pub struct SystemTicks {
    start: std::time::Instant,
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl SystemTicks {
    /// Starts the clock now.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
        let start = std::time::Instant::now();
        Self { start }
    }
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Default for SystemTicks {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Ticks for SystemTicks {
    fn nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Upper bound of each bucket, in nanoseconds: 1 microsecond to 10 seconds, in steps of 1, 2.5 and 5. A last bucket
/// without a bound counts the rest.
const BOUNDS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Upper bounds of the answer-time buckets, in seconds, for exporters. Each is the closest `f64` to its decimal text.
pub const ANSWER_SECONDS: [f64; BOUNDS.len()] = [
    0.000_001,
    0.000_002_5,
    0.000_005,
    0.000_01,
    0.000_025,
    0.000_05,
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
];

/// Histogram of answer times.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    longer: AtomicU64,
    /// Sum of all times, in nanoseconds; 64 bits are 584 years.
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BOUNDS.len()],
            longer: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn count(&self, nanos: u64) {
        let place = BOUNDS.partition_point(|bound| *bound < nanos);
        self.buckets.get(place).unwrap_or(&self.longer).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        let mut below: u64 = 0;
        let mut buckets = Vec::with_capacity(BOUNDS.len());
        for (bound, bucket) in ANSWER_SECONDS.iter().zip(&self.buckets) {
            below = below.saturating_add(bucket.load(Ordering::Relaxed));
            buckets.push((*bound, below));
        }
        let count = below.saturating_add(self.longer.load(Ordering::Relaxed));
        #[expect(clippy::cast_precision_loss, reason = "a sum of times, to 53 bits")]
        let sum_seconds = self.sum.load(Ordering::Relaxed) as f64 / 1e9;
        HistogramSnapshot { buckets, count, sum_seconds }
    }
}

/// Histogram of answer times at one moment, in seconds, in Prometheus' form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    /// Each bound in seconds with the number of answers that took at most that long. The bounds rise from 0.000001 to
    /// 10, and an answer counted under one is counted under all that follow.
    pub buckets: Vec<(f64, u64)>,
    /// Number of all answers, including those over the last bound.
    pub count: u64,
    /// Sum of all times, in seconds.
    pub sum_seconds: f64,
}
