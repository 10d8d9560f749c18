//! The figures of the source. A limit is the figure of today: it is lowered with it, and never raised.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::house::{HouseError, SourceFile, read_house};
use crate::imports::{self, Arrows, Cycle};
use crate::text;

/// One figure, and the most that it may be.
struct Figure {
    name: &'static str,
    value: usize,
    limit: Option<usize>,
}

/// All figures, and where the worst of them are.
pub(crate) struct Measured {
    figures: Vec<Figure>,
    cycles: Vec<Cycle>,
    /// Type names with more than one meaning, and the files of each.
    shared_names: Vec<(String, Vec<PathBuf>)>,
}

impl Measured {
    /// Names of the figures that are above their limit.
    pub(crate) fn over_limit(&self) -> Vec<&'static str> {
        self.figures
            .iter()
            .filter(|figure| figure.limit.is_some_and(|limit| figure.value > limit))
            .map(|figure| figure.name)
            .collect()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<52} {:>7} {:>7}", "figure", "now", "limit")?;
        for Figure { name, value, limit } in &self.figures {
            let limit = limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            writeln!(f, "{name:<52} {value:>7} {limit:>7}")?;
        }
        for cycle in &self.cycles {
            writeln!(f, "cycle of {}: {}", cycle.files.len(), joined(&cycle.files))?;
            for (from, to, names) in &cycle.uses {
                writeln!(f, "    {} -> {}: {}", from.display(), to.display(), names.join(", "))?;
            }
        }
        for (name, files) in &self.shared_names {
            writeln!(f, "shared name {name}: {}", joined(files))?;
        }
        Ok(())
    }
}

fn joined(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    files.join(", ")
}

/// Measures the workspace in a folder.
pub(crate) fn measure(root: &Path) -> Result<Measured, HouseError> {
    let files = read_house(root)?;
    let (tests, sources): (Vec<&SourceFile>, Vec<&SourceFile>) =
        files.iter().partition(|file| file.is_test());
    let arrows = all_arrows(&sources);
    let mut cycles: Vec<Cycle> = arrows.values().flat_map(imports::cycles).collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.files.len()));
    let of_a_step = files_of_a_step(arrows.get("tool-gate"));
    let decision = sources.iter().filter(|file| is_in_decision(&file.path)).copied();
    let shared_names = shared_type_names(&sources);
    let mut names: Vec<usize> =
        files.iter().flat_map(|file| text::test_names(&file.text)).map(str::len).collect();
    names.sort_unstable();
    let cli = sources.iter().filter(|file| file.crate_source() == Some("cli")).copied();
    let in_crates = sources.iter().filter(|file| file.crate_source().is_some());
    let readme = root.join("README.md");
    let readme =
        fs::read_to_string(&readme).map_err(|source| HouseError::Read { path: readme.clone(), source })?;
    let figure = |name, value, limit| Figure { name, value, limit };
    let riddles = files.iter().map(|file| text::riddles(&file.text)).sum();
    let figures = vec![
        figure("import cycles between files of a crate", cycles.len(), Some(0)),
        figure(
            "files in the largest import cycle",
            cycles.first().map_or(0, |cycle| cycle.files.len()),
            Some(0),
        ),
        figure("files of the gate for one step of the decision", of_a_step, Some(7)),
        figure("lines of the decision's path", lines(decision), Some(2_370)),
        figure("lines of the command line's source", lines(cli), None),
        figure("lines of source", lines(sources.iter().copied()), None),
        figure("lines of tests and benches", lines(tests.iter().copied()), None),
        figure("files under src without tests", in_crates.count(), None),
        figure("type names with more than one meaning", shared_names.len(), Some(7)),
        figure("comments with a riddle for a noun", riddles, Some(16)),
        figure("length of test names, 90th percentile", at(&names, 9, 10), None),
        figure("length of test names, longest", names.last().copied().unwrap_or(0), Some(60)),
        figure("lines of README.md", readme.lines().count(), Some(109)),
    ];
    Ok(Measured { figures, cycles, shared_names })
}

/// Which files use which others, by crate.
fn all_arrows<'a>(sources: &[&'a SourceFile]) -> BTreeMap<&'a str, Arrows> {
    let mut by_crate: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in sources {
        if let Some(name) = file.crate_source() {
            by_crate.entry(name).or_default().push(file);
        }
    }
    let of = |(name, files): (&'a str, Vec<&SourceFile>)| {
        (name, imports::arrows(&Path::new("crates").join(name).join("src"), &files))
    };
    by_crate.into_iter().map(of).collect()
}

/// Files of the gate that decide a call, beside the folder of steps.
const DECISION: [&str; 9] = [
    "decide.rs",
    "findings.rs",
    "gate.rs",
    "order.rs",
    "parts.rs",
    "progress.rs",
    "recorder.rs",
    "steps.rs",
    "terms.rs",
];

/// Whether the file is on the path of a decision in the gate.
fn is_in_decision(file: &Path) -> bool {
    file.strip_prefix("crates/tool-gate/src")
        .is_ok_and(|file| file.starts_with("steps") || DECISION.iter().any(|name| file == Path::new(name)))
}

/// Most files of the gate that one step names, itself included.
fn files_of_a_step(gate: Option<&Arrows>) -> usize {
    let steps = gate.into_iter().flatten().filter(|(file, _)| file.starts_with("crates/tool-gate/src/steps"));
    steps.map(|(_, used)| used.len().saturating_add(1)).max().unwrap_or(0)
}

fn lines<'a>(files: impl Iterator<Item = &'a SourceFile>) -> usize {
    files.map(|file| file.text.lines().count()).sum()
}

/// The value `part` of `whole` parts up a sorted list.
fn at(sorted: &[usize], part: usize, whole: usize) -> usize {
    let place = sorted.len().saturating_mul(part).checked_div(whole).unwrap_or(0);
    sorted.get(place).copied().unwrap_or(0)
}

/// Names of structs, enums, traits and type aliases in more than one file of the workspace, each with its files.
fn shared_type_names(sources: &[&SourceFile]) -> Vec<(String, Vec<PathBuf>)> {
    let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in sources {
        for item in &file.syntax.items {
            let name = match item {
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Trait(item) => &item.ident,
                syn::Item::Type(item) => &item.ident,
                _ => continue,
            };
            let files = names.entry(name.to_string()).or_default();
            // Twice in one file: alternatives under `cfg`, which mean the same.
            if files.last() != Some(&file.path) {
                files.push(file.path.clone());
            }
        }
    }
    names.into_iter().filter(|(_, files)| files.len() > 1).collect()
}
