use std::path::Path;

use crate::bench::Bench;

/// The README's first block of this language.
fn block(language: &str) -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, from) = readme.split_once(&format!("```{language}\n")).unwrap();
    from.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_readmes_configuration_is_read_and_lacks_nothing_but_its_files() {
    let bench = Bench::new();
    for (config, code) in [
        (block("toml"), "KEY_FILE_MISSING"),
        (block("toml").replace("principal", "principle"), "CONFIG_MALFORMED"),
    ] {
        bench.write("gateway.toml", config);
        let run = bench.run("mcp run --config gateway.toml -- true");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{run:?}");
    }
}

#[test]
fn the_readmes_demo_is_what_the_demo_prints() {
    let bench = Bench::new();
    let printed = bench.ok("demo --record record.jsonl");
    let shown = block("text");
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with(' ')).map(str::to_owned).collect()
    };
    assert_eq!(rows(&shown), rows(&printed));
    assert_eq!(rows(&shown).len(), 45, "a heading, and two lines for each thing done");
}
