//! Side file of a segment. For each record it has the place, a tag of the call that the record decides on, and the
//! nodes of the tree that it completes. It is written alongside and never synced, so it is never trusted: data read
//! from it is verified under a checkpoint.

use std::io::{self, Read};

use countersign_core::Digest;
use countersign_merkle::NodeHash;

/// Bytes before the first record.
pub(crate) const HEADER: u64 = 64;

/// Least number of records of a segment with a side file.
pub(crate) const LEAST: u64 = 256;

/// Most bytes that the records of a segment of [`LEAST`] take in its side file.
pub(crate) const LEAST_BYTES: usize = 64 + 256 * (PLACE + NODE);

const MAGIC: &[u8; 24] = b"countersign-side-file-1\n";

/// Bytes of a record's place: its offset in the segment, and the tag.
const PLACE: usize = 16;

const NODE: usize = 32;

/// Returns the name of the side file of the segment that begins with that record.
pub(crate) fn side_name(first: u64) -> String {
    format!("{first:012}.side")
}

/// Returns the header of a side file. `head` is the segment's first line, without its newline.
pub(crate) fn side_header(first: u64, head: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), &first.to_be_bytes(), Digest::of(head).as_bytes()].concat()
}

/// Offset of a record in the side file of its segment, which begins with record `first`.
pub(crate) const fn side_offset(first: u64, seq: u64) -> u64 {
    let (before, index) = (first.saturating_sub(1), seq.saturating_sub(1));
    let places = index.saturating_sub(before).saturating_mul(PLACE as u64);
    let nodes = nodes_of(index).saturating_sub(nodes_of(before)).saturating_mul(NODE as u64);
    HEADER.saturating_add(places).saturating_add(nodes)
}

/// Offset of the node of a level that a record completes. INVARIANT: the record's index ends in at least `level` one
/// bits.
pub(crate) const fn node_offset(first: u64, seq: u64, level: u32) -> u64 {
    let nodes = (level as u64).saturating_sub(1).saturating_mul(NODE as u64);
    side_offset(first, seq).saturating_add(PLACE as u64).saturating_add(nodes)
}

/// Number of full subtrees of `leaves` leaves, without the leaves themselves.
const fn nodes_of(leaves: u64) -> u64 {
    leaves.saturating_sub(leaves.count_ones() as u64)
}

/// Number of nodes that a record completes.
pub(crate) const fn completed_by(seq: u64) -> u32 {
    seq.saturating_sub(1).trailing_ones()
}

/// Offset of a record in its segment, and the tag of the call that it decides on; 0 for any other record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SidePlace {
    pub(crate) offset: u64,
    pub(crate) tag: u64,
}

impl SidePlace {
    pub(crate) fn push_to(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.extend_from_slice(&self.tag.to_be_bytes());
    }

    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        Ok(Self { offset: read_u64(from)?, tag: read_u64(from)? })
    }
}

pub(crate) fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

pub(crate) fn read_node(from: &mut impl Read) -> io::Result<NodeHash> {
    let mut bytes = [0; NODE];
    from.read_exact(&mut bytes)?;
    Ok(NodeHash::from_digest(Digest::from_bytes(bytes)))
}

/// Returns the tag of a call id as recorded; never 0. Two ids can have the same tag, so the record itself is compared.
pub(crate) fn call_tag(id: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *Digest::of(id.as_bytes()).as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
}

/// Returns the tag of a record line in the form that the log writes.
pub(crate) fn line_tag(rest: &[u8]) -> u64 {
    const MEMBER: &[u8] = b",\"call_id\":";
    if !rest.starts_with(b"\"type\":\"decision\",") {
        return 0;
    }
    // Inside a text every quote is escaped, so this can only be the member.
    let Some(at) = rest.windows(MEMBER.len()).position(|bytes| bytes == MEMBER) else { return 0 };
    let text = rest.get(at.saturating_add(MEMBER.len())..).unwrap_or_default();
    let id = serde_json::Deserializer::from_slice(text).into_iter::<String>().next();
    id.and_then(Result::ok).map_or(0, |id| call_tag(&id))
}

/// Reads the places of the records before `end`, and returns the sorted list of calls that ends a closed segment's side
/// file: tag and number of each decision, and their count.
pub(crate) fn side_calls(from: &mut impl Read, first: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut calls = Vec::new();
    each_place(from, first, end, |seq, place| {
        if place.tag != 0 {
            calls.push((place.tag, seq));
        }
    })?;
    calls.sort_unstable();
    let mut bytes = Vec::with_capacity(calls.len().saturating_mul(PLACE).saturating_add(8));
    for (tag, seq) in &calls {
        SidePlace { offset: *tag, tag: *seq }.push_to(&mut bytes);
    }
    bytes.extend_from_slice(&(calls.len() as u64).to_be_bytes());
    Ok(bytes)
}

/// Passes on the places of the records from `first` to before `end`. `from` begins with the first of them.
///
/// # Errors
/// `InvalidData` if an offset is not larger than the one before: an unsynced page can read back as zeros.
pub(crate) fn each_place(
    from: &mut impl Read,
    first: u64,
    end: u64,
    mut take: impl FnMut(u64, SidePlace),
) -> io::Result<()> {
    let (mut nodes, mut before) = ([0; 64 * NODE], 0);
    for seq in first..end {
        let place = SidePlace::read(from)?;
        if place.offset <= std::mem::replace(&mut before, place.offset) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        take(seq, place);
        let skipped = (completed_by(seq) as usize).saturating_mul(NODE);
        from.read_exact(nodes.get_mut(..skipped).unwrap_or_default())?;
    }
    Ok(())
}
