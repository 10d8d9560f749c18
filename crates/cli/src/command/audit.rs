mod archive;
mod checkpoint;
mod describe;
mod entries;
mod export;
mod follow;
pub(crate) mod log;
mod own;
mod prove;
mod receipt;
mod retire;
mod show;
mod tail;
mod verify;
#[cfg(feature = "witness")]
mod witness;

pub(crate) use entries::{unverified, verified};
pub(crate) use follow::Followers;
pub(crate) use log::KeySource;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Read the record of decisions, verify it, and prove what is in it.
///
/// The record is a log: a folder of JSON lines, which are the leaves of a Merkle tree, with checkpoints of it that are signed
/// by the log's key. It has one line for every session, decision, outcome and refused message, and holds digests of
/// arguments, and of their values only those that the operator named. A log is verified, and what it holds is proved,
/// with its public key alone.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Print the record, one line for each entry. Nothing is verified.
    #[command(after_help = "Examples:\n  countersign audit show log/ --verdict reject\n  \
        countersign audit show log/ --agent support-bot")]
    Show(show::AuditShowArgs),
    /// Print the last entries of the record, and with --follow those that come. Nothing is verified.
    #[command(after_help = "Example:\n  countersign audit tail log/ -n 20 --follow")]
    Tail(tail::Tail),
    /// Verify a log: exit code 0 when it holds, 3 when not.
    ///
    /// Where several logs lie in the folder, all are verified: the key is that of the first, and the others have it under origins
    /// of their own, as example.com/log/1. Every entry, root and signature is verified with the log's public key. That nothing was cut from its end, and no older
    /// copy restored, only shows with the state that its writers keep, or with a checkpoint that was kept elsewhere (see
    /// `audit checkpoint`). Archived entries, and those behind the last checkpoint, are reported; with --complete they are refused, as
    /// may be a log that is being written.
    #[command(
        after_help = "Examples:\n  countersign audit verify log/ --key log.vkey --checkpoint kept.note\n  \
        countersign audit verify log/ --key log.vkey --state record.state"
    )]
    Verify(verify::AuditVerifyArgs),
    /// Verify a log and print its last signed checkpoint, to be kept elsewhere.
    #[command(after_help = "Example:\n  countersign audit checkpoint log/ --key log.vkey > kept.note")]
    Checkpoint(checkpoint::AuditCheckpointArgs),
    /// Have a log's last checkpoint cosigned by witnesses (C2SP tlog-witness): prints it, to be kept elsewhere.
    ///
    /// A witness is an independent service that remembers the latest checkpoint of the log, and cosigns only one that goes on
    /// from it. Sent are the signed checkpoint and a proof made of hashes, and nothing that entries hold. The proof
    /// is verified under the checkpoint; other entries are not read: `audit verify` does that. Exit code 3 when a witness has seen
    /// another history of the log.
    #[cfg(feature = "witness")]
    #[command(
        after_help = "Example:\n  countersign audit witness log/ --key log.vkey --witness https://witness.example \\\n    \
        --witness-key witness.example+31cae8dc+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2 \\\n    \
        --state log.cosigned"
    )]
    Witness(witness::Witness),
    /// Prove that an entry is in a log, or that it only grew: prints the proof as JSON.
    ///
    /// It is verified under the last checkpoint. Other entries are not read: `audit verify` does that.
    ///
    /// Where several logs lie in the folder, all are verified, and the proof is of the one that has the entry or the size. Its member
    /// `desc` names that log; where several have it, --log takes one (AUDIT_SEVERAL_LOGS).
    #[command(after_help = "Examples:\n  \
        countersign audit prove log/ --key log.vkey --seq 7 | countersign merkle verify-inclusion\n  \
        countersign audit prove log/ --key log.vkey --from 10 --to 20 | countersign merkle verify-consistency")]
    Prove(prove::AuditProveArgs),
    /// Make the receipt of one entry, which the log's public key alone verifies.
    ///
    /// It is verified under the last checkpoint. Other entries are not read, `audit verify` does that; but before it is said that no call has
    /// an id, the whole log is verified.
    ///
    /// Where several logs lie in the folder, all are verified, and a call is found in any of them. A number that several logs have
    /// needs --log (AUDIT_SEVERAL_LOGS).
    #[command(after_help = "Examples:\n  \
        countersign audit receipt log/ --key log.vkey --call-id c7 --out c7.receipt\n  \
        countersign audit verify-receipt c7.receipt --key log.vkey")]
    Receipt(receipt::Make),
    /// Verify a receipt with the log's public key alone, and show its entry: exit code 0 when it holds, 3 when not.
    ///
    /// Whitespace behind the receipt is no part of it. One that was formatted anew, as by a pretty-printer, is not verified:
    /// exit code 1, with RECEIPT_SPELLING.
    #[command(after_help = "Example:\n  countersign audit verify-receipt c7.receipt --key log.vkey")]
    VerifyReceipt(receipt::ReceiptVerifyArgs),
    /// Write a log as files that any web server can serve (C2SP tlog-tiles).
    ///
    /// Where several logs lie in the folder, all are written, each numbered one into a subfolder of its number.
    /// The folder is made if it is not there. An earlier export of the same log may be in it: files that are there stay as they
    /// are, and only `checkpoint` is replaced, last of all. A file with other content is never replaced. The entries that are
    /// written are verified first; those of an earlier export are not read again, and of its full files only the last are verified. The log's own folder, one
    /// within it and one that it lies in are refused: a server of the tiles must not serve the log as well.
    #[command(after_help = "Example:\n  countersign audit export log/ --key log.vkey --tiles public/")]
    Export(export::Export),
    /// Move the oldest segments of a log to an archive, which verifies by itself.
    ///
    /// The log is verified first. Each segment is copied, synced and read back before it is removed; the segment that is being
    /// written stays. The archive's folder gets a manifest, and the log an entry `archived` with its digest. The log's state
    /// learns its new first entry, as do other states beside the folder that know the log. After an interruption the same command finishes it. Refused while a process writes the log.
    #[command(
        after_help = "Examples:\n  countersign audit archive log/ --key log.key.json --before 90d --to archive/\n  \
        countersign audit verify archive/ --key log.vkey\n  \
        countersign audit verify log/ --archive archive/ --key log.vkey --complete"
    )]
    Archive(archive::Archive),
    /// Close a log that no gateway opens, move it aside and begin another one under a new origin.
    ///
    /// A note is signed with the log's key: the last checkpoint up to which the log verifies, and the SHA-256 of every file as it is. The
    /// folder, with all logs in it, is renamed to its name with `.retired-` and the beginning of the note's SHA-256 behind it. The first
    /// entry of the new log names the note. Nothing is removed. After an interruption the same command finishes it; until then no
    /// gateway starts. Refused while a process writes a log of the folder.
    #[command(
        after_help = "Example:\n  countersign audit retire log/ --key log.key.json --origin example.com/log-2"
    )]
    Retire(retire::Retire),
    /// Close a sound log, move it aside and begin another one under a new key and a new origin.
    ///
    /// All logs of the folder are verified first. Everything else is as with `retire`, where the key stays. A new key signs a new tree, and
    /// two trees under one origin are a fork, so the origin is a new one.
    #[command(after_help = "Example:\n  \
        countersign keys generate --kind log --origin example.com/log-2 --out log-2.key.json --public-out log-2.vkey\n  \
        countersign audit rotate-key log/ --key log.key.json --new-key log-2.key.json --origin example.com/log-2")]
    RotateKey(retire::RotateKey),
    /// Verify the note of a retired folder, and every file in it: exit code 0 when all is as it was closed, 3 when not.
    ///
    /// Links, folders and files whose names cannot stand in a list have no sum: they are named. One that was not there when the folder
    /// was closed is refused.
    #[command(
        after_help = "Example:\n  countersign audit verify-closing log.retired-0123456789ab/ --key log.vkey"
    )]
    VerifyClosing(retire::VerifyClosing),
}

impl Audit {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Show(verb) => out.show(|out| verb.run(out)),
            Self::Tail(verb) => out.show(|out| verb.run(out)),
            Self::Verify(verb) => verb.run(out),
            Self::Checkpoint(verb) => verb.run(out),
            #[cfg(feature = "witness")]
            Self::Witness(verb) => verb.run(out),
            Self::Prove(verb) => verb.run(out),
            Self::Receipt(verb) => verb.run(out),
            Self::VerifyReceipt(verb) => verb.run(out),
            Self::Export(verb) => verb.run(out),
            Self::Archive(verb) => verb.run(out),
            Self::Retire(verb) => verb.run(out),
            Self::RotateKey(verb) => verb.run(out),
            Self::VerifyClosing(verb) => verb.run(out),
        }
    }
}
