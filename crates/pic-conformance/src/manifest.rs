use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// The vectors of a suite and the expected result of each.
#[derive(Debug)]
pub(crate) struct SuiteManifest {
    pub(crate) version: String,
    pub(crate) entries: Vec<VectorEntry>,
}

/// One vector of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VectorEntry {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) mode: Mode,
    pub(crate) expected: Expected,
    pub(crate) expected_error_code: Option<String>,
    pub(crate) matrix_id: Option<String>,
}

/// Subject of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// The canonical form of an input.
    Canonicalization,
    /// Schema, binding and policy.
    Core,
    /// Signatures and files.
    Evidence,
    /// Trust levels that a proposal claims.
    TrustSanitization,
}

/// Error of an unknown mode name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mode of a conformance vector")]
#[non_exhaustive]
pub struct ModeError;

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(ModeError)
    }
}

impl Mode {
    /// Every mode, in the order of the specification.
    pub const ALL: [Self; 4] = [Self::Canonicalization, Self::Core, Self::Evidence, Self::TrustSanitization];

    /// The name in a manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canonicalization => "canonicalization",
            Self::Core => "core",
            Self::Evidence => "evidence",
            Self::TrustSanitization => "trust_sanitization",
        }
    }
}

/// Expected result of a vector. Only this project's own suites use the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    CanonicalMatch,
    CanonicalReject,
    Allow,
    Block,
    KeyringRefused,
    PolicyRefused,
}

impl Expected {
    pub(crate) const fn as_str(self) -> &'static str {
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
struct WireManifest {
    version: String,
    vectors: Vec<VectorEntry>,
}

impl SuiteManifest {
    /// Reads a manifest. Unknown members, repeated ids and files outside of the suite are errors.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let wire: WireManifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
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

impl VectorEntry {
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
            // The code of a refused file may be left open.
            (Expected::KeyringRefused | Expected::PolicyRefused, Some(_)) => {}
            (_, Some(_)) => return Err("only what is refused has an expected_error_code"),
        }
        if self.matrix_id.is_some() != (self.mode == Mode::TrustSanitization) {
            return Err("a vector of trust_sanitization, and no other, has a matrix_id");
        }
        Ok(())
    }
}

/// Returns whether a path consists of plain names only. Such a path stays within its base folder.
pub(crate) fn is_plain(path: &str) -> bool {
    let names = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    !path.is_empty() && !path.contains(['\\', '\0']) && names(Path::new(path))
}

/// The path of a file within the suite. Refuses a symbolic link on the way: a suite reads its own files only.
///
/// This does not protect against changes of the suite during the run.
pub(crate) fn within(suite: &Path, plain: &str) -> Result<PathBuf, &'static str> {
    let mut path = suite.to_owned();
    for name in Path::new(plain).components() {
        path.push(name);
        if path.is_symlink() {
            return Err("a part of the path is a link");
        }
    }
    Ok(path)
}
