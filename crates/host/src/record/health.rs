//! Health of a record, for gauges. It proves nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign_audit_log::Log;

use crate::time::now;

/// Size and time of the last sync that the log's writer knows of.
#[derive(Debug)]
pub(super) struct Synced {
    size: AtomicU64,
    /// Unix time in milliseconds.
    time: AtomicU64,
}

impl Synced {
    /// Starts with an open log, which is synced up to its last checkpoint.
    pub(super) fn opened(log: &Log) -> Self {
        let time = now().map_or(0, |now| now.as_millis());
        Self { size: AtomicU64::new(log.synced_size()), time: AtomicU64::new(time) }
    }

    /// Notes the time if more entries are synced than before.
    pub(super) fn note(&self, log: &Log) {
        let size = log.synced_size();
        if self.size.fetch_max(size, Ordering::SeqCst) < size
            && let Ok(now) = now()
        {
            self.time.fetch_max(now.as_millis(), Ordering::SeqCst);
        }
    }
}

#[cfg(feature = "prometheus")]
pub(crate) use gauged::RecordHealth;

#[cfg(feature = "prometheus")]
mod gauged {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::Ordering;
    use std::time::{Duration, UNIX_EPOCH};

    use base64ct::{Base64, Encoding as _};
    use countersign_audit_log::{Checkpoint, Log};

    use super::Synced;
    use crate::files::read_text_file;

    /// Bytes of a timestamped signature in a note (C2SP tlog-cosignature): key id, seconds, Ed25519 signature.
    const COSIGNATURE_BYTES: usize = 4 + 8 + 64;

    /// Health of a record. Times are since the Unix epoch; `None` if unknown.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(crate) struct RecordHealth {
        pub(crate) entries: u64,
        /// Entries that are not synced yet.
        pub(crate) unsynced: u64,
        /// Size of the segments.
        pub(crate) bytes: u64,
        /// Time of the last sync.
        pub(crate) synced: Option<Duration>,
        /// Time of the last write of a checkpoint of the log to `checkpoint_file`.
        pub(crate) kept: Option<Duration>,
        /// Time of the last cosignature in that file. It is not verified: no witness key is configured.
        pub(crate) cosigned: Option<Duration>,
    }

    impl RecordHealth {
        pub(in crate::record) fn of(log: &Log, folder: &Path, synced: &Synced, kept: &[PathBuf]) -> Self {
            let entries = log.head().size();
            let time = Duration::from_millis(synced.time.load(Ordering::SeqCst));
            let mut health = Self {
                entries,
                unsynced: entries.saturating_sub(log.synced_size()),
                bytes: segment_bytes(folder),
                synced: (!time.is_zero()).then_some(time),
                ..Self::default()
            };
            for path in kept {
                // Another log's checkpoint is irrelevant here.
                let Ok(note) = read_text_file(path) else { continue };
                if Checkpoint::verify(&note, &log.key()).is_err() {
                    continue;
                }
                let changed = path.metadata().and_then(|about| about.modified()).ok();
                let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                health.kept = health.kept.max(changed);
                health.cosigned = health.cosigned.max(cosigned(&note));
            }
            health
        }
    }

    /// Returns the size of all segments; 0 for an unreadable folder, whose record fails anyway.
    fn segment_bytes(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let segments = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "jsonl"));
        segments.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
    }

    /// Returns the latest time of a note's cosignatures.
    fn cosigned(note: &str) -> Option<Duration> {
        let signatures = note.lines().filter_map(|line| line.strip_prefix("\u{2014} ")?.split(' ').nth(1));
        let seconds = signatures.filter_map(|text| {
            let bytes = Base64::decode_vec(text).ok().filter(|bytes| bytes.len() == COSIGNATURE_BYTES)?;
            Some(u64::from_be_bytes(*bytes.get(4..)?.first_chunk()?))
        });
        seconds.max().map(Duration::from_secs)
    }
}
