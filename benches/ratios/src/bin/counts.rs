//! Counts the instructions of the hot paths under valgrind, as the difference of two runs of `ratios-path`, so that
//! set-up does not count and no symbols are needed. The hashes of a path are taken off: valgrind's processor has no SHA
//! extensions, so they would hide the rest.
//!
//! Writes `benches/ratios/instructions.txt`; with `--check`, writes nothing and exits with 1 if a path costs over 5 %
//! more than there.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::arithmetic_side_effects,
    reason = "a measurement that cannot be made has to stop"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use countersign_ratios::paths::{HotPath, PATHS};

/// Growth that fails, in percent.
const GROWTH: u64 = 5;

fn main() -> ExitCode {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let check = std::env::args().any(|argument| argument == "--check");
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is not installed (Debian: apt-get install valgrind)");
        return ExitCode::FAILURE;
    }
    let counted = count_all();
    if !check {
        let mut text = String::from(
            "# Instructions of the hot paths without their hashes: cargo run --release -p xtask -- counts\n",
        );
        for (name, count) in &counted {
            writeln!(text, "{name} {count}").unwrap();
        }
        print!("{text}");
        std::fs::write(file, text).unwrap();
        return ExitCode::SUCCESS;
    }
    let known = std::fs::read_to_string(file).unwrap_or_default();
    let known: BTreeMap<&str, u64> = known
        .lines()
        .filter_map(|line| line.split_once(' ').and_then(|(name, count)| Some((name, count.parse().ok()?))))
        .collect();
    let mut grown = false;
    for (name, count) in counted {
        let before = known.get(name).copied().unwrap_or(0);
        let is_over = count * 100 > before * (100 + GROWTH);
        grown |= is_over;
        println!("{name:12} {before:>10} -> {count:>10}{}", if is_over { "  over the limit" } else { "" });
    }
    if grown {
        eprintln!("a hot path costs over {GROWTH} % more; to accept: cargo run --release -p xtask -- counts");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Instructions of all paths, half of them in a thread of its own: a count does not depend on what else runs.
fn count_all() -> Vec<(&'static str, u64)> {
    let counts = |part: &[HotPath]| -> Vec<(&'static str, u64)> {
        part.iter().map(|(name, times, _)| (*name, count(name, *times))).collect()
    };
    let (one, other) = PATHS.split_at(PATHS.len() / 2);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| counts(one));
        let other = counts(other);
        one.join().unwrap().into_iter().chain(other).collect()
    })
}

/// Instructions of one path without its hashes.
fn count(name: &str, times: u32) -> u64 {
    let set_up = run(name, 0, &[]);
    let per_time = |flags: &[&str]| run(name, times, flags).saturating_sub(set_up) / u64::from(times);
    per_time(&[]).saturating_sub(per_time(&["--hashes"]))
}

/// Instructions of one run.
fn run(name: &str, times: u32, flags: &[&str]) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(path());
    valgrind.args([name, &times.to_string()]).args(flags);
    let output = valgrind.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected.unwrap().1.trim().parse().unwrap()
}

/// The other program, beside this one.
fn path() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("ratios-path")
}
