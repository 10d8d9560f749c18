use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use countersign_core::{Millis, Timestamp, escape_hidden};
use countersign_tool_gate::AlarmRule;
use serde_json::{Map, Value, json};
use terminal_size::{Height, Width, terminal_size_of};

use super::graph::{TerminalStyle, alarm, picture, signals};
use super::history::{Fresh, History};
use super::percent;
use countersign_host::entries::Entry;

use crate::command::audit::Followers;
use crate::failure::{Exit, Failure};
use crate::output::closed;
use crate::time::now;

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(200);

/// Assumed size of a terminal that does not report its own.
const USUAL: (usize, usize) = (80, 24);

/// Form of the display.
#[derive(Debug)]
enum DisplayForm {
    /// A picture, drawn over the previous one, which had `lines` lines.
    Picture { coloured: bool, lines: usize },
    /// One line of text per interval.
    Lines,
    /// One line of JSON per interval.
    Json,
}

/// State of the reader of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayReader {
    There,
    Gone,
}

/// Follows a log and displays its decisions until it is interrupted or the reader closes the output. The terminal needs
/// no restoring at any moment.
pub(super) fn watch(
    folder: &Path,
    rule: AlarmRule,
    since: Option<Timestamp>,
    interval: Millis,
    is_json: bool,
) -> Result<Exit, Failure> {
    let about = |failure: Failure| failure.about(folder.display());
    let mut followers = Followers::start(folder).map_err(about)?;
    let mut history = History::new(rule, since, interval);
    let mut show = DisplayForm::new(is_json);
    let pauses = u128::from(interval.as_millis()).checked_div(PAUSE.as_millis()).unwrap_or_default();
    let mut left = 0;
    loop {
        let mut is_new = false;
        while let Some(Entry { seq, record, .. }) = followers.next_entry().map_err(about)? {
            is_new |= history.add(seq, &record);
        }
        let is_due = left == 0;
        if (is_due || (is_new && matches!(show, DisplayForm::Picture { .. })))
            && show.show(&mut history, now()?)? == DisplayReader::Gone
        {
            return Ok(Exit::Done);
        }
        left = if is_due { pauses } else { left }.saturating_sub(1);
        sleep(PAUSE);
    }
}

impl DisplayForm {
    fn new(is_json: bool) -> Self {
        let says = |name: &str, what: &str| std::env::var_os(name).is_some_and(|value| value == what);
        if is_json {
            Self::Json
        } else if io::stdout().is_terminal() && !says("TERM", "dumb") {
            let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            Self::Picture { coloured, lines: 0 }
        } else {
            Self::Lines
        }
    }

    fn show(&mut self, history: &mut History, now: Timestamp) -> Result<DisplayReader, Failure> {
        let text = match self {
            Self::Picture { coloured, lines } => {
                let size = terminal_size_of(io::stdout());
                let size = size.map_or(USUAL, |(Width(width), Height(height))| (width.into(), height.into()));
                let look = TerminalStyle { width: size.0, height: size.1, coloured: *coloured };
                let picture = picture(history, now, look);
                // Moves up over the old picture, at most by the height of the terminal.
                let up = (*lines).min(size.1.saturating_sub(1));
                let up = if up > 0 { format!("\u{1b}[{up}A") } else { String::new() };
                *lines = picture.len();
                let picture: String = picture.iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
                format!("{up}\r{picture}\u{1b}[J")
            }
            Self::Lines => line(history, now),
            Self::Json => json_line(history, now),
        };
        let mut to = io::stdout().lock();
        match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
            Ok(()) => Ok(DisplayReader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(DisplayReader::Gone),
            Err(error) => Err(closed(&error)),
        }
    }
}

/// Formats the decisions since the previous line.
pub(super) fn line(history: &mut History, now: Timestamp) -> String {
    let agents: Vec<_> = history
        .take_fresh()
        .into_iter()
        .map(|fresh| {
            let (agent, tally, share) =
                (escape_hidden(fresh.agent), fresh.tally, percent(fresh.tally.rate()));
            let alarm = fresh.alarm.map(|found| format!(", {}", alarm(&found))).unwrap_or_default();
            let signals = signals(&fresh.signals);
            format!("{agent} {share} ({} of {}{alarm}{signals})", tally.accepted, tally.decided)
        })
        .collect();
    let agents = if agents.is_empty() { "no decisions".to_owned() } else { agents.join("; ") };
    format!("{now}  {agents}\n")
}

pub(super) fn json_line(history: &mut History, now: Timestamp) -> String {
    let agents: Map<String, Value> = history
        .take_fresh()
        .into_iter()
        .map(|fresh| {
            let Fresh { agent, tally, signals, alarm } = fresh;
            let (accepted, decided, rate) = (tally.accepted, tally.decided, tally.rate());
            let mut told =
                json!({"accepted": accepted, "decided": decided, "acceptance_rate": rate, "alarm": alarm});
            if let (Some(members), false) = (told.as_object_mut(), signals.is_empty()) {
                members.insert("signals".to_owned(), json!(signals));
            }
            (agent.to_owned(), told)
        })
        .collect();
    format!("{}\n", json!({"time": now, "agents": agents}))
}
