mod by_url;
mod file;
mod hook;
mod profile;
mod remove;
mod status;
mod targets;
mod variables;

use clap::Args;
use countersign_clients::{ClientApp, ClientFile, ClientServer, ServerStart};
use countersign_core::{Millis, Timestamp};
use countersign_host::config_file::LONGEST_OBSERVE;
use countersign_host::home::UserFolder;
use countersign_host::interrupt::Interrupt;
use serde_json::json;

use self::by_url::UrlServer;
use self::file::write_client;
use self::hook::{HookSettings, NoHook};
use self::profile::{DraftedEntry, HOOK, set_approval, tools_of};
use crate::failure::{Exit, Failure, one_line};
use crate::look::cell;
use crate::output::{Output, ask_at_terminal, note, watch_signals};
use crate::time::now;

pub(crate) use self::file::OpenClientFile;
pub(crate) use self::profile::client_file_of;
pub(crate) use self::remove::Unwrap;
pub(crate) use self::status::status;
use self::targets::program;
pub(crate) use self::targets::{Target, places, targets};
pub(crate) use self::variables::expanded;

/// Put the gateway in front of a client's servers.
///
/// Starts or reaches each server of the client's configuration, lists its tools, sorts them by what they may do, shows them, signs a
/// registry, and puts `countersign mcp run` in front of the server's command or in the place of its URL. For Claude Code and Cursor, a hook
/// in the project's settings guards the tools of their own. All else keeps its bytes, and `unwrap` takes gateway and hook away again. A
/// server that stays open is named with the reason, and the exit code is 3.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign wrap claude-code\n  countersign wrap .vscode/mcp.json --dry-run\n  \
    countersign wrap --status"
)]
pub(crate) struct Wrap {
    /// claude-code, claude-desktop, cursor, vscode, codex, or a configuration file.
    #[arg(value_name = "CLIENT|FILE", required_unless_present_any = ["all", "status"])]
    target: Option<String>,
    /// All clients whose configurations are found, of the user and of the project in this folder.
    #[arg(long, conflicts_with = "target")]
    all: bool,
    /// Show which servers are protected, and change nothing.
    #[arg(long, conflicts_with_all = ["target", "all", "dry_run", "yes"])]
    status: bool,
    /// Show what would be signed and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Observe for this time, 31d at most, then enforce: until then calls run that only lack an approval, a rate or a constraint.
    #[arg(long, value_name = "SPAN", conflicts_with = "status")]
    observe: Option<Millis>,
    /// Install no hook for the client's own tools.
    #[arg(long, conflicts_with = "status")]
    no_hook: bool,
    /// How long to wait for each answer of a server.
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    wait: Millis,
}

/// A server that stays as it is, and why.
struct StillOpen {
    server: String,
    why: String,
}

/// A server or a hook whose registry was drafted.
struct Drafted {
    what: DraftedPlace,
    entry: DraftedEntry,
}

/// Where the gateway or the hook goes.
enum DraftedPlace {
    /// In front of a server, in the file of this number.
    Server(usize, Box<ClientServer>),
    Hook(HookSettings),
}

impl Drafted {
    fn name(&self) -> &str {
        match &self.what {
            DraftedPlace::Server(_, server) => server.name(),
            DraftedPlace::Hook(_) => HOOK,
        }
    }
}

