//! Results of the checks.

use std::fmt::Display;

use serde::Serialize;

use crate::failure::{Failure, one_line};

/// How serious the result of a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HealthLevel {
    Ok,
    /// Works, and is less protected than it should be, or will not work for long.
    Warning,
    /// Does not work, or does not protect.
    Error,
}

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Diagnosis {
    pub(super) level: HealthLevel,
    /// The file, entry or service.
    about: String,
    /// The fault's code.
    code: Option<&'static str>,
    text: String,
    /// A command for a shell that mends it, if one does.
    pub(super) mend: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Diagnoses(Vec<Diagnosis>);

impl Diagnoses {
    pub(super) fn ok(&mut self, about: &dyn Display, text: impl Into<String>) {
        self.add(HealthLevel::Ok, &about.to_string(), None, &text.into(), None);
    }

    pub(super) fn warning(
        &mut self,
        about: &dyn Display,
        code: &'static str,
        text: impl Into<String>,
        mend: Option<String>,
    ) {
        self.add(HealthLevel::Warning, &about.to_string(), Some(code), &text.into(), mend);
    }

    pub(super) fn error(
        &mut self,
        about: &dyn Display,
        code: &'static str,
        text: impl Into<String>,
        mend: Option<String>,
    ) {
        self.add(HealthLevel::Error, &about.to_string(), Some(code), &text.into(), mend);
    }

    pub(super) fn failure(&mut self, about: &dyn Display, failure: &Failure, mend: Option<String>) {
        self.error(about, failure.code(), failure.line(), mend);
    }

    fn add(
        &mut self,
        level: HealthLevel,
        about: &str,
        code: Option<&'static str>,
        text: &str,
        mend: Option<String>,
    ) {
        self.0.push(Diagnosis { level, about: one_line(about), code, text: one_line(text), mend });
    }

    /// Number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.iter().filter(|one| one.level == HealthLevel::Error).count()
    }

    /// Number of errors and warnings so far.
    pub(super) fn faults(&self) -> usize {
        self.iter().filter(|one| one.level != HealthLevel::Ok).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Diagnosis> {
        self.0.iter()
    }
}

impl Diagnosis {
    pub(super) fn line(&self) -> String {
        let level = match self.level {
            HealthLevel::Ok => "ok",
            HealthLevel::Warning => "warning",
            HealthLevel::Error => "error",
        };
        let code = self.code.map(|code| format!("{code}: ")).unwrap_or_default();
        format!("{level:<8} {}: {code}{}", self.about, self.text)
    }
}
