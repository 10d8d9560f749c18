use std::time::Duration;

use crate::from_client::make_again;
use crate::input_from_2025::look_at_suspended;
use crate::input_to_2025::look_at_rounds;
use crate::link::Link;
use crate::session_end::look_at_session;

/// Interval of the clock checks. After a suspend of the machine, expiry is noticed with at most this delay.
const LOOK: Duration = Duration::from_secs(1);

/// Checks the ends of the session and of the requests for input, and records the outcomes that wait and the sums of refusals that
/// are due, until the gateway ends.
pub(crate) fn watch_session(link: &Link) {
    loop {
        look_at_session(link);
        look_at_rounds(link).into_iter().for_each(|round| make_again(link, round));
        look_at_suspended(link);
        link.record_late();
        if link.wait_while_it_runs(LOOK) {
            return;
        }
    }
}
