//! The workspace's Rust files, read and parsed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the workspace could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HouseError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Parse { path: PathBuf, source: syn::Error },
}

/// One Rust file.
pub(crate) struct SourceFile {
    /// Path from the workspace's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
}

impl SourceFile {
    /// Whether the file holds tests, benches or what only they use.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.iter().filter_map(|part| part.to_str());
        parts.any(|part| {
            matches!(part, "tests" | "tests.rs" | "benches" | "test-vectors" | "testing" | "vectors")
        })
    }

    /// Name of the folder in `crates/` if the file is in its `src`.
    pub(crate) fn crate_source(&self) -> Option<&str> {
        let mut parts = self.path.iter().filter_map(|part| part.to_str());
        let (crates, name, src) = (parts.next()?, parts.next()?, parts.next()?);
        (crates == "crates" && src == "src").then_some(name)
    }
}

/// All Rust files under `crates`, `tests` and `xtask`, by path.
pub(crate) fn read_house(root: &Path) -> Result<Vec<SourceFile>, HouseError> {
    let mut paths = Vec::new();
    for folder in ["crates", "tests", "xtask"] {
        if root.join(folder).is_dir() {
            collect(&root.join(folder), &mut paths)?;
        }
    }
    paths.sort();
    paths.into_iter().map(|path| read_file(root, &path)).collect()
}

fn read_file(root: &Path, path: &Path) -> Result<SourceFile, HouseError> {
    let text =
        fs::read_to_string(path).map_err(|source| HouseError::Read { path: path.to_owned(), source })?;
    let syntax =
        syn::parse_file(&text).map_err(|source| HouseError::Parse { path: path.to_owned(), source })?;
    Ok(SourceFile { path: path.strip_prefix(root).unwrap_or(path).to_owned(), text, syntax })
}

/// Adds the Rust files under `folder`. Build output and files that must not compile are left out.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), HouseError> {
    let failed = |source| HouseError::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() && !matches!(name, Some("target" | "compile_fail")) {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
