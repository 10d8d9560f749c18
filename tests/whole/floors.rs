use std::collections::BTreeMap;
use std::fs;

use countersign_tests::workspace;

/// The floor of each crate, as in ARCHITECTURE.md.
const FLOORS: &[(&str, u8)] = &[
    ("core", 0),
    ("canonical-json", 0),
    ("merkle", 0),
    ("test-vectors", 0),
    ("keys", 1),
    ("tlog", 1),
    ("registry", 2),
    ("pinned-ask", 2),
    ("approval-token", 2),
    ("action-proposal", 2),
    ("committed-plan", 2),
    ("audit-log", 2),
    ("signals", 2),
    ("tool-gate", 3),
    ("countersign", 4),
    ("clients", 5),
    ("host", 5),
    ("mcp", 5),
    ("simulate", 5),
    ("sqlite", 5),
    ("plan-runner", 5),
    ("pic-conformance", 5),
    ("testing", 5),
    ("cli", 6),
    ("http", 6),
    ("python", 6),
    ("remote", 6),
    ("vectors", 6),
];

#[test]
fn the_floors_of_the_house_hold() {
    let floors: BTreeMap<String, u8> = FLOORS
        .iter()
        .map(|(folder, floor)| {
            let package = if *folder == "countersign" {
                "countersign".to_owned()
            } else {
                format!("countersign-{folder}")
            };
            (package, *floor)
        })
        .collect();
    let mut folders: Vec<String> = fs::read_dir(workspace().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut known: Vec<&str> = FLOORS.iter().map(|(folder, _)| *folder).collect();
    known.sort_unstable();
    assert_eq!(folders, known, "every crate has its floor");
    for (folder, floor) in FLOORS.iter().copied() {
        let text = fs::read_to_string(workspace().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        // Neighbours: `canonical-json` uses the ids and digests of `core`, `tlog` the signatures of `keys`, `host` opens the
        // stores of `sqlite`, and the binary `cli` starts the service `http` and the servers of `remote`.
        let neighbours: &[&str] = match folder {
            "tlog" => &["countersign-keys"],
            "host" => &["countersign-sqlite"],
            "cli" => &["countersign-http", "countersign-remote"],
            _ if floor == 0 => &["countersign-core"],
            _ => &[],
        };
        for dependency in dependencies.keys() {
            let Some(below) = floors.get(dependency) else { continue };
            assert!(
                *below < floor || neighbours.contains(&dependency.as_str()),
                "{folder} (floor {floor}) knows {dependency} (floor {below})"
            );
        }
        if floor <= 4 {
            for heavy in ["tokio", "rusqlite", "clap", "getrandom", "toml"] {
                assert!(!dependencies.contains_key(heavy), "{folder} (floor {floor}) has {heavy}");
            }
        }
    }
}

#[test]
fn every_crate_takes_the_shared_lints_and_no_code_is_unsafe() {
    for (folder, _) in FLOORS {
        let text = fs::read_to_string(workspace().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true), "{folder}");
    }
    let root: toml::Table = fs::read_to_string(workspace().join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(root["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
}

/// With some features of `serde_json`, an object with one reserved name is read as something else, and the checked value is no
/// longer the forwarded one. Cargo enables a feature for all crates at once, whichever crate asks for it.
#[test]
fn no_name_is_special_to_the_reader_of_json_values() {
    for name in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
        let text = format!(r#"{{"{name}":"1"}}"#);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value.is_object() && value[name] == "1", "{name} is read as {value}");
    }
}
