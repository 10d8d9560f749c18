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

/// Most rounds of a comparison.
const MOST_ROUNDS: usize = 1_000;

/// The group whose rows come from the program that counts allocations.
const MEMORY: &str = "memory";

/// What the command line asks for.
#[derive(Default)]
struct Options {
    json: bool,
    sweep: bool,
    only: Option<String>,
    sampling: Sampling,
}

impl Options {
    /// Reads the arguments. The error says what is wrong with one of them.
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--sweep" => options.sweep = true,
                "--only" => {
                    let word = arguments.next().ok_or("--only needs a group")?;
                    let mut groups = GROUPS.iter().map(|(group, _)| *group).chain([MEMORY]);
                    if !groups.any(|group| group.contains(&word)) {
                        return Err(format!("no group has `{word}` in its name"));
                    }
                    options.only = Some(word);
                }
                "--rounds" => {
                    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                    let fits = rounds.filter(|rounds| (1..=MOST_ROUNDS).contains(rounds));
                    options.sampling.rounds =
                        fits.ok_or_else(|| format!("--rounds needs 1 to {MOST_ROUNDS}"))?;
                }
                unknown => return Err(format!("unknown argument `{unknown}`")),
            }
        }
        Ok(options)
    }

    fn wants(&self, group: &str) -> bool {
        !self.sweep && self.only.as_ref().is_none_or(|word| group.contains(word.as_str()))
    }
}

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("ratios: {problem}");
            return ExitCode::from(2);
        }
    };
    let core = pin_to_core(0);
    if !core {
        eprintln!("the process cannot be kept on one core here");
    }
    let mut rows: Vec<Row> = Vec::new();
    if options.sweep {
        rows.extend(sweep(options.sampling));
    }
    for (group, measure) in GROUPS {
        if options.wants(group) {
            rows.extend(measure(options.sampling));
        }
        if group == "undisclosed" && options.wants(MEMORY) {
            rows.extend(memory());
        }
    }
    let rounds = options.sampling.rounds;
    if options.json {
        let report = serde_json::json!({ "pinned": core, "rounds": rounds, "rows": rows });
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
