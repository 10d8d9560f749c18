//! Reads the operator's files: trust root, keyring, keys, tool definitions; and the registry again during a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_action_proposal::EvidenceKeyring;
use countersign_audit_log::{AuditSink, Direction, GatewayRecord, Record};
use countersign_canonical_json::{JsonError, Limits, Recipe, ValueRef, read};
use countersign_core::{Digest, RunId, ServerName, SessionId, Timestamp, ToolId};
use countersign_keys::file::read_server_secret;
use countersign_keys::{Keyring, RunKeys, TrustRoot};
use countersign_registry::{CapabilityRegistry, definition_digest};

use crate::error::{HostError, chain};
use crate::files::{REGISTRY_BYTES, TEXT_BYTES, read_file, read_trusted_file};
use crate::report::Reporter;
use crate::time::now;

/// Reads a trust root.
///
/// # Errors
/// A file that cannot be read or trusted, or that is no trust root.
pub fn read_trust_root(path: &Path) -> Result<TrustRoot, HostError> {
    let bytes = read_trusted_file(path, REGISTRY_BYTES)?;
    TrustRoot::from_json(&bytes).map_err(|error| HostError::from(error).about(path.display()))
}

/// Reads a keyring for evidence.
///
/// # Errors
/// A file that cannot be read or trusted, or that is wrong in any place.
pub fn read_evidence_keyring(path: &Path, now: Timestamp) -> Result<EvidenceKeyring, HostError> {
    let bytes = read_trusted_file(path, TEXT_BYTES)?;
    EvidenceKeyring::from_json_at(&bytes, now).map_err(|error| {
        let about = match error.place() {
            Some(place) if !place.is_empty() => format!("{}, {place}", path.display()),
            _ => path.display().to_string(),
        };
        HostError::from(error).about(about)
    })
}

/// Derives the keys of one run from a gate's key file.
///
/// # Errors
/// A key file that cannot be read or trusted.
pub fn run_keys(path: &Path, run: &RunId) -> Result<RunKeys, HostError> {
    let secret = read_server_secret(path).map_err(|error| HostError::from(error).about(path.display()))?;
    Ok(Keyring::new(secret).for_run(run))
}

/// Reads a gate's HMAC key file, and derives the keys that sign grants. They outlast a session.
///
/// # Errors
/// A key file that cannot be read or is refused.
pub fn grant_keys(path: &Path) -> Result<RunKeys, HostError> {
    let run = RunId::new("grants").map_err(|_| HostError::internal("a fixed id is not valid"))?;
    run_keys(path, &run)
}

/// Reads the definitions of a server's tools from its answer to `tools/list`: the result, or the whole answer.
///
/// # Errors
/// A file that cannot be read, JSON that is refused, and `TOOL_DEFINITION_SHAPE`.
pub fn read_definitions(server: &ServerName, path: &Path) -> Result<Vec<(ToolId, Digest)>, HostError> {
    let about = |failure: HostError| failure.about(path.display());
    let bytes = read_file(path, REGISTRY_BYTES)?;
    let limits = Limits::hard_caps();
    let answer = read(&bytes, Recipe::Rfc8785, &limits).map_err(|error| about(malformed(&error)))?;
    let value = answer.value();
    let tools = value.get("tools").or_else(|| value.pointer("/result/tools"));
    let tools =
        tools.ok_or_else(|| about(HostError::new("TOOL_DEFINITION_SHAPE", "list of tools missing")))?;
    let one = |tool: ValueRef<'_>| {
        let digest = definition_digest(tool)?;
        let name = tool.get("name").and_then(ValueRef::as_str).unwrap_or_default();
        let id = ToolId::new(server.as_str(), name)
            .map_err(|error| HostError::new("TOOL_DEFINITION_SHAPE", error.to_string()))?;
        Ok((id, digest))
    };
    tools.elements().map(one).collect::<Result<_, HostError>>().map_err(about)
}

/// Error for invalid JSON. Its text omits the code, which is printed before it.
#[must_use]
pub fn malformed(error: &JsonError) -> HostError {
    let text = error.to_string();
    let place = text.strip_prefix(&format!("`{}` ", error.code())).unwrap_or(&text);
    HostError::new(error.code(), place)
}

/// Follows the registry file during a session. Failures are reported and recorded.
pub(crate) fn follow_registry(
    registry: &CapabilityRegistry,
    path: PathBuf,
    session: SessionId,
    sink: Arc<dyn AuditSink>,
    reporter: Reporter,
) {
    let about = path.display().to_string();
    registry.follow(path, move |error| {
        let failure = HostError::new(error.code(), chain(error)).about(&about);
        let text = |why: &str| format!("the registry was not loaded again: {why}");
        reporter.warn(failure.code(), &text(&failure.line()));
        let time = now().unwrap_or(Timestamp::EPOCH);
        let mut record = GatewayRecord::new(time, Direction::ToServer, failure.code());
        record.session = Some(session.clone());
        record.reason = Some(text(failure.message()).as_str().into());
        // The gate notices a failing sink itself and refuses the call.
        let _ = sink.record(&Record::Gateway(record));
    });
}
