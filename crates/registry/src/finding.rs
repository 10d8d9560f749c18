use std::fmt;

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Information.
    Note,
    /// Probable mistake.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// Valid part of a draft that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    code: &'static str,
    severity: Severity,
    message: String,
}

impl Finding {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Importance.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Description in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

countersign_core::coded!(Finding);

pub(crate) fn warn(findings: &mut Vec<Finding>, code: &'static str, message: String) {
    findings.push(Finding { code, severity: Severity::Warning, message });
}

pub(crate) fn note(findings: &mut Vec<Finding>, code: &'static str, message: String) {
    findings.push(Finding { code, severity: Severity::Note, message });
}
