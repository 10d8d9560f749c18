use countersign_core::Timestamp;

use super::alarm::ReplayResult;
use super::count::{SignalCounts, percent};
use super::history::{DecisionCounts, History, Strip};

/// Blocks from none accepted to all accepted.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Most columns of a name.
const MAX_NAME: usize = 24;

/// Columns after the blocks: two spaces, the share, two spaces, and the longest word of the alarm. Signals are rare and
/// take their columns from the blocks.
const BEHIND: usize = 2 + 6 + 2 + 11;

/// Escape codes for the row of an agent whose alarm is raised.
const RED: (&str, &str) = ("\u{1b}[31m", "\u{1b}[0m");

/// Size and colours of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminalStyle {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) coloured: bool,
}

/// Draws one picture: a heading, and a row for each agent, none wider than the terminal. The last line of the terminal
/// stays free.
pub(super) fn picture(history: &History, now: Timestamp, look: TerminalStyle) -> Vec<String> {
    // Some terminals start a new line after a full last column.
    let width = look.width.saturating_sub(1);
    let all = history.strips(width, now);
    let room = look.height.saturating_sub(2).max(1);
    let shown = if all.len() > room { room.saturating_sub(1) } else { all.len() };
    let (strips, left_out) = all.split_at_checked(shown).unwrap_or((&all, &[]));
    let names: Vec<_> =
        strips.iter().map(|strip| name(strip.agent, width.div_euclid(3).min(MAX_NAME))).collect();
    let name_width = names.iter().map(String::len).max().unwrap_or_default();
    let signals_width = strips.iter().map(|strip| signals(&strip.signals).len()).max().unwrap_or_default();
    let blocks = [name_width, 2, BEHIND, signals_width].into_iter().fold(width, usize::saturating_sub);
    let heading = format!("accepted in each {}, newest on the right; {now}", history.interval());
    let mut lines = vec![cut(&heading, width)];
    for (strip, name) in strips.iter().zip(names) {
        let line = cut(&row(strip, &format!("{name:name_width$}"), blocks), width);
        let (before, after) = if look.coloured && strip.is_alarming() { RED } else { ("", "") };
        lines.push(format!("{before}{line}{after}"));
    }
    if all.is_empty() {
        lines.push(cut("no decisions yet", width));
    }
    if !left_out.is_empty() {
        lines.push(cut(&format!("and {} more", left_out.len()), width));
    }
    lines
}

fn row(strip: &Strip<'_>, name: &str, blocks: usize) -> String {
    let start = strip.intervals.len().saturating_sub(blocks);
    let shown = strip.intervals.get(start..).unwrap_or_default();
    let graph: String = shown.iter().map(|tally| tally.rate().map_or(' ', block)).collect();
    let share = shown.iter().fold(DecisionCounts::default(), |sum, tally| sum.plus(*tally)).rate();
    let alarm = strip.alarm.as_ref().map(alarm).unwrap_or_default();
    let signals = signals(&strip.signals);
    format!("{name}  {graph}  {:>6}  {alarm}{signals}", percent(share)).trim_end().to_owned()
}

/// Returns the block for a share.
fn block(share: f64) -> char {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is 0 to 1")]
    let at = (share.clamp(0.0, 1.0) * 7.0).round() as usize;
    BLOCKS.get(at).copied().unwrap_or('█')
}

/// Describes the alarm in a word or two.
pub(super) fn alarm(found: &ReplayResult) -> String {
    match (found.quarantined, found.raised) {
        (true, _) => "quarantined".to_owned(),
        (false, Some(_)) => "raised".to_owned(),
        (false, None) => format!("alarm {:.0}%", found.level * 100.0),
    }
}

/// Lists the signals and their counts, each after a comma.
pub(super) fn signals(counts: &SignalCounts) -> String {
    counts.iter().map(|(signal, times)| format!(", {signal} {times}")).collect()
}

/// Formats an agent's name in at most `columns` columns. Characters outside ASCII are escaped, because their width
/// depends on the terminal.
fn name(agent: &str, columns: usize) -> String {
    let spelled: String = agent
        .chars()
        .flat_map(|c| {
            let plain = matches!(c, ' '..='~').then_some(c);
            plain.into_iter().chain(plain.is_none().then(|| c.escape_unicode()).into_iter().flatten())
        })
        .collect();
    if spelled.len() <= columns { spelled } else { format!("{}~", cut(&spelled, columns.saturating_sub(1))) }
}

fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}
