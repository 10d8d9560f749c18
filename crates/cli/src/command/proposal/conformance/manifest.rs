use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;

/// Which files a suite has, and what should come of each.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) version: String,
    pub(super) entries: Vec<Entry>,
}

/// One vector of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) file: String,
    pub(super) mode: Mode,
    pub(super) expected: Expected,
    pub(super) expected_error_code: Option<String>,
    pub(super) matrix_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(super) enum Mode {
    Canonicalization,
    Core,
    Evidence,
    TrustSanitization,
}

impl Mode {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Canonicalization => "canonicalization",
            Self::Core => "core",
            Self::Evidence => "evidence",
            Self::TrustSanitization => "trust_sanitization",
        }
    }
}

/// What should come of a vector. The last two are of this project's own suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expected {
    CanonicalMatch,
    CanonicalReject,
    Allow,
    Block,
    KeyringRefused,
    PolicyRefused,
}

impl Expected {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::CanonicalMatch => "canonical_match",
            Self::CanonicalReject => "canonical_reject",
            Self::Allow => "allow",
            Self::Block => "block",
            Self::KeyringRefused => "keyring_refused",
            Self::PolicyRefused => "policy_refused",
        }
    }

    const fn is_canonical(self) -> bool {
        matches!(self, Self::CanonicalMatch | Self::CanonicalReject)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    version: String,
    vectors: Vec<Entry>,
}

impl Manifest {
    /// Reads a manifest: nothing unknown in it, no id twice, no file outside of the suite.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if wire.version.is_empty() {
            return Err("the version is empty".to_owned());
        }
        let mut ids = HashSet::new();
        for (index, entry) in wire.vectors.iter().enumerate() {
            entry.check().map_err(|what| format!("vectors[{index}]: {what}"))?;
            if !ids.insert(entry.id.as_str()) {
                return Err(format!("vectors[{index}]: an entry before it has the same id"));
            }
        }
        Ok(Self { version: wire.version, entries: wire.vectors })
    }
}

impl Entry {
    fn check(&self) -> Result<(), &'static str> {
        if self.id.is_empty() {
            return Err("the id is empty");
        }
        if !is_plain(&self.file) {
            return Err("the file is not a plain path within the suite");
        }
        if self.expected.is_canonical() != (self.mode == Mode::Canonicalization) {
            return Err("this mode has no such verdict");
        }
        let code = self.expected_error_code.as_deref();
        let is_proposals = |code: &str| code.starts_with("PIC_") || code == "IMPACT_UNDERSTATED";
        match (self.expected, code) {
            (Expected::Block, Some(code)) if is_proposals(code) => {}
            (Expected::Block, _) => return Err("the expected_error_code is missing or none"),
            (_, None) => {}
            // A file that is refused has a code of its own kind, which may be left open.
            (Expected::KeyringRefused | Expected::PolicyRefused, Some(_)) => {}
            (_, Some(_)) => return Err("only what is refused has an expected_error_code"),
        }
        if self.matrix_id.is_some() != (self.mode == Mode::TrustSanitization) {
            return Err("a vector of trust_sanitization, and no other, has a matrix_id");
        }
        Ok(())
    }
}

/// Says whether a path is made of names alone, so that it stays within the folder that it is added to.
pub(super) fn is_plain(path: &str) -> bool {
    let names = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    !path.is_empty() && !path.contains(['\\', '\0']) && names(Path::new(path))
}

/// The path of what is named, by a plain path, within the suite. Nothing on the way there is a link, so that a suite
/// shows no more than what is in it, whoever made it. What is not there is no link.
///
/// It does not protect against whoever changes the suite while it runs.
pub(super) fn within(suite: &Path, plain: &str) -> Result<PathBuf, &'static str> {
    let mut path = suite.to_owned();
    for name in Path::new(plain).components() {
        path.push(name);
        if path.is_symlink() {
            return Err("a part of the path is a link");
        }
    }
    Ok(path)
}
