use std::process::Stdio;

use crate::bench::Bench;

#[test]
fn no_verb_shows_the_help_and_is_wrong_usage() {
    let run = Bench::new().run("");
    assert_eq!(run.code, 2);
    assert_eq!(run.out, "");
    assert!(run.err.contains("Usage: countersign"), "{run:?}");
}

#[test]
fn existing_file_names_the_option_that_replaces_it() {
    let bench = crate::desk::open();
    let sign = "registry sign draft.json --key op.key --out reg.json";
    assert!(bench.run(sign).err.contains("(--force replaces it)"));
    bench.ok(&format!("{sign} --force"));
    bench.ok("keys generate --kind hmac --out new.key");
    let keys = bench.run("keys generate --kind hmac --out new.key");
    assert!(keys.code == 1 && !keys.err.contains("--force"), "no option replaces a key: {keys:?}");
}

#[test]
fn a_group_without_a_verb_shows_its_help_and_is_wrong_usage() {
    let bench = Bench::new();
    let run = bench.run("json");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("canonicalize"), "{run:?}");
    let run = bench.run("json --json");
    assert_eq!((run.code, run.err.as_str()), (2, ""));
    assert!(run.out.contains("USAGE"), "{run:?}");
}

#[test]
fn help_and_version_are_results() {
    let bench = Bench::new();
    assert!(bench.ok("--help").contains("Exit codes: 0"));
    assert!(bench.ok("--version").starts_with("countersign "));
    assert!(bench.ok("help json digest").contains("Example"));
}

#[test]
fn the_examples_of_the_proposal_verbs_can_be_copied() {
    let bench = Bench::new();
    for verb in ["schema", "verify", "evidence", "attest", "endorse", "conformance"] {
        let help = bench.ok(&format!("proposal {verb} --help"));
        let mut continued = false;
        let mut examples = 0;
        for line in help.lines().skip_while(|line| !line.starts_with("Example")).skip(1) {
            assert!(line.len() <= 76, "{verb}: {line}");
            assert_eq!(continued, !line.starts_with("  countersign "), "{verb}: {line}");
            continued = line.ends_with(" \\");
            examples += 1;
        }
        assert!(examples > 0 && !continued, "{verb}: {help}");
    }
}

#[test]
fn every_verb_explains_itself() {
    let bench = Bench::new();
    let mut waiting = vec![String::new()];
    let mut seen = 0;
    while let Some(verb) = waiting.pop() {
        let help = bench.ok(&format!("{verb} --help"));
        let first = help.lines().next().unwrap();
        assert!(first.len() > 15, "{verb}: {first}");
        let mut lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).peekable();
        // A verb that runs without arguments needs no example.
        let usage = help.lines().find(|line| line.starts_with("Usage: ")).unwrap();
        if lines.peek().is_none() && !usage.ends_with(&format!("{verb} [OPTIONS]")) {
            assert!(help.contains("Example"), "`{verb}` has no example");
        }
        for line in lines.take_while(|line| !line.is_empty()) {
            let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else { continue };
            let (name, about) = name.split_once(' ').unwrap_or((name, ""));
            if name != "help" {
                assert!(about.trim().len() > 10, "{verb} {name} has no line of its own");
                waiting.push(format!("{verb} {name}"));
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} verbs were found");
}

#[test]
fn wrong_usage_is_one_line_with_a_code() {
    let bench = Bench::new();
    bench.fails("frobnicate", 2, "USAGE");
    bench.fails("json digest --recipe md5", 2, "USAGE");
    bench.fails("json digest a b", 2, "USAGE");
    bench.fails("keys generate --kind rsa --out x", 2, "USAGE");
    bench.fails("completions tcsh", 2, "USAGE");
}

#[test]
fn completions_are_made_for_each_shell() {
    let bench = Bench::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(bench.ok(&format!("completions {shell}")).contains("canonicalize"), "{shell}");
    }
    let value = bench.run("completions bash --json").value();
    assert!(value["script"].as_str().unwrap().contains("_countersign"));
}

#[test]
fn a_hidden_character_in_an_argument_is_spelled_out() {
    let run = Bench::new().run_args(&["json", "digest", "no\u{1b}[2J\u{202e}such\nfile"], "");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("\\u{1b}[2J\\u{202e}such file"), "{run:?}");
    assert!(!run.err.contains('\u{1b}') && !run.err.contains('\u{202e}'), "{run:?}");
}

#[test]
fn invisible_characters_are_escaped_only_once() {
    let bench = Bench::new();
    let usage = bench.run_args(&["stats", "log", "--by", "x\u{1b}\\y"], "");
    assert!(usage.code == 2 && usage.err.contains(r"'x\u{1b}\\y'"), "{usage:?}");
    assert!(!usage.err.contains(r"\\u") && !usage.err.contains(r"\\\"), "{usage:?}");
    bench.write("gateway.toml", "[record]\n\"x\\u001b\\\\y\" = 1\n");
    let file = bench.run("approve list --config gateway.toml");
    assert!(file.err.contains(r"`x\u{1b}\\y`") && !file.err.contains(r"\\u"), "{file:?}");
}

#[test]
fn a_reader_that_went_away_is_a_failure_and_no_panic() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = bench
        .command(&["completions", "bash"])
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error OUTPUT_CLOSED: "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let bench = Bench::new();
    for args in [&["json", "digest"][..], &["completions", "zsh"], &["--help"], &["json", "digest", "--json"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child =
            bench.command(args).stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        drop(std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"1"));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(output.stderr.starts_with(b"error OUTPUT_CLOSED: "), "{args:?}");
    }
}

#[test]
fn colours_are_written_where_they_are_asked_for() {
    let bench = Bench::new();
    let error = |args: &[&str], no_color: &str| {
        let mut command = bench.command(args);
        let output = command.env("NO_COLOR", no_color).env_remove("CLICOLOR_FORCE").output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let plain = "error FILE_MISSING: `gone.json`: No such file or directory (os error 2)\n";
    assert_eq!(error(&["registry", "show", "gone.json"], ""), plain);
    assert_eq!(error(&["--color", "never", "registry", "show", "gone.json"], ""), plain);
    let painted = error(&["registry", "show", "gone.json", "--color=always"], "1");
    assert!(painted.starts_with("\u{1b}[1m\u{1b}[31merror\u{1b}[0m FILE_MISSING: "), "{painted:?}");
    assert!(error(&["--color", "sometimes", "demo"], "").starts_with("error USAGE: "));
    let json = bench.run("--json --color always registry show gone.json");
    assert!(json.out.starts_with("{\"error\":{\"code\":\"FILE_MISSING\""), "{json:?}");
}

#[test]
fn each_verb_has_a_manual_page() {
    let bench = Bench::new();
    let page = bench.ok("man");
    assert!(page.contains(".TH countersign 1") && page.contains("Every tool call, countersigned."), "{page}");
    std::fs::create_dir(bench.path("man1")).unwrap();
    bench.ok("man --out man1");
    for name in
        ["countersign.1", "countersign-doctor.1", "countersign-mcp-run.1", "countersign-registry-sign.1"]
    {
        assert!(bench.read(&format!("man1/{name}")).contains(".SH NAME"), "{name}");
    }
    bench.fails("man --out missing", 1, "FILE_UNWRITABLE");
}
