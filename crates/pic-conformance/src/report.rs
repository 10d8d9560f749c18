use countersign_action_proposal::Profile;
use serde::Serialize;

use crate::manifest::{Expected, Mode, VectorEntry};

/// Result of one vector.
#[derive(Debug, Serialize)]
pub struct Outcome {
    id: String,
    mode: &'static str,
    passed: bool,
    reason_code: Option<&'static str>,
    message: Option<String>,
    /// `allow`, `block`, `keyring_refused` or `policy_refused`; `None` if the vector was not judged.
    verdict: Option<&'static str>,
    /// The code of the refusal.
    code: Option<&'static str>,
    /// `allow`, or the code.
    got: Option<&'static str>,
    /// The path and the rule of a blocked proposal.
    detail: Option<String>,
}

/// Verdict on a vector.
#[derive(Debug)]
pub(crate) enum VectorVerdict {
    Allow,
    Block { code: &'static str, detail: String },
    KeyringRefused { code: &'static str, detail: String },
    PolicyRefused { code: &'static str, detail: String },
}

/// Reason that a vector did not pass: the reason codes of the reference's runner.
#[derive(Debug)]
pub(crate) enum VectorFault {
    /// The canonical form differs, or exists where none should.
    Canonicalization(String),
    /// The file differs from its entry in the manifest.
    Drift(String),
    /// The file is not a valid vector.
    Vector(String),
    /// The vector could not be run.
    Runner(String),
}

impl Outcome {
    fn new(entry: &VectorEntry, fault: Option<(&'static str, String)>) -> Self {
        let passed = fault.is_none();
        let (reason_code, message) = fault.unzip();
        Self {
            id: entry.id.clone(),
            mode: entry.mode.as_str(),
            passed,
            reason_code,
            message,
            verdict: None,
            code: None,
            got: None,
            detail: None,
        }
    }

    pub(crate) fn passed(entry: &VectorEntry) -> Self {
        Self::new(entry, None)
    }

    pub(crate) fn fault(entry: &VectorEntry, fault: VectorFault) -> Self {
        let (code, message) = match fault {
            VectorFault::Canonicalization(message) => ("canonicalization_mismatch", message),
            VectorFault::Drift(message) => ("manifest_drift", message),
            VectorFault::Vector(message) => ("vector_invalid", message),
            VectorFault::Runner(message) => ("runner_error", message),
        };
        Self::new(entry, Some((code, message)))
    }

    /// Compares a verdict with the expected one.
    pub(crate) fn judged(entry: &VectorEntry, verdict: VectorVerdict) -> Self {
        let (came, code, detail) = match verdict {
            VectorVerdict::Allow => (Expected::Allow, None, None),
            VectorVerdict::Block { code, detail } => (Expected::Block, Some(code), Some(detail)),
            VectorVerdict::KeyringRefused { code, detail } => {
                (Expected::KeyringRefused, Some(code), Some(detail))
            }
            VectorVerdict::PolicyRefused { code, detail } => {
                (Expected::PolicyRefused, Some(code), Some(detail))
            }
        };
        let wanted = entry.expected_error_code.as_deref();
        let fault = if came != entry.expected {
            let message = format!("expected {} but got {}", said(entry.expected, wanted), said(came, code));
            Some(("verdict_mismatch", message))
        } else if wanted.is_some_and(|wanted| Some(wanted) != code) {
            let message =
                format!("expected {} but got {}", wanted.unwrap_or_default(), code.unwrap_or_default());
            Some(("error_code_mismatch", message))
        } else {
            None
        };
        Self {
            verdict: Some(came.as_str()),
            code,
            got: Some(code.unwrap_or("allow")),
            detail,
            ..Self::new(entry, fault)
        }
    }

    /// Returns whether the verdict is the expected one.
    #[must_use]
    pub const fn is_passed(&self) -> bool {
        self.passed
    }

    /// One human-readable line: `PASS` or `FAIL`, the id and the reason. Ids and details are not escaped.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.message {
            None => format!("PASS  {}", self.id),
            Some(message) => {
                let reason = self.reason_code.unwrap_or_default();
                let detail = self.detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
                format!("FAIL  {}  {reason}: {message}{detail}", self.id)
            }
        }
    }
}

fn said(verdict: Expected, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("{} ({code})", verdict.as_str()),
        None => verdict.as_str().to_owned(),
    }
}

/// Results of a suite. Serialises with the members of the reference's runner, and `profile`.
#[derive(Debug, Serialize)]
pub struct Report {
    profile: &'static str,
    manifest_version: Option<String>,
    selection: Selection,
    results: Vec<Outcome>,
    summary: Summary,
    exit_code: u8,
}

#[derive(Debug, Default, Serialize)]
struct Selection {
    total_in_manifest: usize,
    selected: usize,
    filter_modes: Vec<&'static str>,
    filter_ids: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Summary {
    total: usize,
    passed: usize,
    failed: usize,
    all_passed: bool,
    diagnostic: Option<&'static str>,
    message: Option<String>,
}

/// Selects vectors of a suite by mode and by id. The default selects all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Modes whose vectors are all selected.
    pub modes: Vec<Mode>,
    /// Ids of further selected vectors.
    pub ids: Vec<String>,
}

impl Filter {
    /// Creates a filter of these modes and ids. With both empty it selects all.
    #[must_use]
    pub const fn new(modes: Vec<Mode>, ids: Vec<String>) -> Self {
        Self { modes, ids }
    }

