use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use countersign_core::Millis;

use crate::output::note;

/// Exit code of a refusal. Hosts run the tool on any other failure.
const REFUSED: i32 = 2;

/// Refuses the call and ends the process at a deadline.
pub(crate) struct Watchdog {
    is_over: Arc<AtomicBool>,
}

impl Watchdog {
    pub(crate) fn start(deadline: Millis) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let watch = move || {
            thread::sleep(Duration::from_millis(deadline.as_millis()));
            if !ended.swap(true, Ordering::SeqCst) {
                note("countersign refused: HOOK_TIMEOUT: no decision within half of the host's time-out");
                exit(REFUSED);
            }
        };
        thread::Builder::new().name("countersign-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { is_over })
    }

    /// Ends the watch. If the deadline came first, the process ends while this waits.
    pub(crate) fn stop(&self) {
        if self.is_over.swap(true, Ordering::SeqCst) {
            loop {
                thread::park();
            }
        }
    }
}
