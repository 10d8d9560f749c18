//! The `countersign` command line: every verb of Countersign for people and scripts.
//!
//! It makes no decisions itself: it reads files and options, passes them to the crates below and prints their answers.
//! Results go to standard output, one-line errors to standard error. The exit code is 0 for done or allowed, 1 for an
//! error, 2 for wrong usage and 3 for refused. The `proposal` verbs have PIC/1.0's own codes instead.

mod approver;
mod cli;
mod command;
mod config_args;
mod demo;
mod drafting;
mod failure;
mod files;
mod listed_reads;
mod look;
mod mcp_server;
mod minting;
mod output;
mod record_args;
mod time;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line with these arguments, of which the first is the program's name, and returns the verb's exit
/// code.
///
/// Reads standard input and writes to standard output and standard error.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    cli::run(arguments)
}
