mod watchdog;

use std::io::{self, Read as _};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use clap::Args;
use countersign_core::Millis;
use countersign_host::config_file::{ConfigFile, find_config};
use countersign_host::home::{UserFolder, UserProfileName};
use countersign_host::hook::{HookAnswer, decide};
use countersign_host::hook_event::{EVENT_BYTES, HookHost};
use countersign_host::report::Reporter;

use crate::failure::{Exit, Failure};
use crate::output::{Output, note, reporter};
use watchdog::Watchdog;

/// Decide about one call of a host with command hooks: Claude Code, Cursor, Copilot.
///
/// Reads the host's event from standard input and prints nothing on standard output. Exit 0 and silence: the call goes on to the
/// host's own checks. Exit 2 and one line on standard error: it must not run. Every failure is exit 2, and so is a decision that
/// takes longer than half of the host's time-out.
///
/// The session is the host's, the principal is the user of this process, and the tools are those of the registry under
/// the server of the configuration, by the host's own names.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    echo '{\"hook_event_name\":\"PreToolUse\",\"session_id\":\"s1\",\"tool_name\":\"Read\",\"tool_input\":{}}' | \\\n    \
    countersign hook --config gateway.toml --host claude-code --verbose")]
pub(crate) struct HookArgs {
    /// The profile with the configuration.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    profile: Option<UserProfileName>,
    /// The configuration; see `approve`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The host, which decides the format of the event.
    #[arg(long, value_name = "HOST", default_value_t = HookHost::ClaudeCode)]
    host: HookHost,
    /// The time-out that the host has for this hook. The hook ends within half of it.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    host_timeout: Millis,
    /// Write details of failures to standard error. For a person who tests the hook: the host shows the lines to its model.
    #[arg(long)]
    verbose: bool,
}

impl HookArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        out.leave_to_protocol();
        // The text of a panic is not for a model.
        panic::set_hook(Box::new(|_| ()));
        let Ok(watchdog) = Watchdog::start(self.deadline()) else { return Ok(refuse("INTERNAL")) };
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer()));
        watchdog.stop();
        Ok(match answer {
            Ok(Ok(HookAnswer::Accepted)) => Exit::Done,
            Ok(Ok(HookAnswer::Refused(text))) => {
                note(&text);
                Exit::Usage
            }
            Ok(Err(failure)) => {
                if self.verbose {
                    note(&format!("error {}: {}", failure.code(), failure.line()));
                }
                refuse(failure.code())
            }
            Err(_) => refuse("INTERNAL"),
        })
    }

    fn answer(&self) -> Result<HookAnswer, Failure> {
        let mut event = Vec::new();
        let most = u64::try_from(EVENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let input = io::stdin().lock().take(most).read_to_end(&mut event);
        input.map_err(|error| {
            Failure::new("FILE_UNREADABLE", format!("standard input cannot be read: {error}"))
        })?;
        let path = match &self.profile {
            Some(profile) => UserFolder::of_user()?.config_of(profile)?,
            None => find_config(self.config.as_deref())?,
        };
        let config = ConfigFile::read(&path)?;
        let reporter = if self.verbose { reporter() } else { Reporter::new(|_| ()) };
        Ok(decide(&config, self.host, &event, self.patience(), &reporter)?)
    }

    /// Time after which no decision counts: half of the host's.
    fn deadline(&self) -> Millis {
        part(self.host_timeout, 2)
    }

    /// Time to wait for a person. The rest of the deadline is for the decision and its record.
    fn patience(&self) -> Millis {
        part(self.host_timeout, 3)
    }
}

fn part(span: Millis, of: u64) -> Millis {
    Millis::new(span.as_millis().checked_div(of).unwrap_or(0)).unwrap_or(Millis::ZERO)
}

/// Refuses a call that could not be decided. The model sees the line, so that it has the code alone.
fn refuse(code: &str) -> Exit {
    note(&format!(
        "countersign refused: {code}: the call could not be decided; the operator can run the hook with --verbose"
    ));
    Exit::Usage
}
