use std::time::Duration;

use crate::listing::{Listing, pause};

#[test]
fn pauses_between_questions_grow_up_to_a_bound() {
    let second = Duration::from_secs(1);
    let pauses: Vec<u64> = [1, 2, 3, 9, 10, 40, u32::MAX].map(|n| pause(second, n).as_secs()).into();
    assert_eq!(pauses, [1, 2, 4, 256, 300, 300, 300]);
    assert_eq!(pause(Duration::from_secs(3_600), 9), Duration::from_secs(3_600));
}

#[test]
fn a_change_of_the_tools_ends_the_pause() {
    let (listing, hour) = (Listing::default(), Duration::from_secs(3_600));
    assert!(!listing.is_paused(hour));
    listing.fail();
    assert!(listing.is_paused(hour) && listing.has_failed());
    listing.forget();
    assert!(!listing.is_paused(hour) && !listing.has_failed());
}
