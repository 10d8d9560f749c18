//! What a session judges action proposals by: keyring, evidence folder, endorsed digests, policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_action_proposal::{
    EndorsedDigest, EndorsedDigests, EvidenceResolver, HighImpacts, Profile, ProposalPolicy, ProposalVerifier,
};
use countersign_core::{Audience, Millis, Timestamp};
use countersign_keys::{TrustRoot, VerifyingKey};
use countersign_registry::CapabilityRegistry;

use crate::command::keys::read_evidence_keyring;
use crate::failure::{Exit, Failure, chain};
use crate::files::{REGISTRY_BYTES, TEXT_BYTES, read_trusted_file};
use crate::output::note;

/// How proposals are judged, as the operator has it.
#[derive(Debug)]
pub(crate) struct ProposalPlan {
    pub(crate) profile: Profile,
    /// Whose signatures count; nobody's without it.
    pub(crate) keyring: Option<PathBuf>,
    /// The folder that evidence files are read beneath; no file is read without it.
    pub(crate) evidence_root: Option<PathBuf>,
    /// Digests that the operators signed, under the registry's own trust root.
    pub(crate) endorsed: Option<PathBuf>,
    pub(crate) policy: Option<PathBuf>,
    pub(crate) high: HighImpacts,
    /// This gate's name, as attestations bind it.
    pub(crate) audience: Audience,
    pub(crate) max_attestation_age: Option<Millis>,
    /// Where used attestations and endorsements are remembered; without it, this process alone remembers.
    pub(crate) store: Option<PathBuf>,
}

impl ProposalPlan {
    /// Reads and checks everything that proposals are judged by. It is read once: what changes later counts from the
    /// next start on, but for the keys that the registry revokes, which the gate looks up at every call.
    ///
    /// Evidence is verified and no trust is taken as claimed under every profile, `pic-0.8` too: whoever puts a gate in
    /// front of a tool means its answers.
    pub(crate) fn prepare(
        &self,
        root: &TrustRoot,
        registry: &CapabilityRegistry,
        now: Timestamp,
    ) -> Result<Arc<ProposalVerifier>, Failure> {
        if let Some(accepted) = accepted_beyond_strict(self.profile) {
            note(&format!("warning WEAK_PROFILE: the profile {} accepts {accepted}", self.profile));
        }
        let mut builder = ProposalVerifier::builder(self.profile)
            .verify_evidence()
            .sanitize_trust()
            .high(self.high)
            .audience(self.audience.clone());
        if let Some(path) = &self.keyring {
            let keyring = read_evidence_keyring(path, now).map_err(|failure| failure.ending(Exit::Failed))?;
            builder = builder.keyring(keyring);
        }
        if let Some(path) = &self.evidence_root {
            builder = builder.resolver(open_folder(path)?);
        }
        if let Some(path) = &self.endorsed {
            let endorsed = self.read_endorsed(path, root, registry, now)?;
            warn_of_unbound(&endorsed);
            builder = builder.endorsed(endorsed);
        }
        if let Some(path) = &self.policy {
            let policy = ProposalPolicy::from_json(&read_trusted_file(path, TEXT_BYTES)?);
            builder = builder.policy(policy.map_err(|error| Failure::from(error).about(path.display()))?);
        }
        if let Some(age) = self.max_attestation_age {
            builder = builder.max_attestation_age(age);
        }
        Ok(Arc::new(builder.build()?))
    }

    /// The digests that operators signed whose keys the registry has not revoked.
    fn read_endorsed(
        &self,
        path: &Path,
        root: &TrustRoot,
        registry: &CapabilityRegistry,
        now: Timestamp,
    ) -> Result<EndorsedDigests, Failure> {
        if self.evidence_root.is_none() {
            let text = "endorsed digests are those of files, and there is no evidence folder";
            return Err(Failure::new("CONFIG_CONFLICT", text));
        }
        let view = registry.view();
        let revoked = |key: &VerifyingKey| view.is_key_revoked(&key.key_id());
        EndorsedDigests::load_unless_revoked(&read_trusted_file(path, REGISTRY_BYTES)?, root, &revoked, now)
            .map_err(|error| Failure::from(error).about(path.display()).into_refusal())
    }
}

/// What a profile accepts that `strict` refuses. `None` for `strict`.
const fn accepted_beyond_strict(profile: Profile) -> Option<&'static str> {
    match profile {
        Profile::Strict => None,
        Profile::Pic08 => Some(
            "opaque signatures, the hash of any evidence file, attestations that name no call, and any number of uses of those without a nonce",
        ),
        // Of a later profile no more is known than that it is not strict.
        Profile::Pic09 | _ => Some(
            "opaque signatures, attestations that name no call, and any number of uses of those without a nonce",
        ),
    }
}

fn warn_of_unbound(endorsed: &EndorsedDigests) {
    let count = endorsed.entries().filter(|entry| entry.lacks_args()).count();
    if count > 0 {
        note(&format!(
            "warning ENDORSEMENT_UNBOUND: endorsements that bind no arguments: {count}; for money, privacy and irreversible they count for nothing: sign them with `proposal endorse --args` or `--arg`, or for other impacts alone"
        ));
    }
}

/// Warns of endorsements that were issued before the store was made in which they are spent: an earlier one may have
/// counted their uses.
pub(crate) fn warn_of_older_than_store(verifier: &ProposalVerifier, created: Timestamp) {
    let is_older = |entry: &&EndorsedDigest| entry.issued().is_some_and(|issued| issued < created);
    let count = verifier.endorsed().map_or(0, |endorsed| endorsed.entries().filter(is_older).count());
    if count > 0 {
        note(&format!(
            "warning ENDORSEMENT_TOO_OLD: endorsements issued before the store of used tickets was made: {count}; calls that need them are refused (STORE_TOO_NEW): sign them anew"
        ));
    }
}

/// Opens the folder that evidence files lie in.
#[cfg(unix)]
pub(crate) fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, Failure> {
    let folder = countersign_action_proposal::EvidenceFolder::open(path)
        .map_err(|error| Failure::new(error.code(), chain(&error)).about(path.display()))?;
    Ok(Arc::new(folder))
}

/// There is no such folder here.
#[cfg(not(unix))]
pub(crate) fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, Failure> {
    Err(Failure::new("EVIDENCE_FOLDER", "evidence folders need a Unix system").about(path.display()))
}
