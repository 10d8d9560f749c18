use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Rounds of a comparison. Each gives one median for each side.
    pub rounds: usize,
    /// Samples of each side in a round.
    pub samples: usize,
    /// Time that a sample should take.
    pub target: Duration,
}

/// 15 rounds of 7 samples, each of half a millisecond.
impl Default for Sampling {
    fn default() -> Self {
        Self { rounds: 15, samples: 7, target: Duration::from_micros(500) }
    }
}

/// Sums the times of single operations, so that the work between them does not count. The clock's own time is taken off.
#[derive(Debug)]
pub struct Stopwatch {
    sum: Duration,
    laps: u32,
    reading: Duration,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopwatch {
    /// Measures what one reading of the clock takes.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a bench takes real time")]
    pub fn new() -> Self {
        let mut empty: Vec<Duration> = (0..64).map(|_| Instant::now().elapsed()).collect();
        empty.sort_unstable();
        Self { sum: Duration::ZERO, laps: 0, reading: empty[32] }
    }

    /// Runs one operation on the clock.
    #[expect(clippy::disallowed_methods, reason = "a bench takes real time")]
    pub fn lap<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.sum += began.elapsed();
        self.laps += 1;
        done
    }

    /// Time of all operations.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.sum.saturating_sub(self.reading * self.laps)
    }
}

/// Times a loop.
#[expect(clippy::disallowed_methods, reason = "a bench takes real time")]
pub fn timed<T>(times: u32, mut work: impl FnMut() -> T) -> Duration {
    let began = Instant::now();
    for _ in 0..times {
        black_box(work());
    }
    began.elapsed()
}

/// Nanoseconds per operation: the median of each round, for each side.
#[derive(Clone, Debug)]
pub struct Rounds(Vec<Vec<f64>>);

/// Measures all sides in turn, sample by sample. A side performs that many operations and returns their time.
pub fn interleave(sampling: Sampling, sides: &mut [&mut dyn FnMut(u32) -> Duration]) -> Rounds {
    let times: Vec<u32> = sides.iter_mut().map(|side| fitting(sampling, side)).collect();
    let round = |sides: &mut [&mut dyn FnMut(u32) -> Duration]| {
        let mut samples = vec![Vec::with_capacity(sampling.samples); sides.len()];
        for _ in 0..sampling.samples {
            for ((side, times), samples) in sides.iter_mut().zip(&times).zip(&mut samples) {
                samples.push(side(*times).as_nanos() as f64 / f64::from(*times));
            }
        }
        samples.into_iter().map(|of_side| Figure::of(of_side).median).collect()
    };
    Rounds((0..sampling.rounds).map(|_| round(sides)).collect())
}

/// Number of operations that take about the time of a sample. Finding it warms the side up.
fn fitting(sampling: Sampling, side: &mut dyn FnMut(u32) -> Duration) -> u32 {
    let mut times = 1_u32;
    loop {
        let took = side(times);
        if took * 2 > sampling.target || times >= 1 << 20 {
            return times;
        }
        times *= 2;
    }
}

impl Rounds {
    /// Ratio of two sides, round by round.
    #[must_use]
    pub fn ratio(&self, side: usize, floor: usize) -> Figure {
        Figure::of(self.0.iter().map(|round| round[side] / round[floor]).collect())
    }

    /// Difference of two sides in nanoseconds, round by round.
    #[must_use]
    pub fn difference(&self, side: usize, floor: usize) -> Figure {
        Figure::of(self.0.iter().map(|round| round[side] - round[floor]).collect())
    }

    /// Nanoseconds per operation of one side.
    #[must_use]
    pub fn nanos(&self, side: usize) -> Figure {
        Figure::of(self.0.iter().map(|round| round[side]).collect())
    }
}

/// A median, and the range of the middle half of the values.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The median.
    pub median: f64,
    /// The interquartile range.
    pub spread: f64,
}

impl Figure {
    /// Median and spread of at least one value.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        Self { median: at(0.5), spread: at(0.75) - at(0.25) }
    }

    /// A value that was counted, not measured.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { median: value, spread: 0.0 }
    }

    /// The same, in a unit this many times as large.
    #[must_use]
    pub fn per(self, unit: f64) -> Self {
        Self { median: self.median / unit, spread: self.spread / unit }
    }
}
