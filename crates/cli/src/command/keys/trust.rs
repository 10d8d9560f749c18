use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_host::inputs::read_trust_root;
use countersign_keys::dsse::Envelope;
use countersign_keys::file::read_public_key;
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, Replace, must_be_free, read_file, read_signers, write_file};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// How many of the keys must sign.
    #[arg(long, value_name = "N")]
    threshold: usize,
    /// Version of the trust root. A root that replaces another has the version after it.
    #[arg(long = "root-version", value_name = "N", default_value_t = 1)]
    version: u64,
    /// File to write the trust root to.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    /// An operator's signing key, of which the public half counts. May be repeated.
    #[arg(long = "signing-key", value_name = "FILE")]
    signing_keys: Vec<PathBuf>,
    /// The operators' public key files.
    #[arg(required_unless_present = "signing_keys", value_name = "PUBKEY")]
    keys: Vec<PathBuf>,
}

impl Trust {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let replace = Replace::from(self.force);
        must_be_free(&self.out, replace)?;
        let public = |path: &PathBuf| {
            read_public_key(path).map_err(|error| Failure::from(error).about(path.display()))
        };
        let mut keys = self.keys.iter().map(public).collect::<Result<Vec<_>, _>>()?;
        keys.extend(read_signers(&self.signing_keys)?.iter().map(SigningKey::verifying_key));
        let root = TrustRoot::new(self.version, self.threshold, keys)?;
        write_file(&self.out, root.to_json().as_bytes(), replace)?;
        report(out, &root, Some(&self.out))
    }
}

/// Hand trust on from one trust root to the next.
///
/// The next root has the version after the old one and is signed by enough keys of the old root and enough keys of
/// its own. Who holds the old root can then verify the new one.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustUpdate {
    /// Sign the next root, as made by `keys trust --root-version N`.
    #[command(after_help = "Example:\n  countersign keys trust-update sign --next root-2.json \
        --key alice.key.json --key bob.key.json --out root-2.dsse.json")]
    Sign(TrustSignArgs),
    /// Verify a signed next root against the root that is trusted now, and write it out.
    #[command(after_help = "Example:\n  countersign keys trust-update verify root-2.dsse.json \
        --trust-root root-1.json --out trust-root.json")]
    Verify(TrustVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TrustSignArgs {
    /// The next trust root.
    #[arg(long, value_name = "FILE")]
    next: PathBuf,
    /// A key of the old root or of the next; give as many as both need.
    #[arg(long = "key", required = true, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// File to write the signed root to.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrustVerifyArgs {
    /// The signed next root.
    file: PathBuf,
    /// The root that is trusted now.
    #[arg(long, value_name = "FILE")]
    trust_root: PathBuf,
    /// File to write the verified root to; without it nothing is written.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

impl TrustUpdate {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Sign(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
        }
    }
}

impl TrustSignArgs {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let replace = Replace::from(self.force);
        must_be_free(&self.out, replace)?;
        let next = read_trust_root(&self.next)?;
        let keys = read_signers(&self.keys)?;
        let envelope = next.sign(&keys.iter().collect::<Vec<_>>());
        write_file(&self.out, envelope.to_json().as_bytes(), replace)?;
        report(out, &next, Some(&self.out))
    }
}

impl TrustVerifyArgs {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let replace = Replace::from(self.force);
        if let Some(path) = &self.out {
            must_be_free(path, replace)?;
        }
        let now = read_trust_root(&self.trust_root)?;
        let bytes = read_file(&self.file, REGISTRY_BYTES)?;
        let envelope = Envelope::from_json(&bytes, bytes.len())
            .map_err(|error| Failure::from(error).about(self.file.display()).into_refusal())?;
        // This verb has no registry that could revoke a key; a gate with a registry asks it.
        let next = now
            .update(&envelope, &|_| false)
            .map_err(|error| Failure::from(error).about(self.file.display()).into_refusal())?;
        if let Some(path) = &self.out {
            write_file(path, next.to_json().as_bytes(), replace)?;
        }
        report(out, &next, self.out.as_deref())
    }
}

/// Reads a trust root file.
fn report(out: &mut Output, root: &TrustRoot, written: Option<&Path>) -> Result<Exit, Failure> {
    let keys: Vec<_> = root.keys().map(|key| key.key_id().to_string()).collect();
    let report = json!({
        "ok": true,
        "version": root.version(),
        "threshold": root.threshold(),
        "keys": keys,
        "fingerprint": root.fingerprint(),
        "out": written.map(|path| path.display().to_string()),
    });
    let mut text = format!(
        "trust root version {}: {} of {} keys must sign\nfingerprint {}",
        root.version(),
        root.threshold(),
        keys.len(),
        root.fingerprint()
    );
    for key in &keys {
        text.push_str("\n  ");
        text.push_str(key);
    }
    out.result(&report, &text)?;
    Ok(Exit::Done)
}
