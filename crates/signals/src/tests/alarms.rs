//! Measures the drop alarm: run lengths over many simulated agents, from fixed seeds, so that every run gives the same
//! numbers.

use crate::*;

/// `SplitMix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Accepts a call with this probability.
    fn accepts(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * 2f64.powi(53)
    }
}

/// Number of decisions until the alarm is raised, for an agent whose calls are accepted with this probability.
fn run_length(alarm: &mut Alarm, share: f64, random: &mut Random) -> u64 {
    let mut decisions = 1;
    while alarm.observe(random.accepts(share)) == AlarmState::Steady {
        decisions += 1;
    }
    decisions
}

struct Measured {
    mean: f64,
    /// Standard error of the mean.
    error: f64,
    /// Length that 19 of 20 runs do not exceed.
    late: u64,
}

fn measured(mut lengths: Vec<u64>) -> Measured {
    lengths.sort_unstable();
    let runs = lengths.len() as f64;
    let mean = lengths.iter().sum::<u64>() as f64 / runs;
    let variance = lengths.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / (runs - 1.0);
    Measured { mean, error: (variance / runs).sqrt(), late: lengths[lengths.len() * 19 / 20] }
}

fn measure(rule: AlarmRule, share: f64, runs: u64) -> Measured {
    let mut random = Random(7);
    measured((0..runs).map(|_| run_length(&mut Alarm::new(rule), share, &mut random)).collect())
}

/// Checks that a rule gives false alarms as rarely as the default is documented to: one in `said` decisions, and less
/// than one in 10,000.
fn is_as_rare_as_said(steady: &Measured, said: f64) -> bool {
    steady.mean > 10_000.0 && (steady.mean - said).abs() < 4.0 * steady.error
}

const SAID: f64 = 149_000.0;

#[test]
fn a_steady_agent_raises_one_false_alarm_in_149000_decisions() {
    let steady = measure(AlarmRule::default(), 0.9, 200);
    assert!(steady.error < 0.1 * steady.mean, "enough runs to tell: {} of {}", steady.error, steady.mean);
    assert!(is_as_rare_as_said(&steady, SAID), "{} +- {}", steady.mean, steady.error);
    let hasty = measure(AlarmRule::new(0.9, 0.7, 1_000).unwrap(), 0.9, 100);
    assert!(!is_as_rare_as_said(&hasty, SAID), "another threshold is told apart: {}", hasty.mean);
    assert!(hasty.mean > 1_000.0, "what the rule promises holds for it as well: {}", hasty.mean);
    let better = measure(AlarmRule::new(0.9, 0.7, 100).unwrap(), 0.93, 200);
    assert!(
        better.mean > measure(AlarmRule::new(0.9, 0.7, 100).unwrap(), 0.9, 200).mean,
        "and above it, the more so"
    );
}

#[test]
#[ignore = "750,000,000 decisions: run in release mode"]
fn false_alarm_rate_holds_over_5000_steady_agents() {
    let steady = measure(AlarmRule::default(), 0.9, 5_000);
    println!("false alarms: one in {:.0} +- {:.0} decisions", steady.mean, steady.error);
    assert!(steady.error < 0.02 * steady.mean && is_as_rare_as_said(&steady, SAID), "{}", steady.mean);
}

#[test]
fn drop_is_found_within_the_documented_delay() {
    for (share, said, late) in [(0.7, 57.0, 112), (0.5, 22.0, 36), (0.8, 220.0, 560)] {
        let found = measure(AlarmRule::default(), share, 2_000);
        assert!((found.mean - said).abs() < 0.05 * said, "at {share}: {} on average", found.mean);
        assert!(found.late.abs_diff(late) * 100 <= late * 8, "at {share}: {} in 19 of 20", found.late);
    }
    let nothing_passes = measure(AlarmRule::default(), 0.0, 2);
    assert_eq!((nothing_passes.mean, nothing_passes.late), (9.0, 9));
}

#[test]
fn a_good_past_delays_the_alarm_by_nothing() {
    let mut random = Random(11);
    let lengths = (0..2_000)
        .map(|_| {
            let mut alarm = Alarm::new(AlarmRule::default());
            for _ in 0..1_000 {
                if alarm.observe(random.accepts(0.9)) == AlarmState::Raised {
                    alarm.reset();
                }
            }
            run_length(&mut alarm, 0.7, &mut random)
        })
        .collect();
    let anew = measure(AlarmRule::default(), 0.7, 2_000);
    let later = measured(lengths);
    assert!(later.mean < anew.mean + 3.0 * anew.error, "{} and {}", later.mean, anew.mean);
}

#[test]
fn an_alarm_stays_raised_until_it_is_reset() {
    let mut alarm = Alarm::new(AlarmRule::default());
    assert_eq!((alarm.state(), alarm.level()), (AlarmState::Steady, 0.0));
    for rejected in 1..=9 {
        assert_eq!(alarm.observe(false) == AlarmState::Raised, rejected == 9);
    }
    assert!((alarm.level() - 1.0).abs() < f64::EPSILON);
    for _ in 0..10_000 {
        assert_eq!(alarm.observe(true), AlarmState::Raised);
    }
    alarm.reset();
    assert_eq!((alarm.state(), alarm.level()), (AlarmState::Steady, 0.0));
}

#[test]
fn the_default_rule_is_the_one_that_its_numbers_make() {
    assert_eq!(AlarmRule::default(), AlarmRule::new(0.9, 0.7, 10_000).unwrap());
    let rule = AlarmRule::default();
    assert_eq!((rule.baseline(), rule.dropped(), rule.decisions()), (0.9, 0.7, 10_000));
}

#[test]
fn a_rule_of_impossible_numbers_is_refused() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for (baseline, dropped) in [
        (0.7, 0.9),
        (0.9, 0.9),
        (1.0, 0.5),
        (0.9, 0.0),
        (0.9, -0.1),
        (1.5, 0.5),
        (nan, 0.5),
        (0.9, nan),
        (nan, nan),
        (inf, 0.5),
        (0.9, -inf),
        (0.5 + 1e-9, 0.5),
    ] {
        let refused = AlarmRule::new(baseline, dropped, 10_000).map_err(|error| error.code());
        assert_eq!(refused, Err("ALARM_SHARES"), "{baseline} {dropped}");
    }
    for decisions in [0, 1, 1_000_000_000_001, u64::MAX] {
        let refused = AlarmRule::new(0.9, 0.7, decisions).map_err(|error| error.code());
        assert_eq!(refused, Err("ALARM_DECISIONS"));
    }
    for (baseline, dropped, decisions) in [
        (1.0 - f64::EPSILON, f64::MIN_POSITIVE, 2),
        (0.999_999, 0.000_001, 1_000_000_000_000),
        (0.500_01, 0.5, 1_000_000_000_000),
    ] {
        let mut alarm = Alarm::new(AlarmRule::new(baseline, dropped, decisions).unwrap());
        let most = (0..100_000_000).find(|_| alarm.observe(false) == AlarmState::Raised);
        assert!(most.is_some(), "every rule can be raised: {baseline} {dropped}");
    }
}
