use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};
use countersign_host::home::UserFolder;

use crate::command::Verb;
use crate::command::wrap::status;
use crate::failure::{Exit, Failure};
use crate::look::ColorWhen;
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

    /// Whether output has colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: ColorWhen,

    #[command(subcommand)]
    verb: Option<Verb>,
}

impl Cli {
    /// Runs the verb. Without one, shows the protected servers; without a profile, the help.
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let is_set_up =
            || UserFolder::of_user().and_then(|home| home.profiles()).is_ok_and(|it| !it.is_empty());
        match &self.verb {
            Some(verb) => verb.run(out),
            None if is_set_up() => status(out),
            None if self.json => Err(Failure::usage("a verb is missing; see --help")),
            None => {
                note(Self::command().render_help().to_string().trim_end());
                Ok(Exit::Usage)
            }
        }
    }

    /// Returns the full command tree, for completions and manual pages.
    pub(crate) fn tree() -> clap::Command {
        Self::command()
    }
}

/// Parses the command line, runs one verb and reports the result.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let asked_for_json = args.iter().take_while(|arg| *arg != OsStr::new("--")).any(|arg| arg == "--json");
    let parsed = Cli::command().try_get_matches_from(args);
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, has_force(&matches))));
    match parsed {
        Ok((cli, has_force)) => {
            cli.color.choose();
            let mut out = Output::new(cli.json);
            let ended = cli.run(&mut out);
            let ended = ended.map_err(|failure| if has_force { failure.naming_force() } else { failure });
            end(&mut out, ended)
        }
        Err(error) => {
            let mut out = Output::new(asked_for_json);
            let ended = explain(&mut out, &error);
            end(&mut out, ended)
        }
    }
}

/// Returns `true` if the verb that was called has the option `--force`.
fn has_force(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => has_force(below),
        None => matches.try_get_one::<bool>("force").is_ok(),
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
