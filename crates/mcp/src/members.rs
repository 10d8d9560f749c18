//! Known members of messages that pass without being interpreted. An unknown member would be a channel between client and
//! server that bypasses the gate and the record.
//!
//! Source: MCP 2025-11-25, *Schema Reference*. Methods that the configuration adds are not checked.

use std::collections::BTreeSet;

use countersign_canonical_json::{Kind, ValueRef};

use crate::cut::{Edits, ValuePosition};
use crate::era_2025;
use crate::message::RpcId;

/// Constraint on a member's value.
#[derive(Clone, Copy, Debug)]
enum Fit {
    Any,
    /// A text of at most this many bytes.
    Text(usize),
    Number,
    /// A short text or an integer, like the id of a request.
    Token,
    Level,
    /// Metadata with known members only.
    Meta,
}

type KnownMembers = &'static [(&'static str, Fit)];

/// Maximum length of a human-readable text in a message that no gate decides on, in bytes.
const MAX_NOTE: usize = 1_024;

const NOTHING: KnownMembers = &[("_meta", Fit::Meta)];
const META: KnownMembers =
    &[("progressToken", Fit::Token), ("traceparent", Fit::Text(64)), ("tracestate", Fit::Text(512))];

/// Known members by method, for both directions where both sides may send it.
const METHODS: [(&str, KnownMembers); 14] = [
    (
        "initialize",
        &[
            ("_meta", Fit::Meta),
            ("capabilities", Fit::Any),
            ("clientInfo", Fit::Any),
            ("protocolVersion", Fit::Text(64)),
        ],
    ),
    ("logging/setLevel", &[("_meta", Fit::Meta), ("level", Fit::Level)]),
    (
        "notifications/cancelled",
        &[("_meta", Fit::Meta), ("reason", Fit::Text(MAX_NOTE)), ("requestId", Fit::Token)],
    ),
    ("notifications/initialized", NOTHING),
    (
        "notifications/message",
        &[("_meta", Fit::Meta), ("data", Fit::Any), ("level", Fit::Level), ("logger", Fit::Text(MAX_NOTE))],
    ),
    (
        "notifications/progress",
        &[
            ("_meta", Fit::Meta),
            ("message", Fit::Text(MAX_NOTE)),
            ("progress", Fit::Number),
            ("progressToken", Fit::Token),
            ("total", Fit::Number),
        ],
    ),
    ("notifications/prompts/list_changed", NOTHING),
    ("notifications/resources/list_changed", NOTHING),
    ("notifications/resources/updated", &[("_meta", Fit::Meta), ("uri", Fit::Text(8 * MAX_NOTE))]),
    ("notifications/roots/list_changed", NOTHING),
    ("notifications/tools/list_changed", NOTHING),
    ("ping", NOTHING),
    ("roots/list", NOTHING),
    ("tools/list", &[("_meta", Fit::Meta), ("cursor", Fit::Text(64 * MAX_NOTE))]),
];

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The members of a message's params that its method does not have, or not with such a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownMembers<'a> {
    /// The method, as a static name of this table.
    pub(crate) method: &'static str,
    pub(crate) params: BTreeSet<&'a str>,
    pub(crate) meta: BTreeSet<&'a str>,
}

impl UnknownMembers<'_> {
    /// Cuts these members out of the message's line.
    pub(crate) fn cut<'a>(&self, edits: &mut Edits<'a>, line: &ValuePosition<'a>) {
        if let Some(params) = line.get("params") {
            edits.cut_members(&params, |name| self.params.contains(name));
        }
        if let Some(meta) = line.find(&["params", "_meta"]) {
            edits.cut_members(&meta, |name| self.meta.contains(name));
        }
    }
}

/// Returns the members to cut out of a message before it passes; `None` if it can pass unchanged. The gateway's own metadata
/// is not included: [`era_2025::cut_ours`] removes it.
pub(crate) fn strange<'a>(method: &str, params: Option<ValueRef<'a>>) -> Option<UnknownMembers<'a>> {
    let (method, known) = METHODS.iter().find(|(name, _)| *name == method)?;
    let params = params?;
    let mut meta = params.get("_meta").map(|meta| unfit(meta, META)).unwrap_or_default();
    meta.retain(|name| !era_2025::is_ours(name));
    let params = unfit(params, known);
    (!params.is_empty() || !meta.is_empty()).then_some(UnknownMembers { method, params, meta })
}

fn unfit<'a>(object: ValueRef<'a>, known: KnownMembers) -> BTreeSet<&'a str> {
    let fits = |name: &str, value| known.iter().any(|(member, fit)| *member == name && fit.holds(value));
    object.members().filter(|(name, value)| !fits(name, *value)).map(|(name, _)| name).collect()
}

impl Fit {
    fn holds(self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Text(most) => value.as_str().is_some_and(|text| text.len() <= most),
            Self::Number => value.as_f64().is_some(),
            Self::Token => RpcId::read(value).is_some(),
            Self::Level => value.as_str().is_some_and(|level| LEVELS.contains(&level)),
            Self::Meta => value.kind() == Kind::Object,
        }
    }
}
