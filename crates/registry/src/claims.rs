use countersign_canonical_json::{Kind, Limits, Recipe, ValueRef, read};
use countersign_core::{Digest, escape_hidden};

use crate::contract::SessionContract;
use crate::cut::cut;

/// Most names kept of one list.
const MAX_NAMES: usize = 64;

/// Longest name kept, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Largest claims that are parsed, in bytes. Larger ones yield a digest only.
const MAX_READ_BYTES: usize = 64 * 1_024;

/// Statements of an agent about itself. They go into the record and have no other effect.
///
/// Recognised are the members `tools` (names, or objects with `name` and optionally `server`) and `output_tags` or
/// `tags` (names). The digest covers everything else. Claims cannot be malformed: text that is not JSON yields a
/// digest only.
///
/// ```
/// use countersign_registry::AgentClaims;
/// let claims = AgentClaims::from_json(br#"{"tools":["search","wire_money"],"admin":true}"#);
/// assert_eq!(claims.tools(), ["search", "wire_money"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentClaims {
    digest: Digest,
    tools: Vec<String>,
    tags: Vec<String>,
}

impl AgentClaims {
    /// Parses an agent's claims.
    #[must_use]
    pub fn from_json(bytes: &[u8]) -> Self {
        let mut claims = Self { digest: Digest::of(bytes), tools: Vec::new(), tags: Vec::new() };
        let limits = Limits::default().bytes(MAX_READ_BYTES).unwrap_or_default();
        if let Ok(canonical) = read(bytes, Recipe::Rfc8785, &limits) {
            let value = canonical.value();
            claims.tools = names(value.get("tools"));
            claims.tags = names(value.get("output_tags").or_else(|| value.get("tags")));
        }
        claims
    }

    /// Digest of the claims as received.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Tools that the agent named, at most 64, with invisible characters escaped and cut to 256 bytes.
    #[must_use]
    pub fn tools(&self) -> &[String] {
        &self.tools
    }

    /// Output tags that the agent named, at most 64, with invisible characters escaped and cut to 256 bytes.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Claimed names that the contract does not grant, for the record: at most 64.
    #[must_use]
    pub fn differences(&self, contract: &SessionContract) -> Vec<String> {
        let granted_tool = |name: &&String| {
            contract
                .tools()
                .iter()
                .any(|tool| tool.name().as_str() == name.as_str() || tool.to_string() == name.as_str())
        };
        let granted_tag =
            |name: &&String| contract.tags().iter().any(|tag| escape_hidden(tag.as_str()) == name.as_str());
        let tools = self.tools.iter().filter(|name| !granted_tool(name));
        let tags = self.tags.iter().filter(|name| !granted_tag(name));
        tools.chain(tags).take(MAX_NAMES).cloned().collect()
    }
}

fn names(list: Option<ValueRef<'_>>) -> Vec<String> {
    let elements = list.into_iter().flat_map(ValueRef::elements);
    elements.filter_map(name_of).take(MAX_NAMES).collect()
}

fn name_of(value: ValueRef<'_>) -> Option<String> {
    // why: cut before escaping too, so that a long name costs no more than a short one.
    let raw = if value.kind() == Kind::Object {
        let name = value.get("name")?.as_str()?;
        match value.get("server").and_then(ValueRef::as_str) {
            Some(server) => format!("{}:{}", cut(server, MAX_NAME_BYTES), cut(name, MAX_NAME_BYTES)),
            None => cut(name, MAX_NAME_BYTES).to_owned(),
        }
    } else {
        cut(value.as_str()?, MAX_NAME_BYTES).to_owned()
    };
    Some(cut(&escape_hidden(&raw), MAX_NAME_BYTES).to_owned())
}