impl Wrap {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if self.status {
            return status(out);
        }
        // why: first, so that nothing is signed for entries that no later run would recognise.
        program()?;
        let home = UserFolder::of_user()?;
        let observe_until = self.observe.map(end_of_observe).transpose()?;
        let hooks = if self.no_hook { Vec::new() } else { hooks(self.target.as_deref())? };
        let targets = match targets(self.target.as_deref()) {
            Err(failure) if failure.code() == "CLIENT_FILE_MISSING" && !hooks.is_empty() => Vec::new(),
            targets => targets?,
        };
        let files = targets.into_iter().map(OpenClientFile::open).collect::<Result<Vec<_>, _>>()?;
        if !self.yes && !self.dry_run {
            ask_at_terminal_is_possible()?;
        }
        let interrupt = watch_signals()?;
        let (mut drafted, mut open, mut before) = (Vec::new(), Vec::new(), 0_usize);
        for (place, file) in files.iter().enumerate() {
            for server in file.content.servers() {
                match self.draft(&home, &file.target, server, &interrupt) {
                    Ok(Some(entry)) => {
                        drafted.push(Drafted {
                            what: DraftedPlace::Server(place, Box::new(server.clone())),
                            entry,
                        });
                    }
                    Ok(None) => before = before.saturating_add(1),
                    Err(why) => open.push(StillOpen { server: server.name().to_owned(), why }),
                }
            }
        }
        for hook in hooks {
            match hook {
                Ok(hook) => {
                    let guarded = guarded(&home, &hook, &files, &drafted)?;
                    if hook.is_installed && drafted.is_empty() {
                        before = before.saturating_add(1);
                        continue;
                    }
                    let entry = hook.draft(&home, &places()?, &guarded)?;
                    drafted.push(Drafted { what: DraftedPlace::Hook(hook), entry });
                }
                Err(why) => open.push(StillOpen { server: HOOK.to_owned(), why }),
            }
        }
        if !out.is_json() {
            out.line(&lists(&drafted))?;
        }
        let mut wrapped = Vec::new();
        let goes_on = !self.dry_run && !drafted.is_empty() && (self.yes || moved(out, &mut drafted)?);
        if goes_on {
            home.prepare()?;
            for one in &drafted {
                one.entry.sign(&home, observe_until)?;
            }
            for (place, file) in files.iter().enumerate() {
                write_client(file, &one_file(&home, &file.content, place, &drafted)?)?;
            }
            for one in &drafted {
                if let DraftedPlace::Hook(hook) = &one.what {
                    hook.install(&home, &one.entry)?;
                }
                wrapped.push(one);
            }
        }
        report(out, &wrapped, &open, before, observe_until)?;
        Ok(if open.is_empty() { Exit::Done } else { Exit::Refused })
    }

    /// Drafts the registry of one server; `None` if the gateway is in front of it already.
    fn draft(
        &self,
        home: &UserFolder,
        target: &Target,
        server: &ClientServer,
        interrupt: &Interrupt,
    ) -> Result<Option<DraftedEntry>, String> {
        match server.start() {
            ServerStart::Gateway { .. } => Ok(None),
            ServerStart::Url { .. } if !server.can_be_wrapped() => {
                Err("its entry has more than a URL, which `wrap` cannot move".to_owned())
            }
            ServerStart::Url { url, transport, headers } => {
                let by_url = UrlServer::of(url, transport.as_deref(), headers, target.folder())?;
                DraftedEntry::draft(home, target, server, Some(by_url), self.wait, interrupt)
                    .map(Some)
                    .map_err(|failure| format!("no registry of it: {}: {}", failure.code(), failure.line()))
            }
            ServerStart::Unknown => Err("it has neither a command nor a URL".to_owned()),
            ServerStart::Command { .. } => {
                DraftedEntry::draft(home, target, server, None, self.wait, interrupt)
                    .map(Some)
                    .map_err(|failure| format!("it does not start: {}: {}", failure.code(), failure.line()))
            }
        }
    }
}

fn end_of_observe(span: Millis) -> Result<Timestamp, Failure> {
    let wrong = || Failure::new("CONFIG_OBSERVE", "--observe is a time from 1s to 31d");
    if span == Millis::ZERO || span > LONGEST_OBSERVE {
        return Err(wrong());
    }
    now()?.checked_add(span).map_err(|_| wrong())
}

fn ask_at_terminal_is_possible() -> Result<(), Failure> {
    use std::io::IsTerminal as _;
    if std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::new("NOT_A_TERMINAL", "no terminal to ask on: use a terminal, --dry-run, or --yes"))
}

/// Returns the hooks to install; an error is a host whose tools stay open, and why.
fn hooks(target: Option<&str>) -> Result<Vec<Result<HookSettings, String>>, Failure> {
    let apps = match target.map(str::parse::<ClientApp>) {
        Some(Ok(app)) => vec![app],
        Some(Err(())) => Vec::new(),
        None => ClientApp::ALL.to_vec(),
    };
    let places = places()?;
    let hooks = apps.into_iter().filter_map(|app| match HookSettings::of(app, &places) {
        Ok(hook) => Some(Ok(hook)),
        Err(NoHook::Open(why)) => Some(Err(why)),
        Err(NoHook::NotNeeded) => None,
    });
    Ok(hooks.collect())
}

