//! Tasks of the repository: `measure` prints figures of the source and holds them to their limits; `codes` lists the
//! stable codes in `docs/codes.md`; `api` lists the public interface in `crates/*/public-api.txt`; `vectors` makes the
//! public vectors in `tests/vectors`; `ratios` measures decisions beside their floors; `counts` counts the instructions
//! of the hot paths.

#![expect(clippy::wildcard_enum_match_arm, reason = "the kinds of items that matter are few")]

mod api;
mod codes;
mod house;
mod imports;
mod measure;
mod ratios;
mod text;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::house::HouseError;

const USAGE: &str = "usage: xtask measure|codes [FOLDER] [--check]\n       \
    xtask api|vectors|counts [--check]\n       \
    xtask ratios [--json] [--only GROUP] [--rounds N] [--sweep]\n       \
    xtask ratios --peers|--gateway|--http|--serve\n\n\
    measure  Prints figures of the workspace in FOLDER (default: this one).\n         \
             --check exits with 1 if a figure is above its limit.\n\
    codes    Writes the list of all codes into docs/codes.md.\n         \
             --check writes nothing, and exits with 1 if the list is out of date.\n\
    api      Writes the public interface into crates/*/public-api.txt of this workspace.\n         \
             --check writes nothing, and exits with 1 if the interface differs.\n\
    vectors  Writes the public vectors into tests/vectors of this workspace.\n         \
             --check writes nothing, and exits with 1 if a vector differs.\n    \
    counts   Writes the instructions of the hot paths into benches/ratios/instructions.txt. Needs valgrind.\n         \
             --check writes nothing, and exits with 1 if one grew by more than 5 %.\n    \
    ratios   Measures every row of the goal table beside its floor. Exits with 1 if a goal is missed.\n         \
             --peers asks public crates the same question. --gateway measures the gateway beside a relay,\n             \
             --http over HTTP beside a reverse proxy. --serve measures POST /v1/check beside a constant answer.\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == "ratios"
    {
        return ratios::ratios(rest);
    }
    let mut given = arguments.iter().map(String::as_str);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut folder, mut check) = (here, false);
    let task = given.next();
    let takes_folder = matches!(task, Some("measure" | "codes"));
    for argument in given {
        match argument {
            "--check" => check = true,
            flag if flag.starts_with('-') || !takes_folder => return fail(USAGE),
            named => folder = Path::new(named).to_path_buf(),
        }
    }
    let done = match task {
        Some("measure") => print_figures(&folder, check),
        Some("codes") => list_codes(&folder, check),
        Some("api") => return list_api(check),
        Some("vectors") => Ok(make_vectors(check)),
        Some("counts") => return ratios::counts(check),
        _ => return fail(USAGE),
    };
    done.unwrap_or_else(|error| fail(&format!("xtask: {error}\n")))
}

fn print_figures(folder: &Path, check: bool) -> Result<ExitCode, HouseError> {
    let measured = measure::measure(folder)?;
    if write!(std::io::stdout(), "{measured}").is_err() {
        return Ok(ExitCode::FAILURE);
    }
    let over = measured.over_limit();
    if check && !over.is_empty() {
        return Ok(fail(&format!("xtask: above the limit: {}\n", over.join(", "))));
    }
    Ok(ExitCode::SUCCESS)
}

fn list_codes(folder: &Path, check: bool) -> Result<ExitCode, HouseError> {
    let same = codes::codes(folder, check)?;
    if check && !same {
        return Ok(fail("xtask: docs/codes.md is out of date: cargo run -p xtask -- codes\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn list_api(check: bool) -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let differing = match api::api(&root, check) {
        Ok(differing) if differing.is_empty() => return ExitCode::SUCCESS,
        Ok(differing) => differing,
        Err(error) => return fail(&format!("xtask: {error}\n")),
    };
    let mut text = String::new();
    for (path, lines) in differing {
        text += &format!("{}\n{}\n", path.display(), lines.join("\n"));
    }
    fail(&format!("{text}xtask: the public interface has changed; to accept: cargo run -p xtask -- api\n"))
}

/// Runs the program that makes the vectors. It needs the whole library, which the other tasks do without. The check is
/// its test: that is built from what `cargo test --workspace` builds anyway.
fn make_vectors(check: bool) -> ExitCode {
    let mut maker = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    maker.args(if check {
        ["test", "--quiet", "--locked", "--workspace", "--bin", "countersign-vectors"].as_slice()
    } else {
        ["run", "--quiet", "--package", "countersign-vectors"].as_slice()
    });
    match maker.current_dir(env!("CARGO_MANIFEST_DIR")).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => fail(&format!("xtask: {error}\n")),
    }
}

fn fail(text: &str) -> ExitCode {
    // Standard error is the last place to write to.
    let _ = write!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}
