use countersign_canonical_json::{Canonical, Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

/// Recipe of the payload: its members and their meaning.
pub(crate) const RECIPE: &str = "approval-1";

/// Domain label that the tag covers before the payload.
pub(crate) const LABEL: &str = "countersign/approval-1";

/// Members of a token. Absent members are left out and never `null`.
///
/// why: strings borrow from the parsed text, since most of them are only compared.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Payload<'a> {
    pub(crate) recipe: &'a str,
    pub(crate) key_id: &'a str,
    pub(crate) token_id: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<Digest>,
    pub(crate) args: Digest,
    pub(crate) args_recipe: &'a str,
    pub(crate) principal: &'a str,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<&'a str>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    pub(crate) run: &'a str,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) registry_version: Option<u64>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<&'a str>,
    pub(crate) approver: &'a str,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl Payload<'_> {
    /// Returns the canonical bytes, or `None` if a number has no exact form.
    pub(crate) fn to_canonical(&self) -> Option<Canonical> {
        to_canonical(self).ok()
    }
}

/// Reads payload bytes that are canonical, so that a payload has one spelling.
pub(crate) fn read_canonical(bytes: &[u8]) -> Option<Canonical> {
    let canonical = read(bytes, Recipe::Jcs1, &Limits::default()).ok()?;
    (canonical.bytes() == bytes).then_some(canonical)
}

/// Reads an optional member that is present. `null` is refused: absence has one spelling.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
