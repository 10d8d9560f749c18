//! The `countersign` command line: every verb of Countersign for people and scripts.
//!
//! It decides nothing itself: it reads files and options, hands them to the crates below, and says what they said. Results go to
//! standard output, one-line errors to standard error; the exit code is 0 for done or allowed, 1 when it could not be
//! done, 2 for wrong usage and 3 for refused. The `proposal` verbs have PIC/1.0's own codes instead.

mod cli;
mod command;
mod config;
mod demo;
mod export;
mod failure;
mod files;
mod follow;
#[cfg(any(feature = "otel", feature = "witness"))]
mod http;
mod interrupt;
mod lines;
mod marks;
mod minting;
mod output;
mod proposals;
mod random;
mod record;
mod recorded;
mod server;
mod session;
mod shown;
mod signals;
mod time;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os().collect())
}
