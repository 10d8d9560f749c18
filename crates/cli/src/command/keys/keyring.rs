use std::path::{Path, PathBuf};

use clap::Args;
use countersign_action_proposal::{EvidenceKey, EvidenceKeyring, KeyScope, KeyStatus};
use countersign_core::{Timestamp, escape_hidden};
use countersign_keys::file::read_public_key;
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};
use crate::time::{moment, now};

/// Example of a keyring. Its keys are placeholders, so it is refused until they are replaced.
const EXAMPLE: &str = r#"{
  "trusted_keys": {
    "assistant-1": "PUBLIC KEY: base64, 64 hexadecimal digits, or PEM",
    "cfo-1": {
      "public_key": "PUBLIC KEY",
      "not_before": "2026-01-01T00:00:00Z",
      "expires_at": "2030-01-01T00:00:00Z",
      "tools": ["payments_send"],
      "servers": ["bank"],
      "impacts": ["money"],
      "principals": ["alice"]
    }
  },
  "revoked_keys": ["cfo-0"],
  "revoked_fingerprints": [],
  "thresholds": {"irreversible": 2}
}"#;

#[derive(Debug, Args)]
pub(crate) struct KeyringArgs {
    /// The keyring.
    #[arg(required_unless_present_any = ["write_example", "add"])]
    file: Option<PathBuf>,
    /// Print a keyring with the key of this public key file under this id, beside the keys of [FILE] if one is given. May
    /// be used several times.
    #[arg(long, value_name = "ID=FILE", value_parser = named_file)]
    add: Vec<(String, PathBuf)>,
    /// Print what a keyring can say, instead. It is refused until its keys are replaced.
    #[arg(long, conflicts_with_all = ["file", "add"])]
    write_example: bool,
    /// Time of the check, in RFC 3339; without it, now.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    now: Option<Timestamp>,
}

impl KeyringArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let now = self.now.map_or_else(now, Ok)?;
        let keyring = match &self.file {
            Some(path) => read_evidence_keyring(path, now)?,
            None => EvidenceKeyring::empty(),
        };
        if self.write_example || !self.add.is_empty() {
            let text =
                if self.write_example { EXAMPLE.to_owned() } else { with_keys(&keyring, &self.add, now)? };
            if out.is_json() {
                let keyring: Value = serde_json::from_str(&text).map_err(|_| not_an_object())?;
                out.json(&json!({"ok": true, "keyring": keyring}))?;
            } else {
                out.line(&text)?;
            }
            return Ok(Exit::Done);
        }
        if out.is_json() {
            out.json(&report(&keyring, now))?;
        } else {
            print_result(out, &keyring, now)?;
        }
        Ok(Exit::Done)
    }
}

fn not_an_object() -> Failure {
    internal("a keyring is not an object")
}

/// Splits `ID=FILE`.
fn named_file(text: &str) -> Result<(String, PathBuf), &'static str> {
    let (id, file) = text.split_once('=').ok_or("ID=FILE expected, with the file of a public key")?;
    Ok((id.to_owned(), file.into()))
}

/// Returns the keyring's text with more keys. It is parsed again, so that no invalid keyring is printed.
fn with_keys(
    keyring: &EvidenceKeyring,
    more: &[(String, PathBuf)],
    now: Timestamp,
) -> Result<String, Failure> {
    let mut file: Value = serde_json::from_str(&keyring.to_json()).map_err(|_| not_an_object())?;
    let keys =
        file.as_object_mut().ok_or_else(not_an_object)?.entry("trusted_keys").or_insert_with(|| json!({}));
    for (id, path) in more {
        let key = read_public_key(path).map_err(|error| Failure::from(error).about(path.display()))?;
        let taken =
            keys.as_object_mut().ok_or_else(not_an_object)?.insert(id.clone(), json!(key.to_base64()));
        if taken.is_some() {
            return Err(
                Failure::new("KEYRING_KEY_ID", "duplicate key id in the keyring").ending(Exit::Keyring)
            );
        }
    }
    let text = serde_json::to_string_pretty(&file).map_err(|_| not_an_object())?;
    EvidenceKeyring::from_json_at(text.as_bytes(), now)
        .map_err(|error| Failure::from(error).ending(Exit::Keyring))?;
    Ok(text)
}

