use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_action_proposal::Profile;
use countersign_core::{Audience, ImpactClass, Millis};

use crate::failure::Failure;
use crate::files::{TEXT_BYTES, read_file};
use countersign_host::proposals::ProposalPlan;

/// How action proposals are judged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Action proposals (with any of these, high-impact calls need one)")]
pub(crate) struct ProposalOptions {
    /// The action proposal (PIC/1.0) of the calls that bring none of their own.
    #[arg(long, value_name = "FILE")]
    proposal: Option<PathBuf>,
    /// How proposals are judged: strict, pic-0.9 or pic-0.8; strict without it.
    #[arg(long)]
    profile: Option<Profile>,
    /// The keyring of accepted attestation keys. Without it, no attestation is accepted.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Folder of the evidence files. Without it, no file is read.
    #[arg(long, value_name = "FOLDER")]
    evidence_root: Option<PathBuf>,
    /// Digests of evidence files, signed under the trust root. For money, privacy and irreversible a digest counts only
    /// with the arguments that it binds, and each call takes one of its uses.
    #[arg(long, value_name = "FILE")]
    endorsed: Option<PathBuf>,
    /// A PIC policy: impacts by tool, and which of them need a proposal and evidence.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Impacts that count as high besides money, privacy and irreversible.
    #[arg(long, value_name = "IMPACTS", value_delimiter = ',')]
    high: Vec<ImpactClass>,
    /// How old an attestation may be.
    #[arg(long, value_name = "SPAN")]
    max_attestation_age: Option<Millis>,
}

impl ProposalOptions {
    /// Returns the profile by which proposals are judged; `None` if they are ignored.
    pub(crate) fn profile(&self) -> Option<Profile> {
        let asked_for = self.proposal.is_some()
            || self.profile.is_some()
            || self.keyring.is_some()
            || self.evidence_root.is_some()
            || self.endorsed.is_some()
            || self.policy.is_some()
            || !self.high.is_empty()
            || self.max_attestation_age.is_some();
        asked_for.then(|| self.profile.unwrap_or_default())
    }

    /// Reads the proposal for calls without one of their own, unparsed.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.proposal.as_deref().map(|path| read_file(path, TEXT_BYTES)).transpose()?)
    }

    /// Builds the proposal plan from the options. Attestations and endorsements are spent in the store `spent`; by
    /// default in a file beside the keyring, or else beside the endorsed digests.
    pub(crate) fn plan(&self, audience: &Audience, spent: Option<PathBuf>) -> Option<ProposalPlan> {
        let profile = self.profile()?;
        Some(ProposalPlan {
            profile,
            keyring: self.keyring.clone(),
            evidence_root: self.evidence_root.clone(),
            endorsed: self.endorsed.clone(),
            policy: self.policy.clone(),
            high: self.high.iter().copied().collect(),
            audience: audience.clone(),
            max_attestation_age: self.max_attestation_age,
            store: spent.or_else(|| self.keyring.as_deref().or(self.endorsed.as_deref()).map(beside)),
        })
    }
}

/// Returns the path of the store beside a key file. why: a single-use item is used up for every process with that key.
pub(crate) fn beside(key: &Path) -> PathBuf {
    let mut name = OsString::from(key);
    name.push(".spent.sqlite");
    name.into()
}
