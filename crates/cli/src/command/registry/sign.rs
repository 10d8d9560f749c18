use std::path::{Path, PathBuf};

use clap::Args;
use countersign_core::{AgentId, KeyId, Millis, Timestamp};
use countersign_keys::dsse::Envelope;
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::{PAYLOAD_TYPE, RegistryDraft};
use serde_json::json;

use super::read::{parts, read_draft, read_envelope};
use countersign_host::inputs::read_trust_root;

use crate::failure::{Exit, Failure};
use crate::files::{Replace, must_be_free, read_signers, write_file};
use crate::output::{Output, internal};
use crate::time::now;

#[derive(Debug, Args)]
pub(crate) struct RegistrySignArgs {
    /// The draft.
    draft: PathBuf,
    /// Version to sign, in place of the draft's: one above the version that gates accepted last.
    #[arg(long, value_name = "N")]
    registry_version: Option<u64>,
    #[command(flatten)]
    signing: Signing,
}

/// What every signature needs.
#[derive(Debug, Args)]
struct Signing {
    /// An operator's signing key; give several where several must sign.
    #[arg(long = "key", required = true, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// How long the registry counts: a number and ms, s, m, h or d.
    #[arg(long, default_value = "30d")]
    ttl: Millis,
    /// File to write the signed registry to.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cosign {
    /// The signed registry.
    file: PathBuf,
    /// An operator's signing key.
    #[arg(long = "key", required = true, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// File to write the registry to.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The signed registry. It must be signed by one of the keys given, or as --trust-root asks.
    file: PathBuf,
    /// Agent to revoke.
    #[arg(long = "agent", value_name = "AGENT", required_unless_present = "revoked_keys")]
    agents: Vec<AgentId>,
    /// Id of a key to revoke, an operator's or an approver's.
    #[arg(long = "revoke-key", value_name = "KEY_ID")]
    revoked_keys: Vec<KeyId>,
    /// The trust root that the registry is verified against first.
    #[arg(long, value_name = "FILE")]
    trust_root: Option<PathBuf>,
    #[command(flatten)]
    signing: Signing,
}

impl RegistrySignArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        self.signing.check()?;
        let mut draft = read_draft(&self.draft)?;
        if let Some(version) = self.registry_version {
            draft.set_version(version)?;
        }
        let keys = read_signers(&self.signing.keys)?;
        self.signing.write(out, &draft, &keys)
    }
}

impl Signing {
    fn check(&self) -> Result<(), Failure> {
        must_be_free(&self.out, Replace::from(self.force))
    }

    fn write(&self, out: &mut Output, draft: &RegistryDraft, keys: &[SigningKey]) -> Result<Exit, Failure> {
        let issued = now()?;
        let expires = issued.checked_add(self.ttl).map_err(|error| Failure::usage(error.to_string()))?;
        let envelope = draft.sign(issued, expires, &keys.iter().collect::<Vec<_>>())?;
        write_file(&self.out, envelope.to_json().as_bytes(), Replace::from(self.force))?;
        report(out, draft, &envelope, expires, &self.out)
    }
}

impl Cosign {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let replace = Replace::from(self.force);
        must_be_free(&self.out, replace)?;
        let keys = read_signers(&self.keys)?;
        let envelope = read_envelope(&self.file)?;
        if envelope.payload_type() != PAYLOAD_TYPE {
            return Err(
                Failure::new("REGISTRY_PAYLOAD_TYPE", "not a signed registry").about(self.file.display())
            );
        }
        // Only bytes that parse as a registry are signed.
        let (draft, json) =
            parts(envelope.unverified_payload()).map_err(|failure| failure.about(self.file.display()))?;
        let time = |name: &str| {
            let millis = json.get(name).and_then(serde_json::Value::as_u64);
            millis.and_then(|millis| Timestamp::from_millis(millis).ok())
        };
        let (Some(issued), Some(expires)) = (time("issued"), time("expires")) else {
            return Err(Failure::new("REGISTRY_CONTENT", "issue and expiry times missing in the registry")
                .about(self.file.display()));
        };
        if draft.payload(issued, expires)?.bytes() != envelope.unverified_payload() {
            let text = "signed payload is not the registry's canonical form";
            return Err(Failure::new("REGISTRY_NOT_CANONICAL", text).about(self.file.display()));
        }
        let envelope = keys.iter().fold(envelope, Envelope::add_signature);
        write_file(&self.out, envelope.to_json().as_bytes(), replace)?;
        report(out, &draft, &envelope, expires, &self.out)
    }
}

impl Revoke {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        self.signing.check()?;
        let keys = read_signers(&self.signing.keys)?;
        let root = match &self.trust_root {
            Some(path) => read_trust_root(path)?,
            // why: no foreign content is signed unseen. Without a trust root, one of the signers must have signed the
            // registry before.
            None => TrustRoot::new(1, 1, keys.iter().map(SigningKey::verifying_key))?,
        };
        let verified = read_envelope(&self.file)?
            .verify(PAYLOAD_TYPE, &root, &|_| false)
            .map_err(|error| Failure::from(error).about(self.file.display()).into_refusal())?;
        let (mut draft, _) =
            parts(verified.payload()).map_err(|failure| failure.about(self.file.display()))?;
        for agent in &self.agents {
            if draft.agents().all(|entry| entry.agent() != agent) {
                return Err(Failure::new(
                    "AGENT_NOT_REGISTERED",
                    format!("the registry has no agent `{agent}`"),
                ));
            }
        }
        let next = draft.version().checked_add(1).ok_or_else(|| internal("no version is left"))?;
        draft.set_version(next)?;
        self.agents.iter().for_each(|agent| draft.revoke(agent));
        self.revoked_keys.iter().try_for_each(|key| draft.revoke_key(key))?;
        self.signing.write(out, &draft, &keys)
    }
}

fn report(
    out: &mut Output,
    draft: &RegistryDraft,
    envelope: &Envelope,
    expires: Timestamp,
    path: &Path,
) -> Result<Exit, Failure> {
    let key_ids: Vec<_> = envelope.unverified_key_ids().collect();
    let report = json!({
        "ok": true,
        "version": draft.version(),
        "expires": expires,
        "key_ids": key_ids,
        "out": path.display().to_string(),
    });
    let text = format!(
        "registry version {} signed until {expires} by {}\nin {}",
        draft.version(),
        key_ids.join(", "),
        path.display()
    );
    out.result(&report, &text)?;
    Ok(Exit::Done)
}
