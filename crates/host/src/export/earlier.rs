//! Text of the metrics file: reads back the counts of earlier sessions and adds them to this session's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use countersign_core::{AgentId, ToolId};
use countersign_registry::RegistrySnapshot;
use countersign_tool_gate::{METRIC_NAMES, RejectionCode};

use super::health::RECORD_METRICS;
use crate::files::read_file;

/// Name of the only histogram.
pub(super) const ANSWER_TIME: &str = "countersign_answer_duration_seconds";
/// Time at which the metrics were written or scraped.
pub(super) const WRITTEN: &str = "countersign_written_seconds";
/// Most bytes of a file to read back.
const FILE_BYTES: u64 = 8 << 20;
/// Last line of a file; it distinguishes a complete file from a partial one. Readers treat it as a comment.
const END: &str = "# EOF\n";
/// Largest value to read back, 2^53: readers round larger values, and a counter that no longer changes would hide new
/// events.
const LARGEST: u64 = 1 << 53;
/// Largest sum to read back, in seconds.
const LARGEST_SUM: f64 = 9_007_199_254_740_992.0;
/// Server and tool of every name that is missing from the registry.
const UNKNOWN: &str = "(unknown)";
/// Values of the label `of` of sums.
const SUMMED: [&str; 2] = ["calls", "messages"];
/// Outcomes of accepted calls.
const OUTCOMES: [&str; 4] = ["failed", "not_run", "returned", "unknown"];

/// Metrics in the text format, grouped by family.
#[derive(Clone, Debug, Default)]
pub(super) struct Families(Vec<Family>);

/// One metric with its samples: the text `name{labels}` and the text of the value.
#[derive(Clone, Debug)]
struct Family {
    name: String,
    kind: MetricKind,
    help: Option<String>,
    samples: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// Whether gauges are written. They belong to a running session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gauges {
    Kept,
    LeftOut,
}

/// A metrics file that no gateway wrote in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged(pub(super) &'static str);

/// Reads the counts of earlier sessions; empty if the file is missing. Series of agents and tools that are missing from
/// the registry are dropped, so that the registry bounds the size of the file.
pub(super) fn read_back(path: &Path, registry: &RegistrySnapshot) -> Result<Families, Damaged> {
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(Families::default());
    }
    let bytes = read_file(path, FILE_BYTES).map_err(|_| Damaged("it cannot be read"))?;
    let text = String::from_utf8(bytes).map_err(|_| Damaged("it is not UTF-8"))?;
    let text = text.strip_suffix(END).ok_or(Damaged("it has no end"))?;
    let mut read = Families::parse(text).ok_or(Damaged("it is not in the text format"))?;
    let mut names = BTreeSet::new();
    for family in &mut read.0 {
        let name = family.name.as_str();
        if !METRIC_NAMES.contains(&name) && !RECORD_METRICS.contains(&name) && name != WRITTEN {
            return Err(Damaged("it has a metric that is not the gateway's"));
        }
        if !names.insert(family.name.clone()) {
            return Err(Damaged("it has a metric twice"));
        }
        if family.kind != MetricKind::of(&family.name) {
            return Err(Damaged("it has a metric of another type"));
        }
        if family.kind != MetricKind::Gauge {
            family.check(registry).ok_or(Damaged("it has a sample that the gateway does not write"))?;
        }
    }
    read.0.retain(|family| family.kind != MetricKind::Gauge && !family.samples.is_empty());
    Ok(read)
}

impl MetricKind {
    /// Returns the type of a gateway metric.
    fn of(name: &str) -> Self {
        if name == ANSWER_TIME {
            Self::Histogram
        } else if name.ends_with("_total") {
            Self::Counter
        } else {
            Self::Gauge
        }
    }
}

/// Returns the labels of a counter in sorted order.
fn labels_of(name: &str) -> &'static [&'static str] {
    match name {
        "countersign_answers_total" => &["agent", "code", "server", "tool"],
        "countersign_outcomes_total" => &["outcome"],
        "countersign_summed_refusals_total" => &["agent", "of"],
        "countersign_unavailable_total" => &["agent", "code"],
        "countersign_undisclosed_attempts_total" => &["agent"],
        _ => &[],
    }
}

