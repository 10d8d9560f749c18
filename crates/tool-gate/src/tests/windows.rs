use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counts::Counts;
use crate::recent::Recent;
use crate::*;
use countersign_core::*;
use proptest::prelude::*;

const CAPACITY: usize = 1_024;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// The share over decisions, from a list that keeps all of them.
fn naive<'a>(decisions: impl Iterator<Item = &'a (u64, bool)>) -> Option<f64> {
    let all: Vec<_> = decisions.collect();
    let accepted = all.iter().filter(|(_, accepted)| *accepted).count();
    (!all.is_empty()).then(|| accepted as f64 / all.len() as f64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn windows_match_a_full_list(
        steps in prop::collection::vec((0u64..50, any::<bool>()), 0..3_500),
        last in 0usize..2_000,
        back in 0u64..40_000,
    ) {
        let counts = Counts::default();
        let mut list = Vec::new();
        let mut now = 0;
        for (step, accepted) in steps {
            now += step;
            list.push((now, accepted));
            counts.count(at(now), (!accepted).then_some(RejectionCode::ArgsSchema));
        }
        let kept = || list.iter().rev().take(CAPACITY);
        let since = now.saturating_sub(back);
        prop_assert_eq!(counts.acceptance_rate(Window::All), naive(list.iter()));
        prop_assert_eq!(counts.acceptance_rate(Window::Last(last)), naive(kept().take(last)));
        let wanted = naive(kept().filter(|(time, _)| *time >= since));
        prop_assert_eq!(counts.acceptance_rate(Window::Since(at(since))), wanted);
        prop_assert_eq!(counts.acceptance_rate(Window::last_span(Millis::new(back).unwrap(), at(now))), wanted);
        let shown = counts.snapshot();
        prop_assert_eq!(shown.recent_acceptance_rate(), naive(kept()));
        prop_assert_eq!(shown.acceptance_rate(), naive(list.iter()));
        prop_assert_eq!(shown.accepted() + shown.rejected(), shown.total());
        prop_assert_eq!(shown.total(), list.len() as u64);
    }
}

#[test]
fn a_time_in_the_far_future_is_later_than_the_others() {
    let counts = Counts::default();
    let last = at((1 << 53) - 1);
    counts.count(Timestamp::EPOCH, Some(RejectionCode::ArgsSchema));
    counts.count(last, None);
    assert_eq!(counts.acceptance_rate(Window::Since(last)), Some(1.0));
    assert_eq!(counts.acceptance_rate(Window::Since(Timestamp::EPOCH)), Some(0.5));
}

#[test]
fn the_ring_goes_round_many_times() {
    let counts = Counts::default();
    let all = 1_100 * CAPACITY as u64;
    for n in 0..all {
        counts.count(at(n), (n % 4 == 0).then_some(RejectionCode::ArgsSchema));
    }
    assert_eq!(counts.acceptance_rate(Window::Last(CAPACITY)), Some(0.75));
    assert_eq!(counts.acceptance_rate(Window::Since(at(all - 3))), Some(1.0));
    assert_eq!(counts.total(), all);
}

#[test]
fn delayed_thread_overwrites_no_newer_decision() {
    let ring = Recent::default();
    let seen = || -> Vec<bool> { ring.newest_first().map(|(_, accepted)| accepted).collect() };
    let first = ring.take();
    assert_eq!(seen(), Vec::<bool>::new(), "what was never written is not seen");
    for _ in 1..CAPACITY {
        ring.add(at(1), false);
    }
    let held_up = ring.take();
    assert_eq!(seen(), [false; CAPACITY - 1], "an older lap's decision is not taken for the missing one");
    ring.put(held_up, at(1), false);
    ring.put(first, at(1), true);
    assert_eq!(seen(), [false; CAPACITY], "it came a lap too late");
}

#[test]
fn eight_threads_lose_no_count() {
    // Enough for the threads to overlap for longer than they take to start.
    const EACH: u64 = 200_000;
    let counts = Counts::default();
    let ready = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (counts, ready) = (&counts, &ready);
            scope.spawn(move || {
                ready.wait();
                for n in 0..EACH {
                    let refused = match (thread + n) % 4 {
                        0 => None,
                        1 => Some(RejectionCode::UndisclosedTool),
                        2 => Some(RejectionCode::ApprovalRequired),
                        _ => Some(RejectionCode::Internal),
                    };
                    counts.count(at(thread * EACH + n), refused);
                }
            });
        }
    });
    let quarter = 8 * EACH / 4;
    assert_eq!((counts.total(), counts.accepted(), counts.rejected()), (4 * quarter, quarter, 3 * quarter));
    for code in RejectionCode::ALL {
        use RejectionCode::{ApprovalRequired, Internal, UndisclosedTool};
        let wanted = if [ApprovalRequired, Internal, UndisclosedTool].contains(code) { quarter } else { 0 };
        assert_eq!(counts.rejected_with(*code), wanted, "{code}");
    }
    assert_eq!((counts.pending(), counts.decided()), (quarter, 3 * quarter));
    let seen = counts.acceptance_rate(Window::Last(CAPACITY)).unwrap() * CAPACITY as f64;
    assert!((seen - seen.round()).abs() < 1e-9, "the window is full: a share in 1,024ths");
}

#[test]
fn window_over_threads_follows_the_times() {
    let counts = Counts::default();
    // Each thread counts a decision of each second in turn: the first accepts, the second refuses.
    for second in 0..3 * CAPACITY as u64 {
        let refused = (second % 2 == 1).then_some(RejectionCode::ArgsSchema);
        std::thread::scope(|scope| drop(scope.spawn(|| counts.count(at(second), refused))));
    }
    let last = 3 * CAPACITY as u64 - 1;
    assert_eq!(counts.acceptance_rate(Window::Last(1)), Some(0.0));
    assert_eq!(counts.acceptance_rate(Window::Last(CAPACITY)), Some(0.5));
    assert_eq!(counts.acceptance_rate(Window::Since(at(last - 2))), Some(1.0 / 3.0));
    assert_eq!(counts.total(), last + 1);
}

#[test]
fn counts_of_one_session_take_one_part() {
    let counts = Counts::in_one_part();
    for _ in 0..4 {
        std::thread::scope(|scope| drop(scope.spawn(|| counts.count(at(1), None))));
    }
    assert_eq!((counts.total(), counts.acceptance_rate(Window::Last(9))), (4, Some(1.0)));
}

#[test]
fn concurrent_reads_see_consistent_sums() {
    let counts = Counts::default();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..50_000 {
                    counts.count(at(n), (n % 2 == 0).then_some(RejectionCode::ArgsSchema));
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut before = 0;
        while done.load(Ordering::SeqCst) < 2 {
            let shown = counts.snapshot();
            assert_eq!(shown.accepted() + shown.rejected(), shown.total());
            assert!(shown.total() >= before, "counts never fall");
            before = shown.total();
            if let Some(rate) = counts.acceptance_rate(Window::Last(CAPACITY)) {
                assert!((0.0..=1.0).contains(&rate));
            }
        }
    });
    assert_eq!(counts.total(), 100_000);
}
