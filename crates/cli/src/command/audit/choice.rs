use clap::Args;
use countersign_audit_log::LogNumber;

use super::log::ProvableLog;
use crate::failure::Failure;

/// Choice of one log of a folder that has several.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LogChoice {
    /// Read this log of the folder alone: its number, or a dot for the log in the folder itself. All logs without it.
    #[arg(long = "log", value_name = "NAME", value_parser = name)]
    number: Option<LogNumber>,
}

impl LogChoice {
    pub(super) const fn number(self) -> Option<LogNumber> {
        self.number
    }
}

fn name(text: &str) -> Result<LogNumber, String> {
    if text == "." {
        return Ok(LogNumber::FIRST);
    }
    text.parse().map_err(|_| "neither a dot nor the number of a log".to_owned())
}

/// Returns the one log that contains an entry or a size.
///
/// # Errors
/// `AUDIT_SEVERAL_LOGS` if several logs contain it; the failure of `none` if no log does.
pub(super) fn only_one(
    logs: Vec<ProvableLog>,
    has: impl Fn(&ProvableLog) -> bool,
    none: impl Fn(&ProvableLog) -> Failure,
) -> Result<ProvableLog, Failure> {
    let missing = logs.iter().max_by_key(|log| log.records()).map(none);
    let mut found: Vec<_> = logs.into_iter().filter(has).collect();
    match found.pop() {
        Some(log) if found.is_empty() => Ok(log),
        Some(last) => {
            let names: Vec<_> = found.iter().map(|log| log.number.to_string()).collect();
            let text =
                format!("logs {} and {} have it, choose one with --log", names.join(", "), last.number);
            Err(Failure::new("AUDIT_SEVERAL_LOGS", text))
        }
        None => Err(missing.unwrap_or_else(|| Failure::new("AUDIT_MISSING", "no log in the folder"))),
    }
}