    pub(crate) fn selects(&self, entry: &VectorEntry) -> bool {
        (self.modes.is_empty() && self.ids.is_empty())
            || self.modes.contains(&entry.mode)
            || self.ids.contains(&entry.id)
    }
}

impl Report {
    /// The report of an unusable manifest.
    pub(crate) fn invalid(profile: Profile, message: &str) -> Self {
        Self::new(
            profile,
            None,
            Selection::default(),
            Vec::new(),
            Some(("manifest_invalid", message.to_owned())),
        )
    }

    /// The report of the vectors that were run.
    pub(crate) fn of(
        profile: Profile,
        version: String,
        total: usize,
        filter: &Filter,
        results: Vec<Outcome>,
    ) -> Self {
        // A run without vectors proves nothing.
        let diagnostic =
            results.is_empty().then(|| ("no_vectors_selected", "no vector was selected".to_owned()));
        let selection = Selection {
            total_in_manifest: total,
            selected: results.len(),
            filter_modes: filter.modes.iter().map(|mode| mode.as_str()).collect(),
            filter_ids: filter.ids.clone(),
        };
        Self::new(profile, Some(version), selection, results, diagnostic)
    }

    fn new(
        profile: Profile,
        manifest_version: Option<String>,
        selection: Selection,
        results: Vec<Outcome>,
        diagnostic: Option<(&'static str, String)>,
    ) -> Self {
        let passed = results.iter().filter(|outcome| outcome.passed).count();
        let failed = results.len().saturating_sub(passed);
        let exit_code = match (&diagnostic, failed) {
            (Some(_), _) => 2,
            (None, 0) => 0,
            (None, _) => 1,
        };
        let (diagnostic, message) = diagnostic.unzip();
        let total = results.len();
        let summary = Summary { total, passed, failed, all_passed: exit_code == 0, diagnostic, message };
        Self { profile: profile.as_str(), manifest_version, selection, results, summary, exit_code }
    }

    /// Results of the selected vectors, in the order of the manifest.
    #[must_use]
    pub fn results(&self) -> &[Outcome] {
        &self.results
    }

    /// Number of selected vectors.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.summary.total
    }

    /// Number of vectors that passed.
    #[must_use]
    pub const fn passed(&self) -> usize {
        self.summary.passed
    }

    /// Number of vectors that failed.
    #[must_use]
    pub const fn failed(&self) -> usize {
        self.summary.failed
    }

    /// The reason that no vector was run: `manifest_invalid` or `no_vectors_selected`, and a text.
    #[must_use]
    pub fn diagnostic(&self) -> Option<(&'static str, &str)> {
        self.summary.diagnostic.zip(self.summary.message.as_deref())
    }
}
