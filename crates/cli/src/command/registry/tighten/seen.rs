//! The values of one argument in a record, and the constraint that holds exactly such values.

use std::collections::BTreeSet;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_registry::{ArgPlace, Constraint};
use serde_json::{Value, json};

/// Most hosts, domains or folders of a rule.
const MOST: usize = 8;
/// Most folders that are remembered before they are joined.
const MOST_FOLDERS: usize = 1_000;

/// Values of one argument, as far as a rule needs them.
#[derive(Debug, Default)]
pub(super) struct SeenValues {
    /// Calls that have the argument.
    pub(super) calls: u64,
    /// First and last entry of those calls.
    pub(super) entries: Option<(u64, u64)>,
    kind: Option<SeenKind>,
    /// The last value: a rule that does not hold it is not drafted.
    sample: Option<Value>,
}

#[derive(Debug)]
enum SeenKind {
    Numbers { min: f64, max: f64 },
    Urls { schemes: BTreeSet<String>, hosts: BTreeSet<String> },
    Addresses { domains: BTreeSet<String> },
    Paths { folders: BTreeSet<String> },
    Other,
}

impl SeenValues {
    /// Counts a call whose argument has this value.
    pub(super) fn add(&mut self, entry: u64, value: &Value) {
        self.calls = self.calls.saturating_add(1);
        self.entries = Some((self.entries.map_or(entry, |(first, _)| first), entry));
        match value.as_array() {
            Some(items) => items.iter().for_each(|item| self.add_one(item)),
            None => self.add_one(value),
        }
    }

    /// Counts a call whose value was cut, so that no rule can hold it.
    pub(super) fn add_cut(&mut self, entry: u64) {
        self.add(entry, &Value::Null);
    }

    fn add_one(&mut self, value: &Value) {
        let new = SeenKind::of(value);
        self.kind = Some(match self.kind.take() {
            None => new,
            Some(known) => known.and(new),
        });
        self.sample = Some(value.clone());
    }

    /// The constraint that holds these values and little else; `None` if they have nothing in common that one can say.
    pub(super) fn rule(&self, pointer: &str) -> Option<Constraint> {
        let at = ArgPlace::new(pointer).ok()?;
        let constraint = match self.kind.as_ref()? {
            SeenKind::Numbers { min, max } => Constraint::number(at, Some(*min), Some(*max)),
            SeenKind::Urls { schemes, hosts } => Constraint::url(at, &few(schemes)?, &few(hosts)?),
            SeenKind::Addresses { domains } => Constraint::email_domain(at, &few(domains)?),
            SeenKind::Paths { folders } => Constraint::path_within(at, &few(&joined(folders))?),
            SeenKind::Other => return None,
        };
        constraint.ok().filter(|constraint| self.is_held_by(constraint, pointer))
    }

    fn is_held_by(&self, constraint: &Constraint, pointer: &str) -> bool {
        let names = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
        let names: Vec<_> = names.collect();
        let args = names.iter().rev().fold(json!(self.sample), |value, name| json!({name: value}));
        let args = read(args.to_string().as_bytes(), Recipe::Jcs1, &Limits::default());
        args.is_ok_and(|args| constraint.holds(args.value()))
    }
}

impl SeenKind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Number(number) => {
                number.as_f64().map_or(Self::Other, |number| Self::Numbers { min: number, max: number })
            }
            Value::String(text) => Self::of_text(text),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Self::Other,
        }
    }

    fn of_text(text: &str) -> Self {
        let one = |text: &str| BTreeSet::from([text.to_owned()]);
        if let Some((scheme, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            return Self::Urls { schemes: one(scheme), hosts: one(host) };
        }
        if text.contains('/') {
            return Self::Paths { folders: one(folder_of(text)) };
        }
        match text.split_once('@') {
            Some((_, domain)) => Self::Addresses { domains: one(domain) },
            None => Self::Other,
        }
    }

    /// What both have in common.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Numbers { min, max }, Self::Numbers { min: least, max: most }) => {
                Self::Numbers { min: min.min(least), max: max.max(most) }
            }
            (Self::Urls { mut schemes, mut hosts }, Self::Urls { schemes: more, hosts: further }) => {
                schemes.extend(more);
                hosts.extend(further);
                if hosts.len().max(schemes.len()) > MOST {
                    Self::Other
                } else {
                    Self::Urls { schemes, hosts }
                }
            }
            (Self::Addresses { mut domains }, Self::Addresses { domains: more }) => {
                domains.extend(more);
                if domains.len() > MOST { Self::Other } else { Self::Addresses { domains } }
            }
            (Self::Paths { mut folders }, Self::Paths { folders: more }) => {
                folders.extend(more);
                if folders.len() > MOST_FOLDERS { Self::Other } else { Self::Paths { folders } }
            }
            _ => Self::Other,
        }
    }
}

