//! The program `countersign`.

fn main() -> std::process::ExitCode {
    countersign_cli::run(std::env::args_os().collect())
}
