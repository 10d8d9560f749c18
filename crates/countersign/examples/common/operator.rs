// One-time setup by an operator, in a temporary folder: a key, a trust root and a signed registry for a small support
// desk. On the command line these are `countersign keys generate`, `keys trust` and `registry sign`.

use std::error::Error;

use countersign::keys::trusted::write_public;

/// The operator's signing key. For the examples only: a real one comes from `countersign keys generate`.
pub(crate) const OPERATOR_SEED: [u8; 32] = [7; 32];

/// Makes a folder that contains `registry.json` and `trust-root.json`.
pub(crate) fn desk(name: &str) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("countersign-{name}-{}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir(&folder)?;
    let operator = countersign::keys::SigningKey::from_seed(OPERATOR_SEED);
    let root = countersign::keys::TrustRoot::new(1, 1, vec![operator.verifying_key()])?;
    write_public(&folder.join("trust-root.json"), root.to_json().as_bytes())?;
    sign(&folder, 1, &[])?;
    Ok(folder)
}

/// Signs a version of the registry in which these agents are revoked.
pub(crate) fn sign(folder: &std::path::Path, version: u64, revoked: &[&str]) -> Result<(), Box<dyn Error>> {
    use countersign::core::{Clock as _, Millis, SystemClock};
    let revoked = revoked.iter().map(|agent| format!("{agent:?}")).collect::<Vec<_>>().join(",");
    let draft = DRAFT.replace("VERSION", &version.to_string()).replace("REVOKED", &revoked);
    let draft = countersign::registry::RegistryDraft::from_json(draft.as_bytes())?;
    let now = SystemClock::new().now()?;
    let operator = countersign::keys::SigningKey::from_seed(OPERATOR_SEED);
    let envelope = draft.sign(now, now.checked_add(Millis::from_secs(3_600))?, &[&operator])?;
    write_public(&folder.join("registry.json"), envelope.to_json().as_bytes())?;
    Ok(())
}

const DRAFT: &str = r#"{
  "format": "countersign-registry-1",
  "version": VERSION,
  "agents": [{
    "agent": "support-bot", "version": 1, "registered_by": "desk-operator",
    "tools": [{"server": "desk", "name": "search"}, {"server": "desk", "name": "refund"}],
    "output_tags": ["answer"], "max_session": "30m"
  }],
  "tools": [
    {"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
     "args_schema": {"type": "object", "properties": {"query": {"type": "string"}},
                     "required": ["query"], "additionalProperties": false}},
    {"server": "desk", "name": "refund", "impact": "money", "approval": "required", "ask": "required",
     "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}, "amount": {"type": "number"}},
                     "required": ["ticket", "amount"], "additionalProperties": false}},
    {"server": "desk", "name": "delete_ticket", "impact": "irreversible", "approval": "required",
     "args_schema": {"type": "object"}}
  ],
  "revoked": {"agents": [REVOKED], "keys": [], "snapshots": []}
}"#;
