use std::path::Path;

use countersign_approval_token::PendingApprovals as _;
use countersign_clients::ServerStart;
use countersign_core::{Millis, Timestamp};
use countersign_host::config_file::ConfigFile;
use countersign_host::home::UserFolder;
use countersign_host::questions::QuestionQueue;
use serde_json::json;

use super::file::{OpenClientFile, read_client_text};
use super::hook::installed_hook;
use super::targets::targets;
use crate::command::stats::{Decided, decided_since};
use crate::failure::{Exit, Failure, one_line};
use crate::look::cell;
use crate::output::{Output, counted};
use crate::time::now;

/// Time that the counted decisions go back.
const COUNTED: Millis = Millis::from_secs(24 * 60 * 60);

/// Shows which servers of which clients are protected, their decisions of the last day, and how many questions wait. Servers
/// without a gateway make the exit code 3.
pub(crate) fn status(out: &mut Output) -> Result<Exit, Failure> {
    let home = UserFolder::of_user()?;
    let mut rows = Vec::new();
    let found = match targets(None) {
        Ok(found) => found,
        Err(failure) if failure.code() == "CLIENT_FILE_MISSING" => Vec::new(),
        Err(failure) => return Err(failure),
    };
    for target in found {
        let file = OpenClientFile::open(target)?;
        for server in file.content.servers() {
            let (state, profile, decided) = match server.start() {
                ServerStart::Gateway { profile, .. } => {
                    let config = profile.parse().ok().and_then(|name| home.config_of(&name).ok());
                    let decided = config.as_deref().map(decided).transpose()?;
                    let broken = "broken: its profile is missing or open to others";
                    (decided.map_or(broken, |_| "protected"), Some(profile.clone()), decided)
                }
                ServerStart::Command { .. } | ServerStart::Url { .. } => ("open", None, None),
                ServerStart::Unknown => ("open: neither a command nor a URL", None, None),
            };
            rows.push((file.target.client.clone(), one_line(server.name()), state, profile, decided));
        }
    }
    for profile in home.profiles()? {
        let Some((entry, hook)) = installed_hook(&profile) else { continue };
        let settings = read_client_text(Path::new(&entry.file)).unwrap_or_default();
        let state = if settings.contains(&hook) { "protected" } else { "open: its hook was taken away" };
        let decided = home.config_of(profile.name()).ok().as_deref().map(decided).transpose()?;
        rows.push((entry.client, entry.server, state, Some(profile.name().to_string()), decided));
    }
    let waiting = waiting(&home)?;
    let open = rows.iter().filter(|(_, _, state, ..)| *state != "protected").count();
    if out.is_json() {
        let row = |(client, server, state, profile, decided): &(_, _, _, _, _)| json!({"client": client, "server": server, "state": state, "profile": profile, "decided_in_24h": decided});
        let rows: Vec<_> = rows.iter().map(row).collect();
        out.json(&json!({"ok": open == 0, "servers": rows, "waiting": waiting}))?;
    } else {
        for (client, server, state, _, decided) in &rows {
            let decided = decided.map(|it| {
                format!("; in 24 h {} accepted, {} refused, {} waited", it.accepted, it.refused, it.waited)
            });
            let (client, server) = (cell(client, 16), cell(server, 24));
            out.line(&format!("{client} {server} {state}{}", decided.unwrap_or_default()))?;
        }
        if rows.is_empty() {
            out.line("no server of an MCP client was found")?;
        }
        out.line(&format!("{} wait; `countersign approve list` shows them", counted(waiting, "question")))?;
        if open > 0 {
            out.line("Next: `countersign wrap --all`")?;
        }
    }
    Ok(if open > 0 { Exit::Refused } else { Exit::Done })
}

/// Counts the decisions of the last day in a profile's record.
fn decided(config: &Path) -> Result<Decided, Failure> {
    let folder = ConfigFile::read(config)?.record_folder().filter(|folder| folder.exists());
    let since = now()?.as_millis().saturating_sub(COUNTED.as_millis());
    let since = Timestamp::from_millis(since).unwrap_or(Timestamp::EPOCH);
    folder.map_or_else(|| Ok(Decided::default()), |folder| decided_since(&folder, since))
}

/// Counts the questions that wait in the store that all profiles share.
fn waiting(home: &UserFolder) -> Result<u64, Failure> {
    let profiles = home.profiles()?;
    let Some(first) = profiles.first().filter(|_| home.store().exists()) else { return Ok(0) };
    let config = ConfigFile::read(&first.config())?;
    let Some(queue) = QuestionQueue::open(&config)? else { return Ok(0) };
    Ok(u64::try_from(queue.store().list(now()?)?.len()).unwrap_or(u64::MAX))
}
