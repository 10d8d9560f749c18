//! The configurations of MCP clients: is the gateway in front of each server, and does it start?

use std::path::{Path, PathBuf};

use countersign_clients::{ClientServer, ServerStart};
use countersign_host::home::{UserFolder, UserProfileName};
use countersign_host::interrupt::Interrupt;

use super::diagnosis::Diagnoses;
use super::mend::quoted;
use super::probe;
use crate::command::wrap::{OpenClientFile, Target, targets};
use crate::failure::{Failure, one_line};

/// Checks the clients' configurations that are found, and those that are named.
pub(super) fn check_clients(
    found: &mut Diagnoses,
    home: &UserFolder,
    named: &[PathBuf],
    only: Option<&UserProfileName>,
    starts: Option<&Interrupt>,
) -> Result<(), Failure> {
    let mut all = match targets(None) {
        Ok(all) => all,
        Err(failure) if failure.code() == "CLIENT_FILE_MISSING" => Vec::new(),
        Err(failure) => return Err(failure),
    };
    for path in named {
        let text = path.to_str().ok_or_else(|| Failure::usage("a path is not UTF-8"))?;
        all.extend(targets(Some(text))?);
    }
    for target in all {
        let path = target.path.clone();
        match OpenClientFile::open(target) {
            Ok(file) => {
                for server in file.content.servers() {
                    check_entry(found, home, &file.target, server, only, starts)?;
                }
            }
            Err(failure) => {
                let mend = match failure.code() {
                    "CLIENT_FILE_READ_ONLY" => Some(format!("chmod u+w {}", quoted(&path))),
                    _ => None,
                };
                found.failure(&path.display(), &failure, mend);
            }
        }
    }
    Ok(())
}

fn check_entry(
    found: &mut Diagnoses,
    home: &UserFolder,
    target: &Target,
    server: &ClientServer,
    only: Option<&UserProfileName>,
    starts: Option<&Interrupt>,
) -> Result<(), Failure> {
    let about = format!("{}: {}", target.client, one_line(server.name()));
    let file = quoted(&target.path);
    let (profile, command, env, cwd) = match server.start() {
        ServerStart::Gateway { profile, gateway, command, env, cwd } => {
            let mut whole = vec![gateway.clone()];
            whole.extend(["mcp", "run", "--profile", profile.as_str()].map(str::to_owned));
            let dashes = (!command.is_empty()).then(|| "--".to_owned());
            whole.extend(dashes.into_iter().chain(command.iter().cloned()));
            (profile, whole, env, cwd)
        }
        ServerStart::Command { .. } | ServerStart::Url { .. } if only.is_none() => {
            let text = "no gateway is in front of this server";
            found.warning(&about, "ENTRY_OPEN", text, Some(format!("countersign wrap {file}")));
            return Ok(());
        }
        ServerStart::Unknown if only.is_none() => {
            found.warning(&about, "ENTRY_UNKNOWN", "neither a command nor a URL", None);
            return Ok(());
        }
        ServerStart::Command { .. } | ServerStart::Url { .. } | ServerStart::Unknown => return Ok(()),
    };
    if only.is_some_and(|only| only.to_string() != *profile) {
        return Ok(());
    }
    let again = Some(format!("countersign unwrap {file} && countersign wrap {file}"));
    let program = command.first().map(Path::new);
    if program.is_some_and(|program| program.is_absolute() && !program.exists()) {
        let text =
            format!("its program is gone: {}", one_line(&command.first().cloned().unwrap_or_default()));
        found.error(&about, "ENTRY_PROGRAM", text, again);
        return Ok(());
    }
    let config = match profile.parse().map(|name| home.config_of(&name)) {
        Ok(Ok(config)) => config,
        Ok(Err(error)) | Err(error) => {
            let failure = Failure::from(error);
            // A folder that is open to others has a finding of its own.
            let mend = again.filter(|_| failure.code() == "PROFILE_UNKNOWN");
            found.failure(&about, &failure, mend);
            return Ok(());
        }
    };
    match starts {
        Some(interrupt) => {
            let started = probe::StartedEntry { target, command, env, cwd: cwd.as_deref() };
            probe::of_entry(found, &about, &config, &started, interrupt);
        }
        None => found.ok(&about, format!("the gateway is in front of it, profile {profile}")),
    }
    Ok(())
}
