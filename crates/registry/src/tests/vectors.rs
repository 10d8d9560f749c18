//! Runs the public vectors: `tests/vectors/registry/{accept,reject}/NNN_slug.json`.
//!
//! A file holds a `draft`, or a `constraint` with an `argument` (a draft's constraint at `/a`), or a tool as a server
//! `listed` it, read by a `recipe`. A vector that must be refused has a `code`.

use std::path::PathBuf;

use countersign_canonical_json::{Limits, Recipe, read};
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn vectors(folder: &str) -> Vec<(String, Value)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/registry").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    files.into_iter().map(read).collect()
}

fn run(vector: &Value) -> Result<(), &'static str> {
    if let Some(draft) = vector.get("draft") {
        return RegistryDraft::from_json(draft.to_string().as_bytes())
            .map(|_| ())
            .map_err(|error| error.code());
    }
    if let Some(listed) = vector["listed"].as_str() {
        let recipe: Recipe = vector["recipe"].as_str().unwrap().parse().unwrap();
        let listed = read(listed.as_bytes(), recipe, &Limits::default()).unwrap();
        return definition_digest(listed.value()).map(|_| ()).map_err(|error| error.code());
    }
    let mut value = desk(1);
    value["tools"][0]["args_schema"] = json!({"type": "object"});
    value["tools"][0]["constraints"] = json!([vector["constraint"]]);
    let draft = RegistryDraft::from_json(value.to_string().as_bytes()).map_err(|error| error.code())?;
    let entry = draft.tools().find(|entry| entry.tool() == &tool("desk", "search")).unwrap().clone();
    let args = canonical(&json!({"a": vector["argument"]}));
    ToolRules::new(entry).check_args(&args).map_err(|error| error.code())
}

#[test]
fn every_accept_vector_is_accepted() {
    let vectors = vectors("accept");
    assert!(vectors.len() >= 10, "the vectors are there");
    for (name, vector) in vectors {
        assert_eq!(run(&vector), Ok(()), "{name}");
        assert!(vector.get("code").is_none(), "{name}");
    }
}

#[test]
fn every_reject_vector_is_refused_with_its_code() {
    let vectors = vectors("reject");
    assert!(vectors.len() >= 30, "the vectors are there");
    for (name, vector) in vectors {
        assert_eq!(run(&vector), Err(vector["code"].as_str().unwrap()), "{name}");
    }
}
