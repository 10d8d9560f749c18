use std::io::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::Figure;

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a goal is a ceiling or a floor")]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the units of the goal table")]
pub enum Unit {
    /// Ratio.
    Times,
    /// Number.
    Count,
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Bytes.
    Bytes,
}

impl Unit {
    const fn text(self) -> &'static str {
        match self {
            Self::Times => "x",
            Self::Count => "",
            Self::Nanos => "ns",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::Bytes => "B",
        }
    }
}

/// One row of the goal table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Names of the figure and of its floor.
    pub row: String,
    /// Goal; `None` for a figure that is only reported.
    pub goal: Option<Bound>,
    /// Aim beyond the goal.
    pub aim: Option<Bound>,
    /// The figure: a median of rounds, or a count.
    pub figure: f64,
    /// Interquartile range of the rounds; 0 for a count.
    pub spread: f64,
    /// Unit of figure, spread, goal and aim.
    pub unit: Unit,
    /// `false` if the goal is missed.
    pub met: bool,
    /// Figures behind the figure.
    pub note: String,
}

impl Row {
    /// Row without a goal.
    #[must_use]
    pub fn new(row: impl Into<String>, figure: Figure, unit: Unit) -> Self {
        let (figure, spread) = (figure.median, figure.spread);
        Self { row: row.into(), goal: None, aim: None, figure, spread, unit, met: true, note: String::new() }
    }

    /// Sets the goal.
    #[must_use]
    pub fn goal(mut self, goal: Bound) -> Self {
        self.met = goal.holds(self.figure);
        self.goal = Some(goal);
        self
    }

    /// Sets the aim.
    #[must_use]
    pub const fn aim(mut self, aim: Bound) -> Self {
        self.aim = Some(aim);
        self
    }

    /// Sets the note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    const fn verdict(&self) -> &'static str {
        match (self.goal.is_some(), self.met) {
            (false, _) => "",
            (true, true) => "met",
            (true, false) => "missed",
        }
    }
}

/// Prints rows as a Markdown table.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_table(rows: &[Row]) -> io::Result<()> {
    let head = ["row", "goal", "aim", "figure", "spread", "", "behind it"].map(str::to_owned);
    let bound = |bound: Option<Bound>| bound.map(|bound| bound.to_string()).unwrap_or_default();
    let cells = |row: &Row| {
        let figure = format!("{} {}", rounded(row.figure), row.unit.text());
        let spread = if row.spread == 0.0 { String::new() } else { rounded(row.spread) };
        let verdict = row.verdict().to_owned();
        let figure = figure.trim_end().to_owned();
        [row.row.clone(), bound(row.goal), bound(row.aim), figure, spread, verdict, row.note.clone()]
    };
    let lines: Vec<[String; 7]> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    let widths: Vec<usize> = (0..7)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = io::stdout().lock();
    for (at, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            write!(out, "| {cell:width$} ")?;
        }
        writeln!(out, "|")?;
        if at == 0 {
            widths.iter().try_for_each(|width| write!(out, "| {:-<width$} ", ""))?;
            writeln!(out, "|")?;
        }
    }
    Ok(())
}

/// Three significant digits.
fn rounded(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
