use std::sync::OnceLock;

use core_affinity::{CoreId, get_core_ids, set_for_current};

/// The cores that the process began with. A thread inherits the core of the one that starts it.
static ALL: OnceLock<Vec<CoreId>> = OnceLock::new();

/// Keeps this thread on one of the cores that the process may run on; the number counts from 0 and wraps. Returns
/// `false` if the system has no means for that.
#[must_use]
pub fn pin_to_core(number: usize) -> bool {
    let cores = ALL.get_or_init(|| get_core_ids().unwrap_or_default());
    number.checked_rem(cores.len()).is_some_and(|at| set_for_current(cores[at]))
}
