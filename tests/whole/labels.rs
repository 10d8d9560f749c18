use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use countersign_tests::workspace;
use serde_json::Value;

/// Text before a label in the library's code: a digest of framed fields, or a named constant.
const BEFORE: [&str; 4] =
    ["framed(\"", "LABEL: &str = \"", "PAYLOAD_TYPE: &str = \"", "COSIGNATURE: &str = \""];

/// Prefixes of this library's labels, in any position.
const OWN: [&str; 2] = ["countersign/", "application/vnd.countersign."];

#[test]
fn every_label_of_the_library_has_public_vectors() {
    let (labels, shown) = (labels(), shown());
    let missing: Vec<_> = labels.difference(&shown).collect();
    assert!(missing.is_empty(), "no file in tests/vectors shows: {missing:?}");
    assert!(labels.len() >= 22, "only {labels:?} were found");
}

#[test]
fn no_vector_shows_a_label_that_the_library_does_not_have() {
    let labels = labels();
    let unknown: Vec<_> = shown().into_iter().filter(|label| !labels.contains(label)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The labels in the code, without those of tests and of the makers of vectors.
fn labels() -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    each_file(&workspace().join("crates"), &mut |path, text| {
        let of_tests = path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part.starts_with("tests") || part == "vectors"
        });
        if of_tests || path.extension().is_none_or(|end| end != "rs") {
            return;
        }
        let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        labels.extend(BEFORE.iter().flat_map(|before| literals_behind(&code, before, "")));
        labels.extend(OWN.iter().flat_map(|own| literals_behind(&code, &format!("\"{own}"), own)));
    });
    labels
}

/// The rest of each literal that follows `before`, prefixed with `start`. A line break at the end is not part of a name.
fn literals_behind(code: &str, before: &str, start: &str) -> Vec<String> {
    let literals = code.split(before).skip(1).filter_map(|rest| rest.split('"').next());
    literals.map(|literal| format!("{start}{}", literal.trim_end_matches("\\n"))).collect()
}

/// The labels that the vectors state.
fn shown() -> BTreeSet<String> {
    let mut shown = BTreeSet::new();
    each_file(&workspace().join("tests/vectors"), &mut |path, text| {
        if path.extension().is_none_or(|end| end != "json") {
            return;
        }
        let vector: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        shown.extend(vector["label"].as_str().map(str::to_owned));
    });
    shown
}

fn each_file(folder: &Path, take: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, take);
        } else if let Ok(text) = fs::read_to_string(&path) {
            take(&path, &text);
        }
    }
}
