/// Says that bytes are not a hash: 32 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 32 bytes")]
#[non_exhaustive]
pub struct HashError;

impl HashError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "MERKLE_HASH_LENGTH"
    }
}

/// Why a size and a root are not the head of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The size is above [`MAX_SIZE`](crate::MAX_SIZE).
    #[error("a tree has at most 2^63 leaves")]
    TooLarge,
    /// There is one empty tree, and it has another root.
    #[error("the root of a tree without leaves is the hash of nothing")]
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

/// Why a tree cannot grow, cannot be taken up again or cannot give a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The tree has [`MAX_SIZE`](crate::MAX_SIZE) leaves.
    #[error("the tree has as many leaves as it can have")]
    Full,
    /// There is no leaf of that index in a tree of that size.
    #[error("the tree has no such leaf")]
    NoSuchLeaf,
    /// The tree is not that large, or never had a size to prove anything from: an empty tree proves nothing.
    #[error("the tree has not been of that size")]
    NoSuchSize,
    /// The hashes are not as many as a tree of that size leaves open.
    #[error("the hashes do not belong to a tree of that size")]
    Frontier,
    /// A node of the tree is not at hand.
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

/// Why a proof does not hold. All that it tells apart is public: sizes, lengths, and whether the root was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The index is not below the size.
    #[error("the proof is for a leaf that the tree does not have")]
    Index,
    /// The proof is for trees of other sizes, from no leaves, from more leaves to fewer, or beyond 2^63 leaves.
    #[error("the proof is not for trees of these sizes")]
    Size,
    /// Hashes are missing, or there are more of them than the sizes call for.
    #[error("the proof has too few or too many hashes")]
    Length,
    /// The hashes lead to another root.
    #[error("the proof does not lead to the root")]
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