impl Families {
    /// Parses the text format; `None` if a line does not belong to it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut families: Vec<Family> = Vec::new();
        let mut help = None;
        for line in text.lines().filter(|line| !line.is_empty()) {
            if line.starts_with("# HELP ") {
                help = Some(line.to_owned());
            } else if let Some(of_type) = line.strip_prefix("# TYPE ") {
                let (name, kind) = of_type.split_once(' ')?;
                let kind = match kind {
                    "counter" => MetricKind::Counter,
                    "gauge" => MetricKind::Gauge,
                    "histogram" => MetricKind::Histogram,
                    _ => return None,
                };
                families.push(Family { name: name.to_owned(), kind, help: help.take(), samples: Vec::new() });
            } else {
                let (series, value) = line.rsplit_once(' ')?;
                families.last_mut()?.samples.push((series.to_owned(), value.to_owned()));
            }
        }
        Some(Self(families))
    }

    /// Adds the counts of earlier sessions. A histogram with different bounds is skipped.
    pub(super) fn add(&mut self, earlier: &Self) {
        for old in &earlier.0 {
            let Some(new) = self.0.iter_mut().find(|family| family.name == old.name) else {
                self.0.push(old.clone());
                continue;
            };
            let mut left: BTreeMap<&str, &str> = old.series().collect();
            let is_same =
                new.samples.len() == left.len() && new.series().all(|(series, _)| left.contains_key(series));
            if new.kind == MetricKind::Histogram && !is_same {
                continue;
            }
            for (series, value) in &mut new.samples {
                if let Some(sum) = left.remove(series.as_str()).and_then(|counted| sum(value, counted)) {
                    *value = sum;
                }
            }
            new.samples.extend(left.into_iter().map(|(series, value)| (series.to_owned(), value.to_owned())));
        }
    }

    /// Returns the text of a complete file.
    pub(super) fn text(&self, gauges: Gauges) -> String {
        let mut lines = Vec::new();
        for family in &self.0 {
            if family.kind == MetricKind::Gauge && gauges == Gauges::LeftOut {
                continue;
            }
            lines.extend(family.help.clone());
            let kind = match family.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            lines.push(format!("# TYPE {} {kind}", family.name));
            lines.extend(family.series().map(|(series, value)| format!("{series} {value}")));
            lines.push(String::new());
        }
        lines.push(END.to_owned());
        lines.join("\n")
    }
}

impl Family {
    fn series(&self) -> impl Iterator<Item = (&str, &str)> {
        self.samples.iter().map(|(series, value)| (series.as_str(), value.as_str()))
    }

    /// Drops series with names that are missing from the registry; `None` if a gateway would not write such a sample.
    fn check(&mut self, registry: &RegistrySnapshot) -> Option<()> {
        let mut seen = BTreeSet::new();
        let mut kept = Vec::new();
        for (series, value) in &self.samples {
            let (name, within) = match series.split_once('{') {
                Some((name, rest)) => (name, rest.strip_suffix('}')?),
                None => (series.as_str(), ""),
            };
            let suffix = name.strip_prefix(self.name.as_str())?;
            let is_whole = match (self.kind, suffix) {
                (MetricKind::Histogram, "_sum") => false,
                (MetricKind::Counter, "") | (MetricKind::Histogram, "_bucket" | "_count") => true,
                (MetricKind::Counter | MetricKind::Gauge | MetricKind::Histogram, _) => return None,
            };
            let is_in_range = if is_whole {
                value.parse::<u64>().is_ok_and(|count| count <= LARGEST)
            } else {
                value.parse::<f64>().is_ok_and(|sum| (0.0..=LARGEST_SUM).contains(&sum))
            };
            if !is_in_range {
                return None;
            }
            if !seen.insert(series.as_str()) {
                return None;
            }
            let labels = labels(within)?;
            let expected = if suffix == "_bucket" { &["le"] } else { labels_of(name) };
            if !labels.keys().eq(expected) {
                return None;
            }
            if is_known(&labels, registry)? {
                kept.push((series.clone(), value.clone()));
            }
        }
        if self.kind == MetricKind::Histogram {
            self.check_buckets()?;
        }
        self.samples = kept;
        Some(())
    }

    /// Checks a histogram without labels: its buckets never decrease, and its count equals the last bucket.
    fn check_buckets(&self) -> Option<()> {
        let counts = |end: &str| -> Option<Vec<u64>> {
            let name = format!("{}{end}", self.name);
            let samples = self.series().filter(|(series, _)| series.starts_with(&name));
            samples.map(|(_, value)| value.parse().ok()).collect()
        };
        let (buckets, count) = (counts("_bucket{")?, counts("_count")?);
        (buckets.is_sorted() && count.len() == 1 && buckets.last() == count.first()).then_some(())
    }
}

/// Parses and unescapes the labels of a series.
fn labels(text: &str) -> Option<BTreeMap<&str, String>> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => value.push(match chars.next()? {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                c => value.push(c),
            }
        }
        if found.insert(name, value).is_some() {
            return None;
        }
        rest = chars.as_str();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',').filter(|more| !more.is_empty())?;
        }
    }
    Some(found)
}

/// Returns `false` for a name that is unknown to this registry or this version; `None` for a label that no metric has.
fn is_known(labels: &BTreeMap<&str, String>, registry: &RegistrySnapshot) -> Option<bool> {
    let mut known = true;
    for (name, value) in labels {
        known &= match *name {
            "agent" => AgentId::new(value).is_ok_and(|agent| registry.agent(&agent).is_some()),
            "server" => labels.contains_key("tool"),
            "tool" => {
                let server = labels.get("server")?;
                (server == UNKNOWN && value == UNKNOWN)
                    || ToolId::new(server, value).is_ok_and(|tool| registry.tool(&tool).is_some())
            }
            "code" => value == "ACCEPTED" || RejectionCode::from_code(value).is_some(),
            "of" => SUMMED.contains(&value.as_str()),
            "outcome" => OUTCOMES.contains(&value.as_str()),
            "le" => value.parse::<f64>().is_ok(),
            _ => return None,
        };
    }
    Some(known)
}

/// Adds two values in text form.
fn sum(a: &str, b: &str) -> Option<String> {
    if let (Ok(a), Ok(b)) = (a.parse::<u64>(), b.parse::<u64>()) {
        return Some(a.saturating_add(b).to_string());
    }
    Some((a.parse::<f64>().ok()? + b.parse::<f64>().ok()?).to_string())
}
