use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use countersign::tool_gate::RejectionCode;
use countersign_tests::workspace;

fn page(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap()
}

#[test]
fn documented_codes_are_the_gates() {
    let page = page("docs/codes.md");
    let is_code = |line: &&str| {
        let cell = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        let is_row = line.matches('|').count() == 5;
        is_row
            && cell.is_some_and(|cell| {
                !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
            })
    };
    let rows: Vec<&str> = page.lines().filter(is_code).collect();
    let expected: Vec<String> = RejectionCode::ALL
        .iter()
        .map(|code| {
            let unlock = code.unlock().unwrap_or("nothing");
            format!("| `{code}` | {} | {} | {unlock} |", code.message(), code.retry().as_str())
        })
        .collect();
    assert_eq!(rows, expected, "regenerate the table in docs/codes.md:\n{}", expected.join("\n"));
}

#[test]
fn readmes_rust_is_cut_out_of_a_compiled_example() {
    let block = |name: &str, fence: &str| -> String {
        let page = page(name);
        let from = page.split_once(fence).unwrap().1;
        from.split_once("```").unwrap().0.to_owned()
    };
    let shown = block("README.md", "```rust\n");
    assert!(shown.lines().count() >= 10, "{shown}");
    let compiled = block("crates/countersign/README.md", "```\n");
    assert!(compiled.contains(&shown), "{shown}\nis not in crates/countersign/README.md");
}

#[test]
fn links_between_pages_resolve() {
    let mut checked = 0;
    for page in pages() {
        let text = without_code(&fs::read_to_string(&page).unwrap());
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            // Links in a crate's documentation point to items.
            if target.starts_with("http") || target.contains("::") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(file.exists(), "{}: {target}", page.display());
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&file).unwrap());
                assert!(anchors.contains(anchor), "{}: {target}\n{anchors:?}", page.display());
            }
            checked += 1;
        }
    }
    assert!(checked >= 60, "only {checked} links were found");
}

#[test]
fn every_page_is_in_the_index() {
    let index = page("docs/README.md");
    for page in pages().iter().filter(|page| page.parent() == Some(&workspace().join("docs"))) {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "{name}");
    }
}

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![(workspace(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let hides =
                path.file_name().unwrap().to_str().unwrap().starts_with('.') || path.ends_with("target");
            if path.is_dir() && !hides && depth < 3 {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() >= 15, "{pages:?}");
    pages
}

/// The page without its code blocks and code spans.
fn without_code(text: &str) -> String {
    let outside: String = text.split("```").step_by(2).collect();
    let shown = outside.split('`').enumerate();
    // Code in a link's text precedes the end of the link, which is kept.
    shown.filter(|(place, _)| place % 2 == 0).map(|(_, part)| part).collect()
}

/// Anchors of a page's headings, as repository hosts generate them.
fn anchors(text: &str) -> BTreeSet<String> {
    let outside: String = text.split("```").step_by(2).collect();
    let headings = outside.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn the_invariants_in_the_architecture_name_tests_that_exist() {
    let text = page("ARCHITECTURE.md");
    let sources = all_sources();
    let mut checked = 0;
    for name in text
        .split('`')
        .filter(|part| part.contains('_') && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    {
        let is_there = names_function(&sources, name);
        assert!(is_there, "ARCHITECTURE.md names `{name}`, which does not exist");
        checked += 1;
    }
    assert!(checked >= 7, "only {checked} names were found");
}

#[test]
fn walk_through_names_functions_of_its_files() {
    let text = page("ARCHITECTURE.md");
    let mut checked = 0;
    for row in text.lines().filter(|line| line.matches('|').count() == 5) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if !cells[2].starts_with("`crates/") {
            continue;
        }
        let source = page(cells[2].trim_matches('`'));
        for name in cells[3].split('`').skip(1).step_by(2) {
            let is_there = names_function(&source, name);
            assert!(is_there, "{}: {name}", cells[2]);
            checked += 1;
        }
    }
    assert!(checked >= 15, "only {checked} functions were found");
}

/// Returns whether the source has a function of this name, generic or not.
fn names_function(source: &str, name: &str) -> bool {
    ["(", "<"].iter().any(|end| source.contains(&format!("fn {name}{end}")))
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
