//! Starts the programs that measure. They are built for release and in crates of their own, so that `xtask` stays small.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::fail;

/// Runs the rows of the goal table, the peers, the gateway, or the service.
pub(crate) fn ratios(arguments: &[String]) -> ExitCode {
    let (kinds, rest): (Vec<_>, Vec<_>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|argument| matches!(*argument, "--peers" | "--gateway" | "--http" | "--serve"));
    match kinds.as_slice() {
        [] => succeed_then(build("countersign-ratios"), || run("ratios", &rest)),
        ["--peers"] => {
            let manifest = root().join("benches/peers/Cargo.toml");
            let mut cargo = cargo("run");
            cargo.arg("--release").arg("--manifest-path").arg(manifest).arg("--").args(rest);
            status(cargo)
        }
        // The first fills the log of a million entries, the second has a server and a proxy beside the gateway.
        ["--gateway"] => measure("gateway.py", &rest),
        ["--http"] => measure("http.py", &rest),
        ["--serve"] => succeed_then(build("countersign-cli"), || {
            succeed_then(build("countersign-ratios"), || {
                let binary = target().join("countersign").display().to_string();
                run("ratios-serve", &[&[binary.as_str()], rest.as_slice()].concat())
            })
        }),
        _ => fail("xtask: one of --peers, --gateway, --http and --serve\n"),
    }
}

/// Runs a script of `benches/gateway` beside the release build.
fn measure(script: &str, arguments: &[&str]) -> ExitCode {
    succeed_then(build("countersign-cli"), || {
        succeed_then(build("countersign-ratios"), || {
            let mut python = Command::new("python3");
            python.arg(root().join("benches/gateway").join(script)).arg(target().join("countersign"));
            python.args(arguments);
            status(python)
        })
    })
}

/// Counts the instructions of the hot paths.
pub(crate) fn counts(check: bool) -> ExitCode {
    let flags: &[&str] = if check { &["--check"] } else { &[] };
    succeed_then(build("countersign-ratios"), || run("ratios-counts", flags))
}

fn build(package: &str) -> ExitCode {
    let mut cargo = cargo("build");
    cargo.args(["--release", "--quiet", "--bins", "--package", package]);
    status(cargo)
}

fn run(program: &str, arguments: &[&str]) -> ExitCode {
    let mut program = Command::new(target().join(program));
    program.args(arguments);
    status(program)
}

fn succeed_then(first: ExitCode, next: impl FnOnce() -> ExitCode) -> ExitCode {
    if first == ExitCode::SUCCESS { next() } else { first }
}

fn cargo(verb: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(verb).arg("--locked").current_dir(root());
    cargo
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folder of the release build.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("release")
}

fn status(mut command: Command) -> ExitCode {
    match command.status() {
        // A program that a signal ended has no code.
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => fail(&format!("xtask: {}: {error}\n", command.get_program().to_string_lossy())),
    }
}
