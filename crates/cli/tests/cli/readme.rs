use std::path::Path;

use crate::bench::Bench;

/// A page's blocks of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let page = std::fs::read_to_string(page).unwrap();
    let block = |from: &str| from.split_once("```").unwrap().0.to_owned();
    page.split(&format!("```{language}\n")).skip(1).map(block).collect()
}

/// The README's first block of this language.
fn block(language: &str) -> String {
    blocks("README.md", language).swap_remove(0)
}

#[test]
fn the_readmes_configuration_is_read_and_lacks_nothing_but_its_files() {
    let bench = Bench::new();
    let whole = block("toml");
    let plan = blocks("README.md", "toml").swap_remove(1);
    let files = blocks("docs/plans.md", "toml").swap_remove(0);
    let signals = blocks("docs/record.md", "toml").swap_remove(0);
    for (config, code) in [
        (whole.replace("principal", "principle"), "CONFIG_MALFORMED"),
        (format!("{whole}\n{plan}"), "KEY_FILE_MISSING"),
        (format!("{whole}\n{signals}"), "KEY_FILE_MISSING"),
        (format!("{whole}\n{}", signals.replace("0.7 ", "0.95 ")), "ALARM_SHARES"),
        // Its approval binds a session, which the page says how to name.
        (format!("{whole}\n{files}"), "CONFIG_CONFLICT"),
        (whole, "KEY_FILE_MISSING"),
    ] {
        bench.write("gateway.toml", config);
        let run = bench.run("mcp run --config gateway.toml -- true");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{run:?}");
    }
}

#[test]
fn the_readmes_demo_is_what_the_demo_prints() {
    let bench = Bench::new();
    let printed = bench.ok("demo --record log");
    let shown = block("text");
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with(' ')).map(str::to_owned).collect()
    };
    assert_eq!(rows(&shown), rows(&printed));
    assert_eq!(rows(&shown).len(), 65, "a heading, and two lines for each thing done");
}

/// Runs what the page on plans tells people to run, with the binary on the path.
#[test]
fn the_walk_through_of_plans_ends_as_it_says() {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out operator.key --public-out operator.pub");
    bench.ok("keys generate --kind hmac --out approval.key");
    bench.log_key();
    bench.ok("keys trust --threshold 1 --out trust-root.json operator.pub");
    let script = blocks("docs/plans.md", "sh").swap_remove(0);
    assert!(script.contains("plan run") && script.contains("merkle verify-inclusion"));
    let binary = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let run = std::process::Command::new("sh")
        .arg("-c")
        .arg(script)
        .env("PATH", path)
        .current_dir(bench.folder())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert!(run.status.success(), "{out}\n{err}");
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("error ")).collect();
    assert_eq!(errors.len(), 2, "{err}");
    assert!(errors[0].starts_with("error APPROVAL_REQUIRED: "), "{err}");
    assert!(errors[1].starts_with("error PLAN_STEP_MISMATCH: "), "{err}");
    assert!(bench.read("ledger.txt").contains("grace@customers.example"), "{out}\n{err}");
    assert!(!bench.read("ledger.txt").contains("eve"));
    assert!(bench.ok("audit verify plan-log --key log.vkey").contains("entries of example.com/log verified"));
}
