//! Sorts a tool that has not been reviewed yet, by its name, its arguments and its annotations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use countersign_core::ImpactClass;
use serde_json::Value;

/// What a tool may do, as far as its definition says. It decides nothing: it drafts an entry that a person signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "every surface shows each of them")]
pub enum ToolTier {
    /// Reads the person's own files and facts.
    ReadsInside,
    /// Reads other people's systems: what it returns may come from a stranger.
    ReadsOutside,
    /// Changes something that can be changed back.
    Writes,
    /// Moves money, sends, deletes, runs code, or is unclear.
    MoneyOrIrreversible,
}

impl ToolTier {
    /// Every tier, the least strict first.
    pub const ALL: [Self; 4] =
        [Self::ReadsInside, Self::ReadsOutside, Self::Writes, Self::MoneyOrIrreversible];

    /// Sorts a tool by its definition, as its server lists it. An unclear tool gets the strictest tier.
    ///
    /// ```
    /// use countersign_registry::ToolTier;
    /// let tool = serde_json::json!({"name": "read_file", "annotations": {"readOnlyHint": true}});
    /// assert_eq!(ToolTier::of(&tool), ToolTier::ReadsInside);
    /// let tool = serde_json::json!({"name": "read_file_and_mail_it", "annotations": {"readOnlyHint": true}});
    /// assert_eq!(ToolTier::of(&tool), ToolTier::MoneyOrIrreversible);
    /// ```
    #[must_use]
    pub fn of(definition: &Value) -> Self {
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
        let hint =
            |hint: &str| definition.pointer(&format!("/annotations/{hint}")) == Some(&Value::Bool(true));
        let by_name = of_name(name).max(of_arguments(definition));
        match by_name {
            Self::ReadsInside | Self::ReadsOutside if hint("destructiveHint") => Self::MoneyOrIrreversible,
            // The hint is the server's own word: it lowers nothing without the name, and the name nothing without it.
            Self::ReadsInside if !hint("readOnlyHint") || hint("openWorldHint") => Self::ReadsOutside,
            Self::Writes if hint("destructiveHint") => Self::MoneyOrIrreversible,
            tier @ (Self::ReadsInside | Self::ReadsOutside | Self::Writes | Self::MoneyOrIrreversible) => {
                tier
            }
        }
    }

    /// Impact of a tool of this tier in a draft.
    #[must_use]
    pub const fn impact(self) -> ImpactClass {
        match self {
            Self::ReadsInside => ImpactClass::Read,
            Self::ReadsOutside => ImpactClass::External,
            Self::Writes => ImpactClass::Write,
            Self::MoneyOrIrreversible => ImpactClass::Irreversible,
        }
    }

    /// Returns `true` if a draft lets calls of this tier run without an approval.
    #[must_use]
    pub const fn is_free(self) -> bool {
        matches!(self, Self::ReadsInside)
    }
}

impl fmt::Display for ToolTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadsInside => "reads inside",
            Self::ReadsOutside => "reads outside",
            Self::Writes => "writes",
            Self::MoneyOrIrreversible => "money or irreversible",
        })
    }
}

/// Kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Reading,
    Writing,
    Strict,
    Inside,
    Outside,
    Neutral,
}

#[derive(Default)]
struct WordTable {
    words: BTreeMap<&'static str, WordKind>,
    names: Vec<&'static str>,
    open: Vec<&'static str>,
    danger: Vec<&'static str>,
}

static TABLE: LazyLock<WordTable> = LazyLock::new(|| {
    let mut table = WordTable::default();
    for line in include_str!("tiers.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let kind = match words.next() {
            Some("read") => WordKind::Reading,
            Some("write") => WordKind::Writing,
            Some("strict") => WordKind::Strict,
            Some("inside") => WordKind::Inside,
            Some("outside") => WordKind::Outside,
            Some("neutral") => WordKind::Neutral,
            Some("name") => {
                table.names.extend(words);
                continue;
            }
            Some("open") => {
                table.open.extend(words);
                continue;
            }
            Some("danger") => {
                table.danger.extend(words);
                continue;
            }
            _ => continue,
        };
        for word in words {
            // Of two kinds the stricter one counts.
            let strictness = |kind| match kind {
                WordKind::Strict => 5,
                WordKind::Writing => 4,
                WordKind::Reading => 3,
                WordKind::Outside => 2,
                WordKind::Inside => 1,
                WordKind::Neutral => 0,
            };
            let known = table.words.entry(word).or_insert(kind);
            if strictness(kind) > strictness(*known) {
                *known = kind;
            }
        }
    }
    table
});

fn of_name(name: &str) -> ToolTier {
    if TABLE.names.contains(&name) {
        return ToolTier::ReadsInside;
    }
    let kinds: Option<Vec<_>> =
        words(name).iter().map(|word| TABLE.words.get(word.as_str()).copied()).collect();
    let Some(kinds) = kinds else { return ToolTier::MoneyOrIrreversible };
    let has = |kind| kinds.contains(&kind);
    if has(WordKind::Strict) {
        ToolTier::MoneyOrIrreversible
    } else if has(WordKind::Writing) {
        ToolTier::Writes
    } else if !has(WordKind::Reading) {
        ToolTier::MoneyOrIrreversible
    } else if has(WordKind::Inside) && !has(WordKind::Outside) {
        ToolTier::ReadsInside
    } else {
        ToolTier::ReadsOutside
    }
}

