use std::collections::VecDeque;
use std::ops::Range;

use countersign_merkle::{Frontier, LeafHash, NodeHash, TreeError};

use crate::line::record_prefix;
use crate::segment::SidePlace;

/// Bytes of lines in a batch before it is written; one more line may exceed it.
pub(crate) const MAX_BATCH: usize = 4 << 20;

/// Bytes of lines that one caller hashes at a time; one more line may exceed it.
const MAX_CLAIM: usize = 16 << 10;

/// Lines that are written and synced together.
///
/// A record has its place once it is pushed. Its hash may come later, from the caller that claims it. All pushed
/// records enter the tree in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Record lines that are not in the tree yet, the next one first.
    due: VecDeque<LinePlace>,
    /// Number of claimed lines, from the first on.
    claimed: usize,
    /// Data for the side file: the offset of each line in the batch, and the nodes completed by the lines in the tree,
    /// in order.
    places: Vec<SidePlace>,
    nodes: Vec<NodeHash>,
}

/// Lines that a caller has claimed for hashing.
#[derive(Debug)]
pub(crate) struct HashClaim {
    /// Number of the first line.
    first: u64,
    /// Offset of the bytes in the batch.
    start: usize,
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
}

impl HashClaim {
    /// Hashes the lines.
    pub(crate) fn leaves(&self) -> Vec<LeafHash> {
        self.lines.iter().map(|line| leaf(&self.bytes, self.start, line)).collect()
    }
}

/// Hashes a line. `start` is the offset of `bytes` in the batch. INVARIANT: the line lies within them.
fn leaf(bytes: &[u8], start: usize, line: &Range<usize>) -> LeafHash {
    let at = line.start.saturating_sub(start)..line.end.saturating_sub(start);
    LeafHash::of(bytes.get(at).unwrap_or_default())
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

    /// Claims unclaimed lines, to be hashed without the lock. `tree` has all records before the due ones.
    pub(crate) fn claim(&mut self, tree: &Frontier) -> Option<HashClaim> {
        let start = self.due.get(self.claimed)?.at.start;
        let near = |line: &&LinePlace| line.at.start.saturating_sub(start) < MAX_CLAIM;
        let lines: Vec<_> =
            self.due.iter().skip(self.claimed).take_while(near).map(|line| line.at.clone()).collect();
        let bytes = self.bytes.get(start..lines.last()?.end)?.to_vec();
        let first = tree.size().saturating_add(self.claimed as u64).saturating_add(1);
        self.claimed = self.claimed.saturating_add(lines.len());
        Some(HashClaim { first, start, bytes, lines })
    }

    /// Stores the hashes of claimed lines that are not in the tree yet, and appends to the tree all lines that are next
    /// and hashed.
    pub(crate) fn put(&mut self, claim: &HashClaim, leaves: &[LeafHash], tree: &mut Frontier) {
        let next = tree.size().saturating_add(1);
        for (seq, leaf) in (claim.first..).zip(leaves) {
            let place = seq.checked_sub(next).and_then(|place| usize::try_from(place).ok());
            if let Some(line) = place.and_then(|place| self.due.get_mut(place)) {
                line.leaf = Some(*leaf);
            }
        }
        while let Some(leaf) = self.due.front().and_then(|line| line.leaf)
            && tree.append_with(leaf, |node| self.nodes.push(node)).is_ok()
        {
            self.due.pop_front();
            self.claimed = self.claimed.saturating_sub(1);
        }
    }

    /// Appends all lines to the tree, and computes the missing hashes.
    pub(crate) fn complete(&mut self, tree: &mut Frontier) -> Result<(), TreeError> {
        for line in self.due.drain(..) {
            let leaf = line.leaf.unwrap_or_else(|| leaf(&self.bytes, 0, &line.at));
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
        self.claimed = 0;
        self.places.clear();
        self.nodes.clear();
    }
}
