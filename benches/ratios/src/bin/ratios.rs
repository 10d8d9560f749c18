//! `cargo run --release -p xtask -- ratios [--json] [--only WORD] [--rounds N] [--sweep]`: every row of the goal table, in one process on
//! one core. Exits with 1 if a goal is missed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench that cannot be set up has to stop"
)]

use std::process::{Command, ExitCode};

use countersign_ratios::rows::{GROUPS, sweep};
use countersign_ratios::{Row, Sampling, pin_to_core, print_table};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at.checked_add(1)?)
    };
    let only = value("--only");
    let is_wanted = |group: &str| only.is_none_or(|word| group.contains(word.as_str()));
    let default = Sampling::default();
    let rounds = value("--rounds").map_or(default.rounds, |rounds| rounds.parse().unwrap());
    let sampling = Sampling { rounds, ..default };
    let core = pin_to_core(0);
    if !core {
        eprintln!("the process cannot be kept on one core here");
    }
    let mut rows: Vec<Row> = Vec::new();
    if has("--sweep") {
        rows.extend(sweep(sampling));
    }
    for (group, measure) in GROUPS.iter().filter(|_| !has("--sweep")) {
        if is_wanted(group) {
            rows.extend(measure(sampling));
        }
        if *group == "undisclosed" && is_wanted("memory") {
            rows.extend(memory());
        }
    }
    if has("--json") {
        let report = serde_json::json!({ "pinned": core, "rounds": sampling.rounds, "rows": rows });
        println!("{}", serde_json::to_string_pretty(&report).unwrap());
    } else {
        println!(
            "On one core: {}. Medians of {rounds} rounds; spread: interquartile range of the rounds.\n",
            if core { "yes" } else { "no" }
        );
        print_table(&rows).unwrap();
    }
    let missed = rows.iter().filter(|row| !row.met).count();
    eprintln!("{missed} of {} rows miss their goal", rows.iter().filter(|row| row.goal.is_some()).count());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rows of the program that counts allocations. It is another process, because counting takes time.
fn memory() -> Vec<Row> {
    let program = std::env::current_exe().unwrap().with_file_name("ratios-memory");
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
