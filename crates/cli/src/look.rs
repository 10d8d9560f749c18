//! Output for a person at a terminal: colours, widths, progress.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use unicode_width::UnicodeWidthStr as _;

/// Work that is shorter shows no progress.
const SILENCE: Duration = Duration::from_secs(1);

/// Whether output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Makes this the choice of the whole process.
    pub(crate) fn choose(self) {
        let choice = match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Paints the first word of a line that begins with `error`, `warning` or `ok`, if this stream takes colours.
pub(crate) fn painted(line: &str, to: &impl anstream::stream::RawStream) -> String {
    let color = match line.split(' ').next() {
        Some("error") => AnsiColor::Red,
        Some("warning") => AnsiColor::Yellow,
        Some("ok") => AnsiColor::Green,
        _ => return line.to_owned(),
    };
    if AutoStream::choice(to) == ColorChoice::Never {
        return line.to_owned();
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let style = Style::new().fg_color(Some(color.into())).bold();
    format!("{style}{word}{style:#} {rest}")
}

/// Fills a cell of a table with spaces up to this number of columns.
pub(crate) fn cell(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Progress line on standard error, for work of more than a second. Nothing is shown if standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct ProgressLine(Option<(Sender<()>, JoinHandle<()>)>);

impl ProgressLine {
    /// Starts the line. It is erased when this is dropped.
    pub(crate) fn begin(what: &'static str) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (ends, ended) = channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut seconds = 0_u32;
            while ended.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                seconds = seconds.saturating_add(1);
                let _ = write!(io::stderr(), "\u{1b}[2K{what}: {seconds} s\r");
            }
            if seconds > 0 {
                let _ = write!(io::stderr(), "\u{1b}[2K");
            }
        });
        Self(thread.ok().map(|thread| (ends, thread)))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.0.take() {
            drop(ends);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cell_is_filled_by_columns_and_not_by_bytes() {
        for text in ["desk", "détail", "文件", "e\u{301}", ""] {
            assert_eq!(unicode_width::UnicodeWidthStr::width(cell(text, 8).as_str()), 8, "{text:?}");
        }
        assert_eq!(cell("longer than it", 4), "longer than it");
    }
}
