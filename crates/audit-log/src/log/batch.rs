use std::collections::VecDeque;

use countersign_merkle::{Frontier, LeafHash, TreeError};

use crate::line::record_prefix;

/// How many bytes of lines a batch takes before it is written; one more line may be behind them.
pub(crate) const MAX_BATCH: usize = 4 << 20;

/// Lines that are written and synced together.
///
/// A record has its place once it is pushed. Its hash may come later, from whoever brought it; all that were pushed come
/// into the tree in their order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The record lines that are not in the tree yet, the next one first.
    due: VecDeque<Line>,
}

/// Where a line stands in the batch, without its newline, and its hash if somebody has made it.
#[derive(Debug)]
struct Line {
    start: usize,
    end: usize,
    leaf: Option<LeafHash>,
}

impl Batch {
    /// Adds the record of a number, of whose line `body` is what comes behind the number. The caller has seen to its length.
    pub(crate) fn push(&mut self, seq: u64, body: &[u8]) {
        let start = self.bytes.len();
        record_prefix(seq, &mut self.bytes);
        self.bytes.extend_from_slice(body);
        self.due.push_back(Line { start, end: self.bytes.len(), leaf: None });
        self.bytes.push(b'\n');
    }

    /// Takes the hash of a record's line, if it is still to come into the tree, and puts what is next into it.
    pub(crate) fn put(&mut self, seq: u64, leaf: LeafHash, tree: &mut Frontier) -> Result<(), TreeError> {
        let place = seq.checked_sub(tree.size().saturating_add(1)).and_then(|place| place.try_into().ok());
        if let Some(line) = place.and_then(|place: usize| self.due.get_mut(place)) {
            line.leaf = Some(leaf);
        }
        while let Some(leaf) = self.due.front().and_then(|line| line.leaf) {
            self.due.pop_front();
            tree.append(leaf)?;
        }
        Ok(())
    }

    /// Puts all into the tree, and makes the hashes that nobody has made yet.
    pub(crate) fn complete(&mut self, tree: &mut Frontier) -> Result<(), TreeError> {
        for Line { start, end, leaf } in self.due.drain(..) {
            let bytes = &self.bytes;
            let leaf = leaf.unwrap_or_else(|| LeafHash::of(bytes.get(start..end).unwrap_or_default()));
            tree.append(leaf)?;
        }
        Ok(())
    }

    /// How many records are not in the tree yet.
    pub(crate) fn due(&self) -> u64 {
        self.due.len() as u64
    }

    /// Adds a line that is no record.
    pub(crate) fn push_checkpoint(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes there are.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.due.clear();
    }
}
