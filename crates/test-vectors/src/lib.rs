//! The files of test vectors in `tests/vectors`: read, written and compared. For the tests of other crates alone.
//!
//! `crates/vectors` makes the files. Vectors that need private parts of a crate are made by its tests: [`Vectors::hold`]
//! fails where the two differ, and writes the files anew where `COUNTERSIGN_WRITE_VECTORS` is set.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a helper of tests fails by panicking")]

mod framed;

pub use framed::{Framed, hex};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Set to write the files anew.
const WRITE: &str = "COUNTERSIGN_WRITE_VECTORS";

/// The vectors of one crate: a folder in `tests/vectors` with a folder for each kind.
#[derive(Clone, Debug)]
pub struct Vectors {
    folder: PathBuf,
    kinds: Vec<&'static str>,
}

impl Vectors {
    /// Those in the folder of this name, of the kinds `accept` and `reject`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(name);
        Self { folder, kinds: vec!["accept", "reject"] }
    }

    /// Those in the folder of this name, of the kind `recipes` alone: how byte strings that are hashed, tagged or signed are made.
    #[must_use]
    pub fn recipes(name: &str) -> Self {
        Self { kinds: vec!["recipes"], ..Self::of(name) }
    }

    /// Adds a kind of file.
    #[must_use]
    pub fn with(mut self, kind: &'static str) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All files: path within the folder, and text.
    #[must_use]
    pub fn on_disk(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for kind in &self.kinds {
            let Ok(entries) = fs::read_dir(self.folder.join(kind)) else { continue };
            for entry in entries {
                let path = entry.expect("the folder can be listed").path();
                let name = path.file_name().and_then(|name| name.to_str()).expect("a name of plain letters");
                let text = fs::read_to_string(&path).expect("the file can be read");
                files.insert(format!("{kind}/{name}"), text);
            }
        }
        files
    }

    /// Fails unless the files are those that were made, each to the letter.
    pub fn hold(&self, made: &BTreeMap<String, String>) {
        if std::env::var_os(WRITE).is_some() {
            self.write(made);
        }
        let on_disk = self.on_disk();
        assert_eq!(on_disk.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
        for (name, text) in made {
            assert_eq!(on_disk.get(name), Some(text), "{name}");
        }
    }

    /// Names of the files that are missing, too many or of another text than was made.
    #[must_use]
    pub fn differing(&self, made: &BTreeMap<String, String>) -> Vec<String> {
        let on_disk = self.on_disk();
        let names: BTreeSet<&String> = on_disk.keys().chain(made.keys()).collect();
        let differing = names.into_iter().filter(|name| on_disk.get(*name) != made.get(*name));
        differing.map(|name| self.folder.join(name).display().to_string()).collect()
    }

    /// Writes the files. Touches only what differs, and each file in one go: tests of other processes may be reading.
    pub fn write(&self, made: &BTreeMap<String, String>) {
        for kind in &self.kinds {
            fs::create_dir_all(self.folder.join(kind)).expect("the folder can be made");
        }
        let on_disk = self.on_disk();
        for name in on_disk.keys().filter(|name| !made.contains_key(*name)) {
            fs::remove_file(self.folder.join(name)).expect("the file can be removed");
        }
        let fresh = self.folder.join(format!(".new-{}", std::process::id()));
        for (name, text) in made.iter().filter(|(name, text)| on_disk.get(*name) != Some(*text)) {
            fs::write(&fresh, text).expect("the file can be written");
            fs::rename(&fresh, self.folder.join(name)).expect("the file can be put in place");
        }
    }
}

/// Numbers the cases of one kind: path within the folder, and text.
pub fn numbered<S: Display>(
    kind: &str,
    cases: impl IntoIterator<Item = (S, Value)>,
) -> BTreeMap<String, String> {
    let cases = (1_u32..).zip(cases);
    cases.map(|(at, (slug, case))| (format!("{kind}/{at:03}_{slug}.json"), format!("{case:#}\n"))).collect()
}
