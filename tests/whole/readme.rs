use std::fs;

use countersign::tool_gate::RejectionCode;
use countersign_tests::workspace;

#[test]
fn the_readmes_table_of_codes_is_the_gates_list() {
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    let is_code = |line: &&str| {
        let cell = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        cell.is_some_and(|cell| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    let rows: Vec<&str> = readme.lines().filter(is_code).collect();
    let expected: Vec<String> = RejectionCode::ALL
        .iter()
        .map(|code| {
            let unlock = code.unlock().unwrap_or("nothing");
            format!("| `{code}` | {} | {} | {unlock} |", code.message(), code.retry().as_str())
        })
        .collect();
    assert_eq!(rows, expected, "regenerate the table in README.md:\n{}", expected.join("\n"));
}

#[test]
fn the_invariants_in_the_architecture_name_tests_that_exist() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let sources = all_sources();
    let mut checked = 0;
    for name in text
        .split('`')
        .filter(|part| part.contains('_') && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    {
        assert!(
            sources.contains(&format!("fn {name}(")),
            "ARCHITECTURE.md names `{name}`, which does not exist"
        );
        checked += 1;
    }
    assert!(checked >= 7, "only {checked} names were found");
}

fn all_sources() -> String {
    let mut all = String::new();
    let mut folders = vec![workspace().join("crates"), workspace().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    all
}
