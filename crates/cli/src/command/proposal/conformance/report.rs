use std::collections::HashSet;

use countersign_action_proposal::Profile;
use serde::Serialize;

use super::manifest::{Entry, Expected, Mode};

/// What became of a vector, as programs that compare suites read it.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    id: String,
    mode: &'static str,
    pub(super) passed: bool,
    reason_code: Option<&'static str>,
    message: Option<String>,
    /// `allow`, `block`, `keyring_refused` or `policy_refused`; nothing where the vector was not judged.
    verdict: Option<&'static str>,
    /// The code of what was refused.
    code: Option<&'static str>,
    /// `allow`, or the code.
    got: Option<&'static str>,
    /// The place and the rule of a blocked proposal.
    detail: Option<String>,
}

/// What a verification of a vector came to.
#[derive(Debug)]
pub(super) enum Verdict {
    Allow,
    Block { code: &'static str, detail: String },
    KeyringRefused { code: &'static str, detail: String },
    PolicyRefused { code: &'static str, detail: String },
}

/// Why a vector did not pass: the reason codes of the reference's runner.
#[derive(Debug)]
pub(super) enum Fault {
    /// The canonical form is another one, or there is one where there should be none.
    Canonicalization(String),
    /// The file is not the one that the manifest speaks of.
    Drift(String),
    /// The file is no vector.
    Vector(String),
    /// It could not be run.
    Runner(String),
}

impl Outcome {
    fn new(entry: &Entry, fault: Option<(&'static str, String)>) -> Self {
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

    pub(super) fn passed(entry: &Entry) -> Self {
        Self::new(entry, None)
    }

    pub(super) fn fault(entry: &Entry, fault: Fault) -> Self {
        let (code, message) = match fault {
            Fault::Canonicalization(message) => ("canonicalization_mismatch", message),
            Fault::Drift(message) => ("manifest_drift", message),
            Fault::Vector(message) => ("vector_invalid", message),
            Fault::Runner(message) => ("runner_error", message),
        };
        Self::new(entry, Some((code, message)))
    }

    /// Holds a verdict against what the manifest expects.
    pub(super) fn judged(entry: &Entry, verdict: Verdict) -> Self {
        let (came, code, detail) = match verdict {
            Verdict::Allow => (Expected::Allow, None, None),
            Verdict::Block { code, detail } => (Expected::Block, Some(code), Some(detail)),
            Verdict::KeyringRefused { code, detail } => (Expected::KeyringRefused, Some(code), Some(detail)),
            Verdict::PolicyRefused { code, detail } => (Expected::PolicyRefused, Some(code), Some(detail)),
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

    /// One line for a person.
    pub(super) fn line(&self) -> String {
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

/// The whole result, in the members of the reference's runner.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Ours: under which rules.
    profile: &'static str,
    manifest_version: Option<String>,
    selection: Selection,
    pub(super) results: Vec<Outcome>,
    pub(super) summary: Summary,
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
pub(super) struct Summary {
    pub(super) total: usize,
    pub(super) passed: usize,
    pub(super) failed: usize,
    all_passed: bool,
    diagnostic: Option<&'static str>,
    pub(super) message: Option<String>,
}

/// Which vectors were asked for. None named means all.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    modes: &'a [Mode],
    ids: &'a [String],
    wanted: HashSet<&'a str>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(modes: &'a [Mode], ids: &'a [String]) -> Self {
        Self { modes, ids, wanted: ids.iter().map(String::as_str).collect() }
    }

    /// One named mode or one named id is enough.
    pub(super) fn takes(&self, entry: &Entry) -> bool {
        (self.modes.is_empty() && self.ids.is_empty())
            || self.modes.contains(&entry.mode)
            || self.wanted.contains(entry.id.as_str())
    }
}

impl Report {
    /// The report of a manifest that cannot be used.
    pub(super) fn invalid(profile: Profile, message: &str) -> Self {
        Self::new(
            profile,
            None,
            Selection::default(),
            Vec::new(),
            Some(("manifest_invalid", message.to_owned())),
        )
    }

    /// The report of the vectors that were run.
    pub(super) fn of(
        profile: Profile,
        version: String,
        total: usize,
        filter: &Filter<'_>,
        results: Vec<Outcome>,
    ) -> Self {
        // A suite of nothing has not shown anything.
        let diagnostic =
            results.is_empty().then(|| ("no_vectors_selected", "no vector was selected".to_owned()));
        let selection = Selection {
            total_in_manifest: total,
            selected: results.len(),
            filter_modes: filter.modes.iter().map(|mode| mode.as_str()).collect(),
            filter_ids: filter.ids.to_vec(),
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

    /// What kept every vector from being run.
    pub(super) fn diagnostic(&self) -> Option<(&'static str, &str)> {
        self.summary.diagnostic.zip(self.summary.message.as_deref())
    }
}