/// Returns the tools of a hook's client that have a gateway or get one, by the client's own names.
fn guarded(
    home: &UserFolder,
    hook: &HookSettings,
    files: &[OpenClientFile],
    drafted: &[Drafted],
) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for (place, file) in files.iter().enumerate().filter(|(_, file)| hook.is_of(&file.target.client)) {
        for server in file.content.servers() {
            if let ServerStart::Gateway { profile, .. } = server.start()
                && let Ok(profile) = profile.parse()
            {
                let tools = tools_of(&home.profile(&profile))?;
                names.extend(tools.iter().map(|tool| hook.name_of(server.name(), tool)));
            }
        }
        for one in drafted {
            if let DraftedPlace::Server(of, server) = &one.what
                && *of == place
            {
                names.extend(one.entry.tools.iter().map(|tool| hook.name_of(server.name(), &tool.name)));
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Puts the gateway in front of the drafted servers of one file.
fn one_file(
    home: &UserFolder,
    content: &ClientFile,
    place: usize,
    drafted: &[Drafted],
) -> Result<ClientFile, Failure> {
    let mut content = content.clone();
    for Drafted { what, entry } in drafted {
        let DraftedPlace::Server(of, server) = what else { continue };
        if *of != place {
            continue;
        }
        let same =
            |other: &&ClientServer| other.name() == server.name() && other.project() == server.project();
        let now = content.servers().iter().find(same).cloned();
        let now = now.ok_or_else(|| Failure::new("CLIENT_FILE_SERVER", "a server is missing"))?;
        let (next, wrapping) = content.wrap(&now, &program()?, &entry.profile.to_string())?;
        entry.keep(home, Some(wrapping), None)?;
        content = next;
    }
    Ok(content)
}

/// The four lists of tools, numbered over all servers.
fn lists(drafted: &[Drafted]) -> String {
    let mut text = String::new();
    for tier in countersign_registry::ToolTier::ALL {
        let tools: Vec<_> = numbered(drafted).filter(|(_, _, tool)| tool.tier == tier).collect();
        if tools.is_empty() {
            continue;
        }
        let rule = if tier.is_free() { "runs without an approval" } else { "a person approves each call" };
        text.push_str(&format!("\n{tier} ({rule})\n"));
        for (number, one, tool) in tools {
            let moved = if tool.free == tier.is_free() {
                ""
            } else if tool.free {
                "  [runs without an approval]"
            } else {
                "  [a person approves each call]"
            };
            let about = &tool.description;
            let orders = if tool.gives_orders { "  ! reads like an order to the model" } else { "" };
            text.push_str(&format!(
                "  {number:>3}  {}: {}  {about}{orders}{moved}\n",
                one_line(one.name()),
                tool.name
            ));
        }
    }
    text.trim_end().to_owned()
}

fn numbered(drafted: &[Drafted]) -> impl Iterator<Item = (usize, &Drafted, &profile::DraftedTool)> {
    let tools = drafted.iter().flat_map(|one| one.entry.tools.iter().map(move |tool| (one, tool)));
    (1..).zip(tools).map(|(number, (one, tool))| (number, one, tool))
}

/// Lets a person move tools; returns `false` if nothing may be signed.
fn moved(out: &mut Output, drafted: &mut [Drafted]) -> Result<bool, Failure> {
    loop {
        out.flush()?;
        let typed = ask_at_terminal(
            "\nEnter signs this. `f 3 4` lets tools 3 and 4 run without an approval, `a 3` asks a person, `q` changes nothing: ",
        )?;
        let mut words = typed.split_whitespace();
        let free = match words.next() {
            None if typed.ends_with('\n') => return Ok(true),
            Some("f") => true,
            Some("a") => false,
            Some("q") | None => return Ok(false),
            Some(_) => {
                note("not understood");
                continue;
            }
        };
        for word in words {
            let place = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let mut tools = drafted.iter_mut().flat_map(|one| &mut one.entry.draft_tools);
            let mut shown = 0;
            let known =
                place.is_some_and(|place| tools.nth(place).is_some_and(|tool| set_approval(tool, free)));
            for one in drafted.iter_mut() {
                for tool in &mut one.entry.tools {
                    if known && Some(shown) == place {
                        tool.free = free;
                    }
                    shown = shown.saturating_add(1);
                }
            }
            if !known {
                note(&format!("no tool {}", one_line(word)));
            }
        }
        out.line(&lists(drafted))?;
    }
}

fn report(
    out: &mut Output,
    wrapped: &[&Drafted],
    open: &[StillOpen],
    before: usize,
    observe_until: Option<Timestamp>,
) -> Result<(), Failure> {
    if out.is_json() {
        let tools = wrapped.iter().flat_map(|one| {
            one.entry.tools.iter().map(|tool| {
                json!({"server": one.name(), "profile": one.entry.profile.to_string(), "tool": tool.name,
                    "tier": tool.tier, "approval": if tool.free { "not_required" } else { "required" }})
            })
        });
        let open = open.iter().map(|one| json!({"server": one.server, "why": one.why}));
        return out.json(&json!({
            "ok": open.len() == 0, "tools": tools.collect::<Vec<_>>(), "still_open": open.collect::<Vec<_>>(), "protected_before": before,
            "observe_until": observe_until.filter(|_| !wrapped.is_empty()),
        }));
    }
    if !wrapped.is_empty() {
        out.line(&format!("\n{:<20} {:<32} {:<22} approval", "server", "tool", "tier"))?;
        for one in wrapped {
            for tool in &one.entry.tools {
                let approval = if tool.free { "no" } else { "each call" };
                let row = [(one_line(one.name()), 20), (tool.name.clone(), 32), (tool.tier.to_string(), 22)];
                let row = row.map(|(text, columns)| cell(&text, columns)).join(" ");
                out.line(&format!("{row} {approval}"))?;
            }
        }
    }
    for StillOpen { server, why } in open {
        out.line(&format!("still open: {}: {why}", one_line(server)))?;
    }
    if wrapped.is_empty() {
        return out.line(&format!("nothing was changed; {before} protected before"));
    }
    if let Some(until) = observe_until {
        out.line(&format!(
            "\nUntil {until} calls run that only lack an approval, a rate or a constraint, and the record says so. Then the gateway enforces."
        ))?;
    }
    out.line(
        "\nNext: restart the client. A refused call names an id, and `countersign approve ID` answers it.",
    )
}