/// An address among the arguments leads outside, a command or an amount is the strictest.
fn of_arguments(definition: &Value) -> ToolTier {
    let properties = definition.pointer("/inputSchema/properties").and_then(Value::as_object);
    let names: Vec<_> = properties.into_iter().flatten().flat_map(|(name, _)| words(name)).collect();
    let any = |list: &[&str]| names.iter().any(|name| list.contains(&name.as_str()));
    if any(&TABLE.danger) {
        ToolTier::MoneyOrIrreversible
    } else if any(&TABLE.open) {
        ToolTier::ReadsOutside
    } else {
        ToolTier::ReadsInside
    }
}

/// Splits `getFileInfo`, `get_file_info` and `get-file-info` into the same words.
pub(crate) fn words(name: &str) -> Vec<String> {
    let (mut words, mut last_is_lower) = (vec![String::new()], false);
    for letter in name.chars() {
        let is_separator = matches!(letter, '_' | '-' | '.' | '/' | ' ');
        if is_separator || (letter.is_uppercase() && last_is_lower) {
            words.push(String::new());
        }
        if let (false, Some(word)) = (is_separator, words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        last_is_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ToolTier;

    /// Reviewed by hand: the tools of real servers, with their annotations and the names of their arguments.
    const REVIEWED: &str = include_str!("../tests/data/reviewed-tools.json");

    fn tier(name: &str) -> ToolTier {
        ToolTier::of(&json!({"name": name, "annotations": {"readOnlyHint": true}}))
    }

    #[test]
    fn tools_of_real_servers_have_the_reviewed_tier() {
        let servers: serde_json::Map<String, Value> = serde_json::from_str(REVIEWED).unwrap();
        assert!(servers.len() >= 12);
        let mut wrong = Vec::new();
        for (server, tools) in &servers {
            for tool in tools.as_array().unwrap() {
                let properties: serde_json::Map<_, _> = tool["args"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|name| (name.as_str().unwrap().to_owned(), json!({})))
                    .collect();
                let definition = json!({
                    "name": tool["name"], "annotations": tool["hints"], "inputSchema": {"properties": properties},
                });
                let found = serde_json::to_value(ToolTier::of(&definition)).unwrap();
                if found != tool["tier"] {
                    wrong
                        .push(format!("{server}: {} is {found}, reviewed as {}", tool["name"], tool["tier"]));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn no_tool_that_writes_sends_or_pays_is_drafted_free() {
        let servers: serde_json::Map<String, Value> = serde_json::from_str(REVIEWED).unwrap();
        for tool in servers.values().flat_map(|tools| tools.as_array().unwrap()) {
            let acts = tool["acts"].as_bool().unwrap();
            assert!(!(acts && tool["tier"] == "reads_inside"), "{tool}");
        }
    }

    #[test]
    fn a_hint_lowers_no_name_and_a_name_lowers_nothing_without_it() {
        assert_eq!(tier("read_file"), ToolTier::ReadsInside);
        let of = |annotations: Value| ToolTier::of(&json!({"name": "read_file", "annotations": annotations}));
        assert_eq!(of(json!({})), ToolTier::ReadsOutside);
        assert_eq!(of(json!({"readOnlyHint": "true"})), ToolTier::ReadsOutside);
        assert_eq!(of(json!({"readOnlyHint": true, "openWorldHint": true})), ToolTier::ReadsOutside);
        assert_eq!(of(json!({"readOnlyHint": true, "destructiveHint": true})), ToolTier::MoneyOrIrreversible);
        for name in [
            "delete_file",
            "send_file",
            "frobnicate",
            "",
            "pay_file",
            "read_file_and_delete",
            "get_file_token",
        ] {
            assert_eq!(tier(name), ToolTier::MoneyOrIrreversible, "{name}");
        }
        for name in ["write_file", "updateFile", "move-file", "create_or_update_file"] {
            assert_eq!(tier(name), ToolTier::Writes, "{name}");
        }
    }

    #[test]
    fn spelling_and_look_alikes_lower_nothing() {
        for name in ["READ_FILE", "readFile", "read-file", "read.file", "Read/File"] {
            assert_eq!(tier(name), ToolTier::ReadsInside, "{name}");
        }
        for name in ["r\u{435}ad_file", "read\u{200b}file", "readfile", "read_files2", "READFILE"] {
            assert_eq!(tier(name), ToolTier::MoneyOrIrreversible, "{name}");
        }
    }

    #[test]
    fn arguments_that_lead_outside_or_carry_commands_raise() {
        let of = |name: &str| {
            ToolTier::of(&json!({"name": "read_file", "annotations": {"readOnlyHint": true},
                "inputSchema": {"properties": {name: {}}}}))
        };
        assert_eq!(of("path"), ToolTier::ReadsInside);
        assert_eq!(of("baseUrl"), ToolTier::ReadsOutside);
        assert_eq!(of("shell_command"), ToolTier::MoneyOrIrreversible);
        assert_eq!(of("amount"), ToolTier::MoneyOrIrreversible);
    }
}
