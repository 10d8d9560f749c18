mod generate;
mod keyring;
mod show;
mod trust;

pub(crate) use keyring::read_evidence_keyring;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Make and show keys, and say which keys are trusted.
///
/// Ed25519 keys belong to operators, who sign what agents may do; a trust root names the public halves that count. HMAC
/// keys belong to gates, which mint and verify approvals with them. The record, where it is a log, has an Ed25519 key of
/// its own, which signs what the log holds. A keyring holds the public halves of those who may back an action
/// proposal's claims.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a new key and write it to a file that only its owner can read.
    #[command(after_help = "Examples:\n  \
        countersign keys generate --kind ed25519 --out operator.key.json --public-out operator.pub.json\n  \
        countersign keys generate --kind hmac --out approval.key.json\n  \
        countersign keys generate --kind log --origin example.com/log --out log.key.json --public-out log.vkey")]
    Generate(generate::Generate),
    /// Show what a key file holds; never its secret.
    #[command(after_help = "Examples:\n  countersign keys show operator.key.json\n  \
        countersign keys show log.key.json --origin example.com/log")]
    Show(show::KeysShowArgs),
    /// Make a trust root: the operators' public keys, and how many of them must sign.
    #[command(after_help = "Example:\n  \
        countersign keys trust --threshold 2 --out trust-root.json alice.pub.json bob.pub.json carol.pub.json")]
    Trust(trust::Trust),
    /// Hand trust on from one trust root to the next.
    #[command(subcommand)]
    TrustUpdate(trust::TrustUpdate),
    /// Check or make a keyring for evidence: the keys that back a proposal's claims, and their scopes.
    ///
    /// The file is PIC/1.0's, and may say more of each key: from when and until when it counts, and for which tools,
    /// servers, impacts and principals. A keyring with any fault is refused as a whole (exit code 6).
    #[command(after_help = "Examples:\n  \
        countersign keys keyring --add cfo-1=cfo.pub --add cto-1=cto.pub > keyring.json\n  \
        countersign keys keyring keyring.json")]
    Keyring(keyring::KeyringArgs),
}

impl Keys {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Generate(verb) => verb.run(out),
            Self::Show(verb) => verb.run(out),
            Self::Trust(verb) => verb.run(out),
            Self::TrustUpdate(verb) => verb.run(out),
            Self::Keyring(verb) => verb.run(out),
        }
    }
}
