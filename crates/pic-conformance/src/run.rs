use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_action_proposal::{
    EndorsedDigests, EvidenceKeyring, EvidenceResolver, Profile, ProposalLimits, ProposalPolicy,
    ProposalVerifier, ProposalVerifierBuilder,
};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::rfc3339::{self, Offset};
use countersign_core::{Audience, Clock, ManualClock, Millis, SystemClock, error_chain as chain};
use countersign_keys::TrustRoot;
use countersign_keys::trusted::open_regular;

use crate::call::{StatedCall, parse};
use crate::manifest::{Expected, Mode, SuiteManifest, VectorEntry, within};
use crate::report::{Filter, Outcome, Report, VectorFault, VectorVerdict};
use crate::vector::{Vector, invalid};

/// Maximum size of a manifest, in bytes.
const MANIFEST_BYTES: u64 = 64 << 20;

/// Maximum size of a vector file, in bytes.
const VECTOR_BYTES: u64 = 8 << 20;

/// Long enough that no verdict depends on the speed of the machine.
const NO_HURRY: Millis = Millis::from_secs(60 * 60);

/// Runs the vectors of a suite that the filter selects.
///
/// An unusable manifest is not an error: the report names it as its [`diagnostic`](Report::diagnostic). The files
/// of a suite are read within its folder, and no symbolic link is followed. The manifest has at most 64 MiB, a vector
/// at most 8 MiB.
#[must_use]
pub fn run_suite(suite: &Path, profile: Profile, filter: &Filter) -> Report {
    let manifest = match read_manifest(suite) {
        Ok(manifest) => manifest,
        Err(message) => return Report::invalid(profile, &message),
    };
    let total = manifest.entries.len();
    let mut runner = Runner::new(suite, profile);
    let selected = manifest.entries.iter().filter(|entry| filter.selects(entry));
    let results = selected.map(|entry| runner.run(entry)).collect();
    Report::of(profile, manifest.version, total, filter, results)
}

fn read_manifest(suite: &Path) -> Result<SuiteManifest, String> {
    let path = within(suite, "manifest.json")?;
    let bytes = read_file(&path, MANIFEST_BYTES).map_err(|error| error.to_string())?;
    SuiteManifest::read(&bytes)
}

/// Runs the vectors of one suite.
#[derive(Debug)]
struct Runner {
    folder: PathBuf,
    profile: Profile,
    /// The opened evidence folders; `None` for a missing one.
    folders: HashMap<String, Option<Arc<dyn EvidenceResolver>>>,
}

impl Runner {
    fn new(folder: &Path, profile: Profile) -> Self {
        Self { folder: folder.to_owned(), profile, folders: HashMap::new() }
    }

    /// Reads and runs one vector.
    fn run(&mut self, entry: &VectorEntry) -> Outcome {
        match self.judge(entry) {
            Ok(Some(verdict)) => Outcome::judged(entry, verdict),
            Ok(None) => Outcome::passed(entry),
            Err(fault) => Outcome::fault(entry, fault),
        }
    }

    /// The verdict on a proposal; `None` for a canonical form that is as expected.
    fn judge(&mut self, entry: &VectorEntry) -> Result<Option<VectorVerdict>, VectorFault> {
        let path = within(&self.folder, &entry.file).map_err(invalid)?;
        let bytes = read_file(&path, VECTOR_BYTES).map_err(|error| match error {
            SuiteFileError::Missing { .. } => VectorFault::Drift(error.to_string()),
            SuiteFileError::Unreadable { .. } | SuiteFileError::TooLarge { .. } => {
                VectorFault::Vector(error.to_string())
            }
        })?;
        let vector = Vector::read(&bytes, entry, self.profile)?;
        if entry.mode == Mode::Canonicalization {
            return check_canonical(&vector, entry.expected).map(|()| None);
        }
        vector.check_shape(entry)?;
        self.verify(&vector).map(Some)
    }

    fn verify(&mut self, vector: &Vector<'_>) -> Result<VectorVerdict, VectorFault> {
        let mut builder = ProposalVerifier::builder(self.profile).limits(limits(vector));
        if let Some(keyring) = vector.keyring()? {
            match EvidenceKeyring::from_json(keyring) {
                Ok(keyring) => builder = builder.keyring(keyring),
                Err(error) => {
                    return Ok(VectorVerdict::KeyringRefused { code: error.code(), detail: chain(&error) });
                }
            }
        }
        if let Some(policy) = vector.policy()? {
            match ProposalPolicy::from_json(policy) {
                Ok(policy) => builder = builder.policy(policy),
                Err(error) => {
                    return Ok(VectorVerdict::PolicyRefused { code: error.code(), detail: chain(&error) });
                }
            }
        }
        if let Some(folder) = vector.evidence_folder()?
            && let Some(resolver) = self.open(folder)?
        {
            builder = builder.resolver(resolver);
        }
        if let Some(audience) = &vector.said.audience {
            builder = builder.audience(parse::<Audience>(audience, "audience")?);
        }
        builder = builder.high(vector.said.high.iter().copied().collect());
        let clock: Box<dyn Clock> = match &vector.said.now {
            None => Box::new(SystemClock::new()),
            Some(now) => {
                let now = rfc3339::parse(now, Offset::Required);
                Box::new(ManualClock::new(now.map_err(|error| VectorFault::Vector(error.to_string()))?))
            }
        };
        if let Some((envelope, root)) = vector.endorsed() {
            let root = TrustRoot::from_json(root).map_err(|error| VectorFault::Vector(chain(&error)))?;
            let now = clock.now().map_err(|error| VectorFault::Runner(error.to_string()))?;
            let endorsed = EndorsedDigests::load(envelope, &root, now);
            builder = builder.endorsed(endorsed.map_err(|error| VectorFault::Vector(chain(&error)))?);
        }
        let builder = self.set_trust(builder, vector);
        let verifier = builder.build().map_err(|error| VectorFault::Runner(error.to_string()))?;
        StatedCall::read(vector)?.judge(vector, &verifier, &*clock)
    }

