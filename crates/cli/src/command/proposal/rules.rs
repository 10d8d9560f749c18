use std::path::{Path, PathBuf};

use clap::Args;
use countersign_action_proposal::{EndorsedDigests, Profile, ProposalPolicy, ProposalVerifier};
use countersign_core::{Audience, Clock, ImpactClass, ManualClock, Millis, SystemClock, Timestamp};

use super::read::limits;
use countersign_host::inputs::read_trust_root;

use crate::command::keys::read_evidence_keyring;
use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, Source, TEXT_BYTES, read_trusted_file};
use crate::time::moment;
use countersign_host::proposals::open_folder;

/// How proposals are judged. Nothing is taken from the environment or the working folder.
#[derive(Debug, Args)]
pub(super) struct Rules {
    /// How strictly: `strict`, `pic-0.9` or `pic-0.8`.
    #[arg(long, default_value_t = Profile::Strict)]
    profile: Profile,
    /// The keys whose signatures count, as `keys keyring` checks them.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Folder of the evidence files. Without it there are none under `strict`, and the proposal's own folder under
    /// the other profiles.
    #[arg(long, value_name = "DIR")]
    evidence_root: Option<PathBuf>,
    /// Digests that an operator signed, as made by `proposal endorse`.
    #[arg(long, value_name = "FILE", requires = "trust_root")]
    endorsed: Option<PathBuf>,
    /// The trust root: which operators' endorsements count.
    #[arg(long, value_name = "FILE", requires = "endorsed")]
    trust_root: Option<PathBuf>,
    /// The operator's policy: impacts by tool, and what needs a proposal and evidence.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Impacts that count as high besides money, privacy and irreversible.
    #[arg(long, value_name = "IMPACTS", value_delimiter = ',')]
    high: Vec<ImpactClass>,
    /// Audience that attestations must name.
    #[arg(long)]
    audience: Option<Audience>,
    /// How old an attestation with a nonce may be; under `strict` every one has a nonce.
    #[arg(long = "max-attestation-age", alias = "max-age", value_name = "SPAN", default_value = "1d")]
    max_age: Millis,
    /// Clock skew: how far a signer's clock may run ahead of this one.
    #[arg(long, value_name = "SPAN", default_value = "5s")]
    skew: Millis,
    /// Time of the check, in RFC 3339; without it, now. The time then stands still, and is no limit.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    now: Option<Timestamp>,
    /// Report where a proposal fails and by which rule. Do not show it to an agent.
    #[arg(long)]
    pub(super) debug: bool,
}

/// What weakens a profile, or asks one that is weak for more.
#[derive(Debug, Default, Args)]
pub(super) struct Weakening {
    /// Verify evidence. Always so under `strict`; under the others where a keyring, an evidence folder or endorsed
    /// digests are given, and where this is.
    #[arg(long)]
    verify_evidence: bool,
    /// Skip evidence. Not under `strict`.
    #[arg(long, conflicts_with = "verify_evidence")]
    no_verify_evidence: bool,
    /// Accept trust as the proposal claims it. Not under `strict`; the default under `pic-0.8`.
    #[arg(long)]
    legacy_trust: bool,
    /// Ignore claimed trust: the default except under `pic-0.8`.
    #[arg(long, conflicts_with = "legacy_trust")]
    sanitize_trust: bool,
}

impl Weakening {
    /// Verifies evidence, with no other change.
    pub(super) fn verifying() -> Self {
        Self { verify_evidence: true, ..Self::default() }
    }
}

impl Rules {
    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Reads every named file and builds the verifier.
    pub(super) fn verifier(
        &self,
        proposal: &Source,
        weakening: &Weakening,
    ) -> Result<ProposalVerifier, Failure> {
        let mut builder = ProposalVerifier::builder(self.profile)
            .limits(limits())
            .high(self.high.iter().copied().collect())
            .skew(self.skew)
            .max_attestation_age(self.max_age);
        if let Some(path) = &self.keyring {
            builder = builder.keyring(read_evidence_keyring(path, self.time()?)?);
        }
        if let Some(folder) = self.folder(proposal) {
            builder = builder.resolver(open_folder(&folder)?);
        }
        if let (Some(path), Some(root)) = (&self.endorsed, &self.trust_root) {
            builder = builder.endorsed(self.read_endorsed(path, root)?);
        }
        if let Some(path) = &self.policy {
            let bytes = read_trusted_file(path, TEXT_BYTES)?;
            builder = builder.policy(
                ProposalPolicy::from_json(&bytes)
                    .map_err(|error| Failure::from(error).about(path.display()))?,
            );
        }
        if let Some(audience) = &self.audience {
            builder = builder.audience(audience.clone());
        }
        if self.profile != Profile::Strict {
            builder = if self.verifies(weakening) {
                builder.verify_evidence()
            } else {
                builder.dangerous_skip_evidence()
            };
        } else if weakening.no_verify_evidence {
            builder = builder.dangerous_skip_evidence();
        }
        if weakening.legacy_trust {
            builder = builder.dangerous_trust_as_claimed();
        } else if weakening.sanitize_trust {
            builder = builder.sanitize_trust();
        }
        builder.build().map_err(|error| Failure::from(error).ending(Exit::Usage))
    }

    /// Returns `true` if evidence is verified. Naming keys or files implies it.
    pub(super) const fn verifies(&self, weakening: &Weakening) -> bool {
        let asked = weakening.verify_evidence
            || self.keyring.is_some()
            || self.evidence_root.is_some()
            || self.endorsed.is_some();
        matches!(self.profile, Profile::Strict) || (asked && !weakening.no_verify_evidence)
    }

    /// Returns the folder of evidence files: by default, the proposal's own folder for the profiles that follow the
    /// reference.
    fn folder(&self, proposal: &Source) -> Option<PathBuf> {
        if self.evidence_root.is_some() || self.profile == Profile::Strict {
            return self.evidence_root.clone();
        }
        let Source::File(path) = proposal else {
            return None;
        };
        Some(match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        })
    }

    fn read_endorsed(&self, path: &Path, root: &Path) -> Result<EndorsedDigests, Failure> {
        let root = read_trust_root(root)?;
        let bytes = read_trusted_file(path, REGISTRY_BYTES)?;
        EndorsedDigests::load(&bytes, &root, self.time()?)
            .map_err(|error| Failure::from(error).about(path.display()).into_refusal())
    }

    fn time(&self) -> Result<Timestamp, Failure> {
        self.clock().now().map_err(|error| Failure::new("CLOCK_UNAVAILABLE", error.to_string()))
    }

    /// Returns the clock for the verification. With a given time it stands still, so no verification takes any time.
    pub(super) fn clock(&self) -> Box<dyn Clock> {
        match self.now {
            Some(moment) => Box::new(ManualClock::new(moment)),
            None => Box::new(SystemClock::new()),
        }
    }
}
