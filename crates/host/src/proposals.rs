//! Inputs for judging a session's action proposals: keyring, evidence folder, endorsed digests, policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_action_proposal::{
    EndorsedDigest, EndorsedDigests, EvidenceResolver, HighImpacts, Profile, ProposalPolicy, ProposalVerifier,
};
use countersign_core::{Audience, Millis, Timestamp};
use countersign_keys::{TrustRoot, VerifyingKey};
use countersign_registry::CapabilityRegistry;

use crate::error::HostError;
use crate::files::{REGISTRY_BYTES, TEXT_BYTES, read_trusted_file};
use crate::inputs::read_evidence_keyring;
use crate::report::Reporter;

/// The operator's settings for judging proposals.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in every member")]
pub struct ProposalPlan {
    /// The profile that proposals are judged by.
    pub profile: Profile,
    /// Keys whose signatures count; without it, no signature counts.
    pub keyring: Option<PathBuf>,
    /// Root folder of evidence files; without it, no file is read.
    pub evidence_root: Option<PathBuf>,
    /// Digests signed by the operators, under the registry's own trust root.
    pub endorsed: Option<PathBuf>,
    /// PIC's policy file: impacts by tool.
    pub policy: Option<PathBuf>,
    /// High impacts besides money, privacy and irreversible.
    pub high: HighImpacts,
    /// This gate's name, which attestations bind.
    pub audience: Audience,
    /// Largest age of an attestation.
    pub max_attestation_age: Option<Millis>,
    /// Store of used attestations and endorsements; without it, they are remembered only in this process.
    pub store: Option<PathBuf>,
}

impl ProposalPlan {
    /// Reads and checks all inputs once. Later changes take effect at the next start, except for keys that the registry
    /// revokes, which the gate looks up at every call.
    ///
    /// Under every profile, including `pic-0.8`, evidence is verified and no trust is taken as claimed: a gate in front
    /// of a tool must enforce its answers.
    pub(crate) fn prepare(
        &self,
        root: &TrustRoot,
        registry: &CapabilityRegistry,
        now: Timestamp,
        reporter: &Reporter,
    ) -> Result<Arc<ProposalVerifier>, HostError> {
        if let Some(accepted) = accepted_beyond_strict(self.profile) {
            reporter.warn("WEAK_PROFILE", &format!("the profile {} accepts {accepted}", self.profile));
        }
        let mut builder = ProposalVerifier::builder(self.profile)
            .verify_evidence()
            .sanitize_trust()
            .high(self.high)
            .audience(self.audience.clone());
        if let Some(path) = &self.keyring {
            builder = builder.keyring(read_evidence_keyring(path, now)?);
        }
        if let Some(path) = &self.evidence_root {
            builder = builder.resolver(open_folder(path)?);
        }
        if let Some(path) = &self.endorsed {
            let endorsed = self.read_endorsed(path, root, registry, now)?;
            warn_of_unbound(&endorsed, reporter);
            builder = builder.endorsed(endorsed);
        }
        if let Some(path) = &self.policy {
            let policy = ProposalPolicy::from_json(&read_trusted_file(path, TEXT_BYTES)?);
            builder = builder.policy(policy.map_err(|error| HostError::from(error).about(path.display()))?);
        }
        if let Some(age) = self.max_attestation_age {
            builder = builder.max_attestation_age(age);
        }
        Ok(Arc::new(builder.build()?))
    }

    /// Loads the digests signed by operators whose keys are not revoked in the registry.
    fn read_endorsed(
        &self,
        path: &Path,
        root: &TrustRoot,
        registry: &CapabilityRegistry,
        now: Timestamp,
    ) -> Result<EndorsedDigests, HostError> {
        if self.evidence_root.is_none() {
            let text = "no evidence folder for the files of the endorsed digests";
            return Err(HostError::new("CONFIG_CONFLICT", text));
        }
        let view = registry.view();
        let revoked = |key: &VerifyingKey| view.is_key_revoked(&key.key_id());
        EndorsedDigests::load_unless_revoked(&read_trusted_file(path, REGISTRY_BYTES)?, root, &revoked, now)
            .map_err(|error| HostError::from(error).about(path.display()).into_refusal())
    }
}

/// Describes the inputs that a profile accepts and `strict` refuses; `None` for `strict`.
const fn accepted_beyond_strict(profile: Profile) -> Option<&'static str> {
    match profile {
        Profile::Strict => None,
        Profile::Pic08 => Some(
            "opaque signatures, the hash of any evidence file, attestations that name no call, and any number of uses of those without a nonce",
        ),
        // A later profile is only known not to be `strict`.
        Profile::Pic09 | _ => Some(
            "opaque signatures, attestations that name no call, and any number of uses of those without a nonce",
        ),
    }
}

fn warn_of_unbound(endorsed: &EndorsedDigests, reporter: &Reporter) {
    let count = endorsed.entries().filter(|entry| entry.lacks_args()).count();
    if count > 0 {
        reporter.warn("ENDORSEMENT_UNBOUND", &format!(
            "endorsements that bind no arguments: {count}; for money, privacy and irreversible they are not valid: sign them with `proposal endorse --args` or `--arg`, or for other impacts alone"
        ));
    }
}

/// Warns of endorsements older than the store that they are spent in: an earlier store may have counted their uses.
pub(crate) fn warn_of_older_than_store(verifier: &ProposalVerifier, created: Timestamp, reporter: &Reporter) {
    let is_older = |entry: &&EndorsedDigest| entry.issued().is_some_and(|issued| issued < created);
    let count = verifier.endorsed().map_or(0, |endorsed| endorsed.entries().filter(is_older).count());
    if count > 0 {
        reporter.warn("ENDORSEMENT_TOO_OLD", &format!(
            "endorsements issued before the store of used tickets was made: {count}; calls that need them are refused (STORE_TOO_NEW): sign them anew"
        ));
    }
}

/// Opens the folder of evidence files.
///
/// # Errors
/// `EVIDENCE_FOLDER`.
#[cfg(unix)]
pub fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, HostError> {
    let folder = countersign_action_proposal::EvidenceFolder::open(path)
        .map_err(|error| HostError::from(error).about(path.display()))?;
    Ok(Arc::new(folder))
}

/// Fails: evidence folders are unsupported on this platform.
///
/// # Errors
/// `EVIDENCE_FOLDER`.
#[cfg(not(unix))]
pub fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, HostError> {
    Err(HostError::new("EVIDENCE_FOLDER", "evidence folders need a Unix system").about(path.display()))
}
