/// The bytes are not a hash, which has 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid hash length: 32 bytes expected")]
#[non_exhaustive]
pub struct HashError;

impl HashError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "MERKLE_HASH_LENGTH"
    }
}

/// The size and the root are not the head of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The size is above [`MAX_SIZE`](crate::MAX_SIZE).
    #[error("tree too large: at most 2^63 leaves")]
    TooLarge,
    /// The size is 0 and the root is not that of the empty tree.
    #[error("root of an empty tree must be the hash of the empty string")]
    EmptyRoot,
}

impl HeadError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "MERKLE_TOO_LARGE",
            Self::EmptyRoot => "MERKLE_EMPTY_ROOT",
        }
    }
}

/// A tree cannot grow, be resumed or give a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The tree has [`MAX_SIZE`](crate::MAX_SIZE) leaves.
    #[error("tree full: 2^63 leaves")]
    Full,
    /// A tree of that size has no leaf with that index.
    #[error("leaf index out of range")]
    NoSuchLeaf,
    /// The tree is smaller than that size, or consistency with an empty tree was requested.
    #[error("tree size out of range")]
    NoSuchSize,
    /// The number of hashes is not the number of full subtrees of a tree of that size.
    #[error("wrong number of hashes for the tree size")]
    Frontier,
    /// A node of the tree is missing.
    #[error("a node of the tree is missing")]
    NoSuchNode,
}

impl TreeError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Full => "MERKLE_FULL",
            Self::NoSuchLeaf => "MERKLE_NO_SUCH_LEAF",
            Self::NoSuchSize => "MERKLE_NO_SUCH_SIZE",
            Self::Frontier => "MERKLE_FRONTIER",
            Self::NoSuchNode => "MERKLE_NO_SUCH_NODE",
        }
    }
}

/// A proof does not hold. The variants reveal only public facts: sizes, lengths, and whether the root matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The index is not below the size.
    #[error("leaf index out of range of the proof's tree")]
    Index,
    /// The proof is for trees of other sizes, for an empty old tree, for a shrinking tree, or for more than 2^63
    /// leaves.
    #[error("tree sizes do not match the proof")]
    Size,
    /// The sizes require more or fewer hashes.
    #[error("wrong number of hashes in the proof")]
    Length,
    /// The hashes lead to another root.
    #[error("root mismatch: the proof leads to another root")]
    Root,
}

impl ProofError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Index => "MERKLE_INDEX",
            Self::Size => "MERKLE_SIZE",
            Self::Length => "MERKLE_LENGTH",
            Self::Root => "MERKLE_ROOT",
        }
    }
}

countersign_core::coded!(HashError, HeadError, TreeError, ProofError);