    /// Applies the options of the vector, or the reference's defaults of that version. `strict` cannot be weakened.
    fn set_trust(&self, builder: ProposalVerifierBuilder, vector: &Vector<'_>) -> ProposalVerifierBuilder {
        if self.profile == Profile::Strict {
            return builder;
        }
        let builder = if vector.verify_evidence().unwrap_or(false) {
            builder.verify_evidence()
        } else {
            builder.dangerous_skip_evidence()
        };
        if vector.strict_trust().unwrap_or(self.profile == Profile::Pic09) {
            builder.sanitize_trust()
        } else {
            builder.dangerous_trust_as_claimed()
        }
    }

    fn open(&mut self, below: &str) -> Result<Option<Arc<dyn EvidenceResolver>>, VectorFault> {
        if let Some(known) = self.folders.get(below) {
            return Ok(known.clone());
        }
        let path = within(&self.folder, "artifacts").and_then(|artifacts| within(&artifacts, below));
        let path = path.map_err(invalid)?;
        let opened = if path.is_dir() { Some(open_folder(&path)?) } else { None };
        self.folders.insert(below.to_owned(), opened.clone());
        Ok(opened)
    }
}

/// Limits as in the reference, which checks sizes only if a vector asks for it, and the time only if a vector states a budget.
fn limits(vector: &Vector<'_>) -> ProposalLimits {
    let options = vector.said.options.as_ref();
    let mut limits = ProposalLimits::default()
        .time(options.and_then(|options| options.time_budget_ms).unwrap_or(NO_HURRY));
    if options.and_then(|options| options.limits) != Some(true) {
        limits = limits.proposal_bytes(usize::MAX).items(usize::MAX);
    }
    let sizes = &vector.said.limits;
    if let Some(most) = sizes.proposal_bytes {
        limits = limits.proposal_bytes(most);
    }
    if let Some(most) = sizes.items {
        limits = limits.items(most);
    }
    if let Some(most) = sizes.payload_bytes {
        limits = limits.payload_bytes(most);
    }
    if let Some(most) = sizes.file_bytes {
        limits = limits.file_bytes(most);
    }
    if let Some(most) = sizes.total_bytes {
        limits = limits.total_bytes(most);
    }
    limits
}

fn check_canonical(vector: &Vector<'_>, expected: Expected) -> Result<(), VectorFault> {
    let missing = |what: &str| VectorFault::Vector(format!("the vector has no {what}"));
    let input = vector.input().ok_or_else(|| missing("input"))?;
    let canonical = read(input, Recipe::PicCjson1, &Limits::hard_caps());
    if expected == Expected::CanonicalReject {
        return match canonical {
            Err(_) => Ok(()),
            Ok(_) => {
                Err(VectorFault::Canonicalization("expected a refusal but got a canonical form".to_owned()))
            }
        };
    }
    let bytes = vector.said.expected_canonical_bytes_hex.as_deref();
    let bytes = bytes.ok_or_else(|| missing("expected_canonical_bytes_hex"))?;
    let digest = vector.said.expected_sha256_hex.as_deref().ok_or_else(|| missing("expected_sha256_hex"))?;
    let canonical = canonical.map_err(|error| VectorFault::Canonicalization(error.to_string()))?;
    let got: String = canonical.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    if got != bytes {
        return Err(VectorFault::Canonicalization(format!("expected the bytes {bytes} but got {got}")));
    }
    let got = canonical.digest().to_string();
    if got != digest {
        return Err(VectorFault::Canonicalization(format!("expected the SHA-256 {digest} but got {got}")));
    }
    Ok(())
}

/// Opens the folder of evidence files.
#[cfg(unix)]
fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, VectorFault> {
    let folder = countersign_action_proposal::EvidenceFolder::open(path)
        .map_err(|error| VectorFault::Runner(format!("`{}`: {}", path.display(), chain(&error))))?;
    Ok(Arc::new(folder))
}

#[cfg(not(unix))]
fn open_folder(path: &Path) -> Result<Arc<dyn EvidenceResolver>, VectorFault> {
    Err(VectorFault::Runner(format!("`{}`: evidence folders need a Unix system", path.display())))
}

#[derive(Debug, thiserror::Error)]
enum SuiteFileError {
    #[error("`{}`: {source}", path.display())]
    Missing { path: PathBuf, source: io::Error },
    #[error("`{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is larger than {max} bytes", path.display())]
    TooLarge { path: PathBuf, max: u64 },
}

/// Reads a regular file of at most `max` bytes.
fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, SuiteFileError> {
    let failed = |source: io::Error| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            SuiteFileError::Missing { path, source }
        } else {
            SuiteFileError::Unreadable { path, source }
        }
    };
    let (file, about) = open_regular(path).map_err(failed)?;
    let bytes = take(&file, max.saturating_add(1)).map_err(failed)?;
    let is_long = u64::try_from(bytes.len()).map_or(true, |len| len > max);
    if about.len() > max || is_long {
        return Err(SuiteFileError::TooLarge { path: path.to_owned(), max });
    }
    Ok(bytes)
}

fn take(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
