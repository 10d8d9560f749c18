use std::hint::black_box;

use countersign_audit_log::{AuditSink as _, MemorySink};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_keys::sealed::{PayloadBuffer, SealedText};
use countersign_merkle::LeafHash;
use countersign_testing::World;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Label of an approval's tag.
const LABEL: &str = "countersign/approval-1";

/// The hashes that a decision cannot do without, by `sha2` and `hmac` with a prepared key: over the canonical arguments,
/// the input of the token's tag, the record's line as a leaf, and one node. A tree of n leaves has n - 1 nodes, so a
/// record costs one on average.
#[derive(Clone, Debug)]
pub struct Bare {
    args: Option<Vec<u8>>,
    tag: Option<(Hmac<Sha256>, Vec<u8>)>,
    leaf: Vec<u8>,
    node: Option<[u8; 65]>,
}

impl Bare {
    /// Floor of the latest decision in the world's sink.
    #[must_use]
    pub fn of_latest(world: &World) -> Self {
        let latest = world.sink.latest();
        let (sequence, record) = latest.last().unwrap();
        let line_at = |sequence: u64| {
            let body = serde_json::to_string(record).unwrap();
            format!("{{\"seq\":{sequence},{}", body.strip_prefix('{').unwrap())
        };
        // The line is the one that a sink hashes: alone in a tree, it is the root.
        let alone = MemorySink::new();
        alone.record(record).unwrap();
        let leaf = LeafHash::of(line_at(1).as_bytes());
        assert_eq!(alone.head().root().as_bytes(), leaf.as_bytes(), "the line of a record");
        let leaf = [&[0], line_at(*sequence).as_bytes()].concat();
        Self { args: None, tag: None, leaf, node: Some([1; 65]) }
    }

    /// Adds the arguments.
    #[must_use]
    pub fn args(mut self, args: &[u8]) -> Self {
        let canonical = read(args, Recipe::Jcs1, &Limits::default()).unwrap();
        self.args = Some(canonical.bytes().to_vec());
        self
    }

    /// Adds a token.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        let mut buffer = PayloadBuffer::default();
        let sealed = SealedText::parse("cs1", token, &mut buffer).unwrap();
        let payload = sealed.open(LABEL, World::keys().active().1).unwrap();
        let size = (LABEL.len() as u64).to_be_bytes();
        let input = [&size, LABEL.as_bytes(), payload].concat();
        self.tag = Some((Hmac::<Sha256>::new_from_slice(&[9; 32]).unwrap(), input));
        self
    }

    /// Leaves the tree's node out: SHA-256 of the record alone.
    #[must_use]
    pub const fn record_alone(mut self) -> Self {
        self.node = None;
        self
    }

    /// Length of the record's line.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.leaf.len() - 1
    }

    /// Bytes that are hashed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let args = self.args.as_ref().map_or(0, Vec::len);
        let tag = self.tag.as_ref().map_or(0, |(_, input)| input.len());
        args + tag + self.leaf.len() + self.node.map_or(0, |node| node.len())
    }

    /// Hashes.
    pub fn run(&self) {
        if let Some(args) = &self.args {
            black_box(Sha256::digest(black_box(args)));
        }
        if let Some((mac, input)) = &self.tag {
            let mut mac = mac.clone();
            mac.update(black_box(input));
            black_box(mac.finalize().into_bytes());
        }
        black_box(Sha256::digest(black_box(&self.leaf)));
        if let Some(node) = &self.node {
            black_box(Sha256::digest(black_box(node)));
        }
    }
}
