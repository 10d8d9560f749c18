//! Common code of the workspace tests: the location of the workspace. It has no tests of its own.

use std::path::{Path, PathBuf};

/// The root folder of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_owned(), Path::to_owned)
}
