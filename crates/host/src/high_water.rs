use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_registry::{FileHighWater, HighWaterStore, Mark, MarkError, MemoryHighWater};

/// Stores the high-water mark, but raises it only when the session opens: a start that fails leaves the file unchanged.
/// A mark that must not follow the stored one is refused from the beginning.
#[derive(Debug)]
pub(crate) struct DeferredHighWater {
    kept: Box<dyn HighWaterStore>,
    waiting: Mutex<DeferredRaise>,
}

#[derive(Debug)]
enum DeferredRaise {
    ForStart(Option<Raise>),
    Started,
}

/// A mark to raise, and the stored mark that its registry was verified against.
#[derive(Debug)]
struct Raise {
    seen: Option<Mark>,
    mark: Mark,
}

impl DeferredHighWater {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let kept: Box<dyn HighWaterStore> = match path {
            Some(path) => Box::new(FileHighWater::new(path)),
            None => Box::new(MemoryHighWater::new()),
        };
        Self { kept, waiting: Mutex::new(DeferredRaise::ForStart(None)) }
    }

    fn waiting(&self) -> MutexGuard<'_, DeferredRaise> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises the mark to the loaded registry; later raises take effect immediately. Fails if another process moved the
    /// mark since the registry was loaded: a key that signed it may have been revoked since.
    pub(crate) fn raise_now(&self) -> Result<(), MarkError> {
        let mut waiting = self.waiting();
        if let DeferredRaise::ForStart(Some(raise)) = &*waiting {
            self.kept.compare_and_raise(raise.seen.as_ref(), &raise.mark)?;
        }
        *waiting = DeferredRaise::Started;
        Ok(())
    }
}

impl HighWaterStore for DeferredHighWater {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        self.kept.current()
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        match &mut *self.waiting() {
            DeferredRaise::Started => self.kept.compare_and_raise(seen, mark),
            DeferredRaise::ForStart(waiting) => {
                mark.swapped_in(seen, self.kept.current()?.as_ref())?;
                *waiting = Some(Raise { seen: seen.cloned(), mark: mark.clone() });
                Ok(())
            }
        }
    }

    fn try_compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        let waiting = self.waiting();
        if matches!(*waiting, DeferredRaise::Started) {
            return self.kept.try_compare_and_raise(seen, mark);
        }
        drop(waiting);
        self.compare_and_raise(seen, mark)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use countersign_core::Digest;
    use countersign_registry::{HighWaterStore as _, Mark, MarkError};

    use super::DeferredHighWater;

    fn mark(version: u64) -> Mark {
        Mark::new(version, Digest::of(&version.to_be_bytes()), BTreeSet::new())
    }

    #[test]
    fn a_mark_is_moved_when_the_session_starts_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let marks = DeferredHighWater::new(Some(&path));
        marks.compare_and_raise(None, &mark(2)).unwrap();
        assert!(!path.exists());
        marks.raise_now().unwrap();
        assert_eq!(DeferredHighWater::new(Some(&path)).current(), Ok(Some(mark(2))));
        marks.compare_and_raise(Some(&mark(2)), &mark(3)).unwrap();
        assert_eq!(DeferredHighWater::new(Some(&path)).current(), Ok(Some(mark(3))));
    }

    #[test]
    fn an_older_mark_is_refused_before_the_start_and_at_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let early = DeferredHighWater::new(Some(&path));
        early.compare_and_raise(None, &mark(2)).unwrap();
        let other = DeferredHighWater::new(Some(&path));
        other.compare_and_raise(None, &mark(3)).unwrap();
        other.raise_now().unwrap();
        assert_eq!(early.raise_now(), Err(MarkError::Rollback { offered: 2, accepted: 3 }));
        let late = DeferredHighWater::new(Some(&path));
        let refused = late.compare_and_raise(Some(&mark(3)), &mark(2));
        assert_eq!(refused, Err(MarkError::Rollback { offered: 2, accepted: 3 }));
    }

    #[test]
    fn session_does_not_start_if_the_high_water_moved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let started = |version| {
            let marks = DeferredHighWater::new(Some(&path));
            let seen = marks.current().unwrap();
            marks.compare_and_raise(seen.as_ref(), &mark(version)).unwrap();
            marks
        };
        let (slow, twin) = (started(7), started(6));
        started(6).raise_now().unwrap();
        assert_eq!(slow.raise_now(), Err(MarkError::Moved));
        assert_eq!(twin.raise_now(), Ok(()), "the same registry, started twice at once");
    }
}
