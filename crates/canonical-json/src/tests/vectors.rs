use std::path::PathBuf;

use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use sha2::Digest as _;

use crate::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accept {
    recipe: Recipe,
    input: Option<String>,
    input_base64: Option<String>,
    canonical: String,
    sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reject {
    recipe: Recipe,
    input: Option<String>,
    input_base64: Option<String>,
    code: String,
    offset: usize,
}

fn bytes_of(input: Option<String>, base64: Option<String>) -> Vec<u8> {
    match (input, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => Base64::decode_vec(&base64).unwrap(),
        _ => panic!("a vector has either input or input_base64"),
    }
}

/// File names and texts of the vectors of one folder.
fn vectors(folder: &str) -> Vec<(String, Vec<u8>)> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/canonical-json").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| (file.display().to_string(), std::fs::read(file).unwrap())).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn accepted_vectors_have_their_canonical_text() {
    let files = vectors("accept");
    assert!(files.len() >= 40);
    for (file, text) in files {
        let vector: Accept = serde_json::from_slice(&text).unwrap();
        let bytes = bytes_of(vector.input, vector.input_base64);
        let canonical =
            read(&bytes, vector.recipe, &Limits::default()).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(canonical.as_str(), vector.canonical, "{file}");
        assert_eq!(canonical.digest().to_string(), vector.sha256, "{file}");
        assert_eq!(hex(&sha2::Sha256::digest(&vector.canonical)), vector.sha256, "{file}");
        assert_eq!(digest(&bytes, vector.recipe, &Limits::default()), Ok(canonical.digest()), "{file}");
    }
}

#[test]
fn every_rejected_vector_has_its_code_and_offset() {
    let files = vectors("reject");
    assert!(files.len() >= 100);
    let mut reader = Reader::new(Limits::default());
    for (file, text) in files {
        let vector: Reject = serde_json::from_slice(&text).unwrap();
        let bytes = bytes_of(vector.input, vector.input_base64);
        let error = read(&bytes, vector.recipe, &Limits::default()).expect_err(&file);
        assert_eq!((error.code(), error.offset()), (vector.code.as_str(), vector.offset), "{file}");
        assert_eq!(reader.read(&bytes, vector.recipe).err(), Some(error), "{file}");
        assert_eq!(reader.digest(&bytes, vector.recipe).err(), Some(error), "{file}");
    }
}

#[test]
fn vectors_cover_every_code() {
    let met: std::collections::BTreeSet<String> = vectors("reject")
        .iter()
        .map(|(_, text)| serde_json::from_slice::<Reject>(text).unwrap().code)
        .collect();
    let codes = [
        "JSON_BOM",
        "JSON_CONTROL_CHARACTER",
        "JSON_DUPLICATE_NAME",
        "JSON_INEXACT_NUMBER",
        "JSON_INVALID_ESCAPE",
        "JSON_INVALID_NUMBER",
        "JSON_INVALID_UTF8",
        "JSON_LONE_SURROGATE",
        "JSON_NUMBER_OVERFLOW",
        "JSON_TOO_DEEP",
        "JSON_TRAILING_DATA",
        "JSON_UNEXPECTED_BYTE",
        "JSON_UNEXPECTED_END",
        "JSON_UNSAFE_INTEGER",
    ];
    assert!(met.iter().eq(&codes.map(str::to_owned)), "{met:?}");
}