/// Reads the keyring that verifies evidence. Any failure exits with PIC/1.0's own code for keyrings.
pub(crate) fn read_evidence_keyring(path: &Path, now: Timestamp) -> Result<EvidenceKeyring, Failure> {
    let keyring = countersign_host::inputs::read_evidence_keyring(path, now);
    keyring.map_err(|error| Failure::from(error).ending(Exit::Keyring))
}

fn report(keyring: &EvidenceKeyring, now: Timestamp) -> Value {
    let entry = |(id, key): (&str, &EvidenceKey)| {
        json!({
            "id": id,
            "status": keyring.status(id, now).as_str(),
            "fingerprint": key.key().fingerprint(),
            "public": key.key().to_base64(),
            "not_before": key.not_before().map(|time| time.to_string()),
            "expires_at": key.expires().map(|time| time.to_string()),
            "tools": key.scope().tools().map(Iterator::collect::<Vec<_>>),
            "servers": key.scope().servers().map(Iterator::collect::<Vec<_>>),
            "impacts": key.scope().impacts().map(Iterator::collect::<Vec<_>>),
            "principals": key.scope().principals().map(Iterator::collect::<Vec<_>>),
        })
    };
    let thresholds: Map<_, _> =
        keyring.thresholds().map(|(impact, count)| (impact.to_string(), json!(count))).collect();
    json!({
        "ok": true,
        "keys": keyring.keys().map(entry).collect::<Vec<_>>(),
        "weak": keyring.weak_ids().map(|id| json!({"id": id, "status": keyring.status(id, now).as_str()}))
            .collect::<Vec<_>>(),
        "active": active(keyring, now),
        "thresholds": thresholds,
    })
}

fn print_result(out: &mut Output, keyring: &EvidenceKeyring, now: Timestamp) -> Result<(), Failure> {
    let count = keyring.len();
    let keys = if count == 1 { "key" } else { "keys" };
    out.line(&format!("{count} {keys}, {} active", active(keyring, now)))?;
    for (id, key) in keyring.keys() {
        let (id, status) = (escape_hidden(id), keyring.status(id, now));
        out.line(&format!("{id}  {status}  {}", key.key().fingerprint()))?;
        if let Some(time) = key.not_before() {
            out.line(&format!("  from        {time}"))?;
        }
        if let Some(time) = key.expires() {
            out.line(&format!("  until       {time}"))?;
        }
        for (what, names) in scope(key.scope()) {
            out.line(&format!("  {what:<10}  {}", escape_hidden(&names.join(", "))))?;
        }
    }
    for id in keyring.weak_ids() {
        out.line(&format!("{}  {}  (the key is weak)", escape_hidden(id), keyring.status(id, now)))?;
    }
    for (impact, count) in keyring.thresholds() {
        let keys = if count == 1 { "key" } else { "keys" };
        out.line(&format!("{impact}: {count} {keys} must sign"))?;
    }
    Ok(())
}

/// Returns the stated parts of a scope. A part that is not stated allows everything.
fn scope(scope: &KeyScope) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let tools = scope.tools().map(|tools| tools.map(str::to_owned).collect());
    let servers = scope.servers().map(|servers| servers.map(ToString::to_string).collect());
    let impacts = scope.impacts().map(|impacts| impacts.map(|impact| impact.to_string()).collect());
    let principals = scope.principals().map(|principals| principals.map(ToString::to_string).collect());
    let parts = [("tools", tools), ("servers", servers), ("impacts", impacts), ("principals", principals)];
    parts.into_iter().filter_map(|(what, names)| Some((what, names?)))
}

fn active(keyring: &EvidenceKeyring, now: Timestamp) -> usize {
    keyring.keys().filter(|(id, _)| keyring.status(id, now) == KeyStatus::Ok).count()
}
