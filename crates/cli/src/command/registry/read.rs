use std::path::Path;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_keys::dsse::Envelope;
use countersign_registry::RegistryDraft;
use serde::Deserialize as _;
use serde_json::Value;

use crate::failure::Failure;
use crate::files::{REGISTRY_BYTES, read_file, read_trusted_file};

/// A registry from a file, signed or not, unverified.
#[derive(Debug)]
pub(crate) struct UnverifiedRegistry {
    /// Its content as a draft, checked like one.
    pub(crate) draft: RegistryDraft,
    /// Its content as JSON, with its times if it has them.
    pub(crate) json: Value,
    /// Ids of the keys that claim to have signed it; `None` for a draft.
    pub(crate) key_ids: Option<Vec<String>>,
}

/// Reads a draft.
pub(crate) fn read_draft(path: &Path) -> Result<RegistryDraft, Failure> {
    parse_draft(&read_file(path, REGISTRY_BYTES)?, path)
}

/// Parses the bytes of a draft's file.
pub(super) fn parse_draft(bytes: &[u8], path: &Path) -> Result<RegistryDraft, Failure> {
    RegistryDraft::from_json(bytes).map_err(|error| Failure::from(error).about(path.display()))
}

/// Reads a signed registry without verifying it.
pub(crate) fn read_envelope(path: &Path) -> Result<Envelope, Failure> {
    let bytes = read_trusted_file(path, REGISTRY_BYTES)?;
    Envelope::from_json(&bytes, bytes.len()).map_err(|error| Failure::from(error).about(path.display()))
}

/// Reads a draft or a signed registry, whichever the file contains.
///
/// why: the file's mode is not checked. Its content is only displayed and decides nothing, and a draft has no
/// signature.
pub(crate) fn read_either(path: &Path) -> Result<UnverifiedRegistry, Failure> {
    let bytes = read_file(path, REGISTRY_BYTES)?;
    let about = |failure: Failure| failure.about(path.display());
    let signed = json_of(&bytes).map_err(about)?.get("payload").is_some();
    if !signed {
        let draft = RegistryDraft::from_json(&bytes).map_err(|error| about(error.into()))?;
        return Ok(UnverifiedRegistry { draft, json: json_of(&bytes).map_err(about)?, key_ids: None });
    }
    let envelope = Envelope::from_json(&bytes, bytes.len()).map_err(|error| about(error.into()))?;
    let (draft, json) = parts(envelope.unverified_payload()).map_err(about)?;
    let key_ids = envelope.unverified_key_ids().map(str::to_owned).collect();
    Ok(UnverifiedRegistry { draft, json, key_ids: Some(key_ids) })
}

/// Splits a signed payload into its draft, and JSON that includes the times.
pub(crate) fn parts(payload: &[u8]) -> Result<(RegistryDraft, Value), Failure> {
    let json = json_of(payload)?;
    let mut timeless = json.clone();
    if let Some(members) = timeless.as_object_mut() {
        members.remove("issued");
        members.remove("expires");
    }
    Ok((RegistryDraft::from_json(timeless.to_string().as_bytes())?, json))
}

fn json_of(bytes: &[u8]) -> Result<Value, Failure> {
    let limits = Limits::hard_caps();
    let read =
        read(bytes, Recipe::Jcs1, &limits).map_err(|error| countersign_host::inputs::malformed(&error))?;
    Value::deserialize(read.value()).map_err(|error| Failure::new("REGISTRY_CONTENT", error.to_string()))
}
