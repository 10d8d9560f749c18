//! A live round trip: starts a gateway as its client would, and makes a call that it must refuse and record.

use std::ffi::OsString;
use std::path::Path;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{Millis, ToolName};
use countersign_host::config_file::ConfigFile;
use countersign_host::interrupt::Interrupt;
use countersign_host::server::{CallEnd, Server};
use countersign_host::server_part::EraName;

use super::diagnosis::Diagnoses;
use crate::command::stats::decided_since;
use crate::command::wrap::{Target, expanded};
use crate::failure::Failure;
use crate::output::internal;
use crate::time::now;

/// A tool that no registry lists.
const TOOL: &str = "countersign-doctor-probe";
/// Time limit of each answer. A server that `npx` fetches needs some.
const WAIT: Millis = Millis::from_secs(60);

/// How a client starts an entry.
pub(super) struct StartedEntry<'e> {
    pub(super) target: &'e Target,
    /// Program and arguments, the gateway's own first.
    pub(super) command: Vec<String>,
    pub(super) env: &'e [(String, String)],
    pub(super) cwd: Option<&'e str>,
}

/// Starts the gateway of a client's entry.
pub(super) fn of_entry(
    found: &mut Diagnoses,
    about: &str,
    config: &Path,
    entry: &StartedEntry<'_>,
    interrupt: &Interrupt,
) {
    let folder = entry.target.path.parent().unwrap_or_else(|| Path::new("/"));
    let command: Vec<_> = entry.command.iter().map(|part| OsString::from(expanded(part, folder))).collect();
    let env: Vec<_> = entry.env.iter().map(|(name, value)| (name.clone(), expanded(value, folder))).collect();
    let cwd = entry.cwd.map(|cwd| expanded(cwd, folder));
    let cwd = cwd.as_deref().map(Path::new).filter(|folder| folder.is_dir());
    let started = Server::start_within(&command, &env, cwd, interrupt).map_err(Failure::from);
    let config = ConfigFile::read(config).map_err(Failure::from);
    let tried = started.and_then(|server| round_trip(server, &config?));
    say(found, about, tried);
}

/// Starts the gateway of a configuration, in front of the server that this command starts.
pub(super) fn of_config(
    found: &mut Diagnoses,
    path: &Path,
    config: &ConfigFile,
    server: &[String],
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|_| internal("the path of this program is unknown"))?;
    let mut command = vec![program.into_os_string()];
    command.extend(["mcp", "run", "--config"].map(OsString::from));
    command.push(path.as_os_str().to_owned());
    if !server.is_empty() {
        command.push("--".into());
        command.extend(server.iter().map(OsString::from));
    }
    let started = Server::start(&command, interrupt).map_err(Failure::from);
    say(found, "gateway", started.and_then(|server| round_trip(server, config)));
    Ok(())
}

fn say(found: &mut Diagnoses, about: &str, tried: Result<usize, Failure>) {
    match tried {
        Ok(tools) => found.ok(&about,
            format!("the gateway starts, lists {tools} tools, and refuses and records a call that it must not make"),
        ),
        Err(failure) => found.failure(&about, &failure, None),
    }
}

/// Returns the number of tools that the gateway lists.
fn round_trip(mut gateway: Server, config: &ConfigFile) -> Result<usize, Failure> {
    let begins = now()?;
    let tried = (|| {
        let mut client = gateway.client(WAIT)?;
        client.initialize_to_list(EraName::Auto)?;
        let tools = client.list_tools()?.len();
        let tool = ToolName::new(TOOL).map_err(|_| internal("a name is not valid"))?;
        let args = read(b"{}", Recipe::Jcs1, &Limits::default()).map_err(|_| internal("no arguments"))?;
        match client.call(&tool, &args)? {
            CallEnd::Failed => Ok(tools),
            CallEnd::Returned(_) => {
                Err(Failure::new("PROBE_PASSED", "a call to an undisclosed tool was not refused"))
            }
        }
    })();
    gateway.end();
    let tools = tried?;
    let folder = config.named_files().record.folder;
    if decided_since(&folder, begins)?.refused == 0 {
        let text = "the refusal of a call to an undisclosed tool is not in the record";
        return Err(Failure::new("PROBE_UNRECORDED", text).about(folder.display()));
    }
    Ok(tools)
}
