use countersign_merkle::{Frontier, LeafHash, TreeError};

use crate::line::record_prefix;

/// How many bytes of lines a batch takes before it is written; one more line may be behind them.
pub(super) const MAX_BATCH: usize = 4 << 20;

/// Lines that are written and synced together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Adds the next record of a tree, of whose line `body` is what comes behind the sequence number, to both. The caller has
    /// seen to its length.
    ///
    /// Takes no more than a tree can hold.
    pub(super) fn push(&mut self, body: &[u8], frontier: &mut Frontier) -> Result<(), TreeError> {
        let before = self.bytes.len();
        record_prefix(frontier.size().saturating_add(1), &mut self.bytes);
        self.bytes.extend_from_slice(body);
        let leaf = LeafHash::of(self.bytes.get(before..).unwrap_or_default());
        self.bytes.push(b'\n');
        frontier.append(leaf).map(drop).inspect_err(|_| self.bytes.truncate(before))
    }

    /// Adds a line that is no record.
    pub(super) fn push_checkpoint(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes there are.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}
