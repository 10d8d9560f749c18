use countersign_approval_token::PendingApprovals as _;
use countersign_clients::ServerStart;
use countersign_host::config_file::ConfigFile;
use countersign_host::home::UserFolder;
use countersign_host::questions::QuestionQueue;
use serde_json::json;

use super::file::OpenClientFile;
use super::targets::targets;
use crate::failure::{Exit, Failure, one_line};
use crate::output::{Output, counted};
use crate::time::now;

/// Shows which servers of which clients are protected, and how many questions wait. Servers without a gateway make the exit code 3.
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
            let (state, profile) = match server.start() {
                ServerStart::Gateway { profile, .. } => {
                    match profile.parse().map(|name| home.config_of(&name)) {
                        Ok(Ok(_)) => ("protected", Some(profile.clone())),
                        _ => ("broken: its profile is missing or open to others", Some(profile.clone())),
                    }
                }
                ServerStart::Command { .. } => ("open", None),
                ServerStart::Url(_) => ("open: by URL, which is not supported yet", None),
                ServerStart::Unknown => ("open: neither a command nor a URL", None),
            };
            rows.push((file.target.client.clone(), one_line(server.name()), state, profile));
        }
    }
    let waiting = waiting(&home)?;
    let open = rows.iter().filter(|(_, _, state, _)| *state != "protected").count();
    if out.is_json() {
        let rows: Vec<_> = rows.iter().map(|(client, server, state, profile)| json!({"client": client, "server": server, "state": state, "profile": profile})).collect();
        out.json(&json!({"ok": open == 0, "servers": rows, "waiting": waiting}))?;
    } else {
        for (client, server, state, _) in &rows {
            out.line(&format!("{client:<16} {server:<24} {state}"))?;
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

/// Counts the questions that wait in the store that all profiles share.
fn waiting(home: &UserFolder) -> Result<u64, Failure> {
    let profiles = home.profiles()?;
    let Some(first) = profiles.first().filter(|_| home.store().exists()) else { return Ok(0) };
    let config = ConfigFile::read(&first.config())?;
    let Some(queue) = QuestionQueue::open(&config)? else { return Ok(0) };
    Ok(u64::try_from(queue.store().list(now()?)?.len()).unwrap_or(u64::MAX))
}
