use std::collections::VecDeque;
use std::ops::Range;

use countersign_merkle::{Frontier, LeafHash, NodeHash, TreeError};

use crate::line::record_prefix;
use crate::segment::SidePlace;

/// How many bytes of lines a batch takes before it is written; one more line may be behind them.
pub(crate) const MAX_BATCH: usize = 4 << 20;

/// How many bytes of lines one caller hashes at a time; one more line may be behind them.
const MAX_CLAIM: usize = 16 << 10;

/// Lines that are written and synced together.
///
/// A record has its place once it is pushed. Its hash may come later, from whoever claims it; all that were pushed come into the
/// tree in their order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The record lines that are not in the tree yet, the next one first.
    due: VecDeque<Line>,
    /// How many of them somebody has claimed, from the first on.
    claimed: usize,
    /// For the side file: where each line begins in the batch, and the nodes that those in the tree complete, in their order.
    places: Vec<SidePlace>,
    nodes: Vec<NodeHash>,
}

/// Lines that somebody has claimed to be hashed.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Number of the first one.
    first: u64,
    /// Where in the batch the bytes are from.
    start: usize,
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
}

impl Claim {
    /// Hashes the lines.
    pub(crate) fn leaves(&self) -> Vec<LeafHash> {
        self.lines.iter().map(|line| leaf(&self.bytes, self.start, line)).collect()
    }
}

/// Hashes a line of bytes that are from `start` on in the batch. INVARIANT: it lies within them.
fn leaf(bytes: &[u8], start: usize, line: &Range<usize>) -> LeafHash {
    let at = line.start.saturating_sub(start)..line.end.saturating_sub(start);
    LeafHash::of(bytes.get(at).unwrap_or_default())
}

/// Where a line stands in the batch, without its newline, and its hash if somebody has made it.
#[derive(Debug)]
struct Line {
    at: Range<usize>,
    leaf: Option<LeafHash>,
}

impl Batch {
    /// Adds the record of a number, of whose line `body` is what comes behind the number. The caller has seen to its length.
    /// `tag` is that of the call that it decides on.
    pub(crate) fn push(&mut self, seq: u64, body: &[u8], tag: u64) {
        let start = self.bytes.len();
        self.places.push(SidePlace { offset: start as u64, tag });
        record_prefix(seq, &mut self.bytes);
        self.bytes.extend_from_slice(body);
        self.due.push_back(Line { at: start..self.bytes.len(), leaf: None });
        self.bytes.push(b'\n');
    }

    /// Claims lines that nobody has claimed, to be hashed where nobody waits for it. The tree holds what comes before those due.
    pub(crate) fn claim(&mut self, tree: &Frontier) -> Option<Claim> {
        let start = self.due.get(self.claimed)?.at.start;
        let near = |line: &&Line| line.at.start.saturating_sub(start) < MAX_CLAIM;
        let lines: Vec<_> =
            self.due.iter().skip(self.claimed).take_while(near).map(|line| line.at.clone()).collect();
        let bytes = self.bytes.get(start..lines.last()?.end)?.to_vec();
        let first = tree.size().saturating_add(self.claimed as u64).saturating_add(1);
        self.claimed = self.claimed.saturating_add(lines.len());
        Some(Claim { first, start, bytes, lines })
    }

    /// Takes the hashes of claimed lines, as far as they are still to come into the tree, and puts what is next into it.
    pub(crate) fn put(&mut self, claim: &Claim, leaves: &[LeafHash], tree: &mut Frontier) {
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

    /// Puts all into the tree, and makes the hashes that nobody has made yet.
    pub(crate) fn complete(&mut self, tree: &mut Frontier) -> Result<(), TreeError> {
        for line in self.due.drain(..) {
            let leaf = line.leaf.unwrap_or_else(|| leaf(&self.bytes, 0, &line.at));
            tree.append_with(leaf, |node| self.nodes.push(node))?;
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

    pub(crate) fn places(&self) -> &[SidePlace] {
        &self.places
    }

    pub(crate) fn nodes(&self) -> &[NodeHash] {
        &self.nodes
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
        self.claimed = 0;
        self.places.clear();
        self.nodes.clear();
    }
}
