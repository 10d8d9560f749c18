use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};

use crate::command::Verb;
use crate::failure::{Exit, Failure};
use crate::output::{Output, note};

/// Every tool call, countersigned.
///
/// Countersign stands between an agent's decision to call a tool and the call. An operator signs what each agent may
/// do, the goal is pinned, risky calls need an approval of exactly that call, and every decision is recorded.
#[derive(Debug, Parser)]
#[command(
    name = "countersign",
    version,
    max_term_width = 110,
    after_help = "Exit codes: 0 done or allowed, 1 could not be done, 2 wrong usage, 3 refused,\n\
                  128 + N ended by signal N.\n\
                  Start with `countersign demo`, or with `countersign keys generate --help`."
)]
pub(crate) struct Cli {
    /// Write results and errors as JSON on standard output.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    verb: Verb,
}

impl Cli {
    /// Returns the full command tree, for shell completions.
    pub(crate) fn tree() -> clap::Command {
        Self::command()
    }
}

/// Parses the command line, runs one verb and reports the result.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let asked_for_json = args.iter().take_while(|arg| *arg != OsStr::new("--")).any(|arg| arg == "--json");
    match Cli::try_parse_from(args) {
        Ok(cli) => {
            let mut out = Output::new(cli.json);
            let ended = cli.verb.run(&mut out);
            end(&mut out, ended)
        }
        Err(error) => {
            let mut out = Output::new(asked_for_json);
            let ended = explain(&mut out, &error);
            end(&mut out, ended)
        }
    }
}

fn end(out: &mut Output, ended: Result<Exit, Failure>) -> ExitCode {
    let told = ended.and_then(|exit| out.flush().map(|()| exit));
    let failure = match told {
        Ok(exit) => return exit.into(),
        Err(failure) => failure,
    };
    out.fail(failure.code(), &failure.line());
    failure.exit().into()
}

/// Prints clap's output: help and version are results, everything else is a usage error on one line.
fn explain(out: &mut Output, error: &clap::Error) -> Result<Exit, Failure> {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        out.bytes(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        if out.is_json() {
            return Err(Failure::usage("a verb or an argument is missing; see --help"));
        }
        note(text.trim_end());
        return Ok(Exit::Usage);
    }
    Err(Failure::usage(first_paragraph(&text)))
}

fn first_paragraph(text: &str) -> String {
    let body = text.strip_prefix("error: ").unwrap_or(text);
    body.split("\n\n").next().unwrap_or(body).to_owned()
}
