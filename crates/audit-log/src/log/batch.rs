use std::collections::VecDeque;
use std::ops::Range;

use countersign_merkle::{Frontier, LeafHash, NodeHash, TreeError};

use crate::line::record_prefix;
use crate::segment::SidePlace;

/// Bytes of lines in a batch before it is written; one more line may exceed it.
pub(crate) const MAX_BATCH: usize = 4 << 20;

/// Lines that are written and synced together.
///
/// A record has its place once it is pushed. Its hash comes later, from its caller or from the writer of the batch. All
/// pushed records enter the tree in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Record lines that are not in the tree yet, the next one first.
    due: VecDeque<LinePlace>,
    /// Data for the side file: the offset of each line in the batch, and the nodes completed by the lines in the tree,
    /// in order.
    places: Vec<SidePlace>,
    nodes: Vec<NodeHash>,
}

/// Position of a line in the batch, without its newline, and its hash if computed.
#[derive(Debug)]
struct LinePlace {
    at: Range<usize>,
    leaf: Option<LeafHash>,
}

impl Batch {
    /// Adds a record. `body` is the rest of its line after the number; the caller has checked its length. `tag` is the
    /// tag of the call that the record decides on.
    pub(crate) fn push(&mut self, seq: u64, body: &[u8], tag: u64) {
        let start = self.bytes.len();
        self.places.push(SidePlace { offset: start as u64, tag });
        record_prefix(seq, &mut self.bytes);
        self.bytes.extend_from_slice(body);
        self.due.push_back(LinePlace { at: start..self.bytes.len(), leaf: None });
        self.bytes.push(b'\n');
    }

    /// Stores the hash of a record's line unless it is in the tree already, and appends to the tree all lines that are
    /// next and hashed. `tree` has all records before the due ones.
    pub(crate) fn put(&mut self, seq: u64, leaf: LeafHash, tree: &mut Frontier) {
        let place = seq.checked_sub(tree.size().saturating_add(1));
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(line) = place.and_then(|place| self.due.get_mut(place)) {
            line.leaf = Some(leaf);
        }
        while let Some(leaf) = self.due.front().and_then(|line| line.leaf)
            && tree.append_with(leaf, |node| self.nodes.push(node)).is_ok()
        {
            self.due.pop_front();
        }
    }

    /// Appends all lines to the tree, and computes the missing hashes.
    pub(crate) fn complete(&mut self, tree: &mut Frontier) -> Result<(), TreeError> {
        for line in self.due.drain(..) {
            let leaf = line.leaf.unwrap_or_else(|| LeafHash::of(self.bytes.get(line.at).unwrap_or_default()));
            tree.append_with(leaf, |node| self.nodes.push(node))?;
        }
        Ok(())
    }

    /// Number of records that are not in the tree yet.
    pub(crate) fn due(&self) -> u64 {
        self.due.len() as u64
    }

    /// Adds a checkpoint line, which is not a leaf.
    pub(crate) fn push_checkpoint(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn places(&self) -> &[SidePlace] {
        &self.places
    }

    pub(crate) fn nodes(&self) -> &[NodeHash] {
        &self.nodes
    }

    /// Number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.due.clear();
        self.places.clear();
        self.nodes.clear();
    }
}
