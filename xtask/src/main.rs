//! Tasks of the repository: `cargo run -p xtask -- measure` prints figures of the source and holds them to their limits.

#![expect(clippy::wildcard_enum_match_arm, reason = "the kinds of items that matter are few")]

mod house;
mod imports;
mod measure;
mod text;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: xtask measure [FOLDER] [--check]\n\n\
    Prints figures of the workspace in FOLDER (default: this one).\n\
    --check exits with 1 if a figure is above its limit.\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut given = arguments.iter().map(String::as_str);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut folder, mut check) = (here, false);
    if given.next() != Some("measure") {
        return fail(USAGE);
    }
    for argument in given {
        match argument {
            "--check" => check = true,
            flag if flag.starts_with('-') => return fail(USAGE),
            named => folder = Path::new(named).to_path_buf(),
        }
    }
    let measured = match measure::measure(&folder) {
        Ok(measured) => measured,
        Err(error) => return fail(&format!("xtask: {error}\n")),
    };
    if write!(std::io::stdout(), "{measured}").is_err() {
        return ExitCode::FAILURE;
    }
    let over = measured.over_limit();
    if check && !over.is_empty() {
        return fail(&format!("xtask: above the limit: {}\n", over.join(", ")));
    }
    ExitCode::SUCCESS
}

fn fail(text: &str) -> ExitCode {
    // Standard error is the last place to write to.
    let _ = write!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}
