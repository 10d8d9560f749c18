use countersign_canonical_json::{Canonical, Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

/// The recipe of the payload: which members there are and what they mean.
pub(crate) const RECIPE: &str = "approval-1";

/// The domain label that the tag covers before the payload.
pub(crate) const LABEL: &str = "countersign/approval-1";

/// What a token says, member by member. Absent members are left out and never `null`.
///
/// Strings borrow from the reading: nearly all of them are only compared.
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
    /// The canonical bytes, if every number can be written exactly.
    pub(crate) fn to_canonical(&self) -> Option<Canonical> {
        to_canonical(self).ok()
    }
}

/// Reads payload bytes if they are canonical: a payload has one spelling.
pub(crate) fn read_canonical(bytes: &[u8]) -> Option<Canonical> {
    let canonical = read(bytes, Recipe::Jcs1, &Limits::default()).ok()?;
    (canonical.bytes() == bytes).then_some(canonical)
}

/// Reads an optional member that is there: `null` is neither a value nor the same as absent.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
