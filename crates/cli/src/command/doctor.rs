mod clients;
mod diagnosis;
mod files;
mod hooks;
mod mend;
mod probe;
mod record;

use std::path::PathBuf;

use clap::Args;
use countersign_host::home::{UserFolder, UserProfileName};
use countersign_host::server_part::ServerPart;
use serde_json::json;

use self::clients::check_clients;
use self::diagnosis::{Diagnoses, HealthLevel};
use self::files::{check_config, check_home};
use self::hooks::check_hooks;
use crate::command::wrap::places;
use crate::failure::{Exit, Failure};
use crate::output::{Output, counted, watch_signals};

/// Check keys, registry, record, clients and hooks, and name the command that mends each fault.
///
/// Looks at the profiles that `wrap` made and at the clients' configurations, or at one configuration. Then starts each entry as its
/// client would and calls a tool that does not exist: the gateway must refuse the call and record it. Changes nothing else. The exit
/// code is 3 if anything is wrong.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign doctor\n  countersign doctor --config gateway.toml -- npx -y @modelcontextprotocol/server-filesystem /srv/docs"
)]
pub(crate) struct Doctor {
    /// Check this configuration alone.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    config: Option<PathBuf>,
    /// Check this profile of `wrap` alone.
    #[arg(long, value_name = "NAME")]
    profile: Option<UserProfileName>,
    /// Check this client's configuration besides those that are found.
    #[arg(long = "client", value_name = "FILE")]
    clients: Vec<PathBuf>,
    /// Start no server.
    #[arg(long)]
    no_start: bool,
    /// Command that starts the server of --config, for the call that must be refused. A configuration with a URL needs none.
    #[arg(last = true, value_name = "COMMAND", requires = "config")]
    command: Vec<String>,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut found = Diagnoses::default();
        let interrupt = watch_signals()?;
        let starts = (!self.no_start).then_some(&interrupt);
        if let Some(config) = &self.config {
            let usable = check_config(&mut found, config, None);
            if let (Some(usable), Some(interrupt)) = (usable, starts)
                && (!self.command.is_empty() || usable.server.all().iter().all(ServerPart::is_complete))
            {
                probe::of_config(&mut found, config, &usable, &self.command, interrupt)?;
            }
        } else {
            let home = UserFolder::of_user()?;
            check_home(&mut found, &home);
            let named = self.profile.as_ref();
            let profiles: Vec<_> = match named {
                Some(name) => vec![home.profile(name)],
                None => home.profiles()?,
            };
            for profile in &profiles {
                check_config(&mut found, &profile.config(), Some((&home, profile)));
            }
            check_hooks(&mut found, &home, &places()?);
            check_clients(&mut found, &home, &self.clients, named, starts)?;
        }
        report(out, &found)
    }
}

fn report(out: &mut Output, found: &Diagnoses) -> Result<Exit, Failure> {
    let count = |level| found.iter().filter(|one| one.level == level).count();
    let (errors, warnings) = (count(HealthLevel::Error), count(HealthLevel::Warning));
    if out.is_json() {
        let all: Vec<_> = found.iter().collect();
        out.json(
            &json!({"ok": errors == 0 && warnings == 0, "errors": errors, "warnings": warnings, "findings": all}),
        )?;
    } else {
        for one in found.iter() {
            out.leveled(&one.line())?;
            if let Some(mend) = &one.mend {
                out.line(&format!("         mend: {mend}"))?;
            }
        }
        let number = |count: usize, what| counted(u64::try_from(count).unwrap_or(u64::MAX), what);
        out.line(&format!("{}, {}", number(errors, "error"), number(warnings, "warning")))?;
    }
    Ok(if errors == 0 && warnings == 0 { Exit::Done } else { Exit::Refused })
}