/// The folder of a file, which has a dot in its last name; any other path is a folder itself.
fn folder_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, name)) if name.contains('.') || name.is_empty() => folder,
        _ => path,
    }
}

/// Folders that contain all of these: each by itself, or all in the folder that they share.
fn joined(folders: &BTreeSet<String>) -> BTreeSet<String> {
    let is_within =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    let roots = folders.iter().filter(|inner| !folders.iter().any(|outer| is_within(inner, outer)));
    let roots: BTreeSet<String> = roots.cloned().collect();
    if roots.len() <= MOST {
        return roots;
    }
    let split = |folder: &str| folder.split('/').map(str::to_owned).collect::<Vec<_>>();
    let shared = roots.iter().map(|folder| split(folder)).reduce(|one, other| {
        one.into_iter().zip(other).take_while(|(mine, theirs)| mine == theirs).map(|(name, _)| name).collect()
    });
    shared.map(|names| names.join("/")).into_iter().collect()
}

/// The items, unless there are none, too many, or one that would hold everything.
fn few(items: &BTreeSet<String>) -> Option<Vec<&str>> {
    let is_rule = !items.is_empty() && items.len() <= MOST && items.iter().all(|item| !item.is_empty());
    is_rule.then(|| items.iter().map(String::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::SeenValues;
    use serde_json::{Value, json};

    fn rule(values: &[Value]) -> Option<String> {
        let mut seen = SeenValues::default();
        for (entry, value) in (0..).zip(values) {
            seen.add(entry, value);
        }
        seen.rule("/a/b").map(|rule| rule.to_string())
    }

    #[test]
    fn rule_holds_the_values_that_were_seen() {
        let said = |values: &[Value]| rule(values).unwrap();
        assert_eq!(said(&[json!(3), json!(-1.5), json!(2)]), "/a/b is from -1.5 to 3");
        assert_eq!(
            said(&[json!("https://a.test/x"), json!("https://b.test:8443?y")]),
            "/a/b has only https URLs at a.test or b.test:8443"
        );
        assert_eq!(said(&[json!(["x@a.test", "y@b.test"])]), "/a/b has only addresses at a.test or b.test");
        assert_eq!(
            said(&[json!("/srv/app/a.txt"), json!("/srv/app/sub/b.txt"), json!("/var/log")]),
            "/a/b has only paths within /srv/app or /var/log"
        );
        let many: Vec<_> = (0..20).map(|n| json!(format!("/srv/app/{n}/a.txt"))).collect();
        assert_eq!(said(&many), "/a/b has only paths within /srv/app");
        assert_eq!(said(&[json!("docs/a.txt")]), "/a/b has only paths within docs");
    }

    #[test]
    fn values_without_a_pattern_have_no_rule() {
        let hosts: Vec<_> = (0..9).map(|n| json!(format!("https://h{n}.test/"))).collect();
        let roots: Vec<_> = (0..9).map(|n| json!(format!("/{n}/a.txt"))).collect();
        for values in [
            &[json!("text")][..],
            &[json!(true)],
            &[json!([])],
            &[json!(1), json!("1")],
            &[json!("/a/b.txt"), json!("https://a.test")],
            &[json!("https://user@a.test/")],
            &[json!("/a/../b/c.txt")],
            &[json!("/a.txt")],
            &hosts,
            &roots,
        ] {
            assert_eq!(rule(values), None, "{values:?}");
        }
    }

    #[test]
    fn cut_value_leaves_no_rule() {
        let mut seen = SeenValues::default();
        seen.add(0, &json!(1));
        seen.add_cut(1);
        assert_eq!((seen.calls, seen.rule("/a")), (2, None));
    }
}
