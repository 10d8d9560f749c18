use countersign_merkle::LeafHash;

use crate::disk::Disk;
use crate::segment::{MAX_LINE, ScanPosition, SegmentScanner, Times, parse_checkpoint, read_range, time_of};
use crate::side_files::{RebuiltSide, SideFiles, rest_of};
use crate::{Checkpoint, LogError, LogKey};

/// Part of a log up to the checkpoint of its state that was not verified at opening.
#[derive(Debug)]
pub(super) struct Older {
    segments: Vec<u64>,
    /// End of the checkpoint in the last segment.
    end: u64,
    checkpoint: Checkpoint,
}

/// Place where a log continues after the checkpoint of its state.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) segment: u64,
    pub(super) mark: ScanPosition,
    pub(super) note: String,
    pub(super) older: Older,
    pub(super) rebuilt: Vec<RebuiltSide>,
}

impl Behind {
    /// Finds the checkpoint of a log's state by the side files. Returns `None` if they do not lead to it, or if the log
    /// before it does not fit a checkpoint kept elsewhere.
    pub(super) fn find(
        disk: &dyn Disk,
        key: &LogKey,
        segments: &[u64],
        state: &Checkpoint,
        known: &[Checkpoint],
    ) -> Option<Self> {
        let size = state.size();
        let at = segments.partition_point(|first| *first <= size);
        let older = segments.get(..at)?.to_vec();
        let segment = *older.last()?;
        let mut sides = SideFiles::new(disk, segments.to_vec(), size).ok()?;
        let frontier = sides.nodes(disk).frontier(size).ok()?;
        if frontier.head() != *state.head() {
            return None;
        }
        for known in known.iter().filter(|known| known.size() <= size && known.size() > 0) {
            let proof = sides.nodes(disk).prove_consistency(known.size(), size).ok()?;
            proof.verify(known.head(), state.head()).ok()?;
        }
        let (line, end) = sides.line_and_end(disk, size).ok()?;
        let proof = sides.nodes(disk).prove_inclusion(size.checked_sub(1)?, size).ok()?;
        proof.verify(&LeafHash::of(&line), state.head()).ok()?;
        let most = end.saturating_add(MAX_LINE as u64).saturating_add(1);
        let bytes = read_range(disk, segment, end, most).ok()?;
        let signed = bytes.split_inclusive(|byte| *byte == b'\n').next()?;
        let note = parse_checkpoint(signed.strip_suffix(b"\n")?)?;
        if Checkpoint::verify(&note, key).ok()?.head() != state.head() {
            return None;
        }
        let end = end.saturating_add(signed.len() as u64);
        let times = Times { last: time_of(rest_of(&line, size)?), ..Times::default() };
        let mark = ScanPosition { end, lines: 0, frontier, times };
        let older = Older { segments: older, end, checkpoint: state.clone() };
        Some(Self { segment, mark, note, older, rebuilt: sides.take_rebuilt() })
    }
}

impl Older {
    /// Verifies this part. It does not change while the log is written.
    pub(super) fn verify(&self, disk: &dyn Disk, key: &LogKey) -> Result<(), LogError> {
        let mut scanner = SegmentScanner::new(disk, key, vec![self.checkpoint.clone()]);
        let mut records = 0;
        for segment in &self.segments {
            let scan = if self.segments.last() == Some(segment) {
                scanner.segment_upto(*segment, true, self.end)?
            } else {
                scanner.segment(*segment, false)?
            };
            records = scan.map_or(records, |scan| scan.kept.frontier.size());
        }
        scanner.finish(records)
    }
}
