mod entries;
mod grow;
mod verify;

pub(crate) use grow::{consistency_report, inclusion_report};

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Make and verify Merkle trees and their proofs (RFC 9162, SHA-256).
///
/// An entry is hashed behind the byte 0x00 and a node behind 0x01. Hashes are Base64 of 32 bytes, with padding. What `prove`
/// prints is what the two verifying verbs read.
#[derive(Debug, Subcommand)]
pub(crate) enum Merkle {
    /// Print the size and the root of a list of entries.
    #[command(
        after_help = "Examples:\n  printf 'one\\ntwo\\nthree\\n' | countersign merkle root --lines -\n  \
        echo '[\"b25l\",\"dHdv\",\"dGhyZWU=\"]' | countersign merkle root"
    )]
    Root(grow::Root),
    /// Prove that an entry is in the list, or that a longer list goes on from a shorter one.
    #[command(after_help = "Examples:\n  \
        printf 'one\\ntwo\\nthree\\n' | countersign merkle prove --lines - --index 1 |\n    \
        countersign merkle verify-inclusion\n  \
        printf 'one\\ntwo\\nthree\\n' | countersign merkle prove --lines - --old-size 2 |\n    \
        countersign merkle verify-consistency")]
    Prove(grow::MerkleProveArgs),
    /// Verify that a leaf is in a tree: exit code 0 when the proof holds, 3 when not.
    ///
    /// Reads one JSON object from standard input: leafIdx, treeSize, root, leafHash and proof (a list of hashes, or null for
    /// none). Members `desc` and `wantErr`, which public test vectors have besides, decide nothing; any other is an error.
    #[command(after_help = "Example:\n  countersign merkle verify-inclusion < proof.json")]
    VerifyInclusion(verify::Inclusion),
    /// Verify that one tree goes on from another: exit code 0 when the proof holds, 3 when not.
    ///
    /// Reads one JSON object from standard input: size1, size2, root1, root2 and proof (a list of hashes, or null for none).
    /// Two trees of one size, with no hashes, are consistent when their roots are the same bytes. From a tree without
    /// leaves nothing can be proved. Members `desc` and `wantErr`, which public test vectors have besides, decide nothing;
    /// any other is an error.
    #[command(after_help = "Example:\n  countersign merkle verify-consistency < proof.json")]
    VerifyConsistency(verify::Consistency),
}

impl Merkle {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Root(verb) => verb.run(out),
            Self::Prove(verb) => verb.run(out),
            Self::VerifyInclusion(verb) => verb.run(out),
            Self::VerifyConsistency(verb) => verb.run(out),
        }
    }
}
