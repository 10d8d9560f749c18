use std::path::{Path, PathBuf};

use clap::Args;
use countersign_action_proposal::{EvidenceKey, EvidenceKeyring, KeyScope, KeyStatus};
use countersign_core::{ImpactClass, Timestamp, escape_hidden};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};
use crate::files::{TEXT_BYTES, read_file};
use crate::output::Output;
use crate::time::{moment, now};

/// What a keyring can say, with public keys that belong to nobody.
const EXAMPLE: &str = r#"{
  "trusted_keys": {
    "demo-signer": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    "cfo-1": {
      "public_key": "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=",
      "not_before": "2026-01-01T00:00:00Z",
      "expires_at": "2030-01-01T00:00:00Z",
      "tools": ["payments_send"],
      "impacts": ["money"],
      "principals": ["alice"]
    }
  },
  "revoked_keys": ["cfo-0"],
  "revoked_fingerprints": [],
  "thresholds": {"irreversible": 2}
}"#;

#[derive(Debug, Args)]
pub(crate) struct Keyring {
    /// The keyring.
    #[arg(required_unless_present = "write_example")]
    file: Option<PathBuf>,
    /// Print a keyring to begin with, instead.
    #[arg(long, conflicts_with = "file")]
    write_example: bool,
    /// The moment to judge at, as RFC 3339 has it; now without it.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    now: Option<Timestamp>,
}

impl Keyring {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let Some(path) = self.file.as_ref().filter(|_| !self.write_example) else {
            out.line(EXAMPLE)?;
            return Ok(Exit::Done);
        };
        let keyring = read_evidence_keyring(path)?;
        let now = self.now.map_or_else(now, Ok)?;
        if out.is_json() {
            out.json(&report(&keyring, now))?;
        } else {
            tell(out, &keyring, now)?;
        }
        Ok(Exit::Done)
    }
}

/// Reads the keyring that evidence is verified with. One that cannot be used, whatever the reason, ends the run as
/// PIC/1.0's own verb does.
pub(crate) fn read_evidence_keyring(path: &Path) -> Result<EvidenceKeyring, Failure> {
    let bytes = read_file(path, TEXT_BYTES).map_err(|failure| failure.ending(Exit::Keyring))?;
    EvidenceKeyring::from_json(&bytes).map_err(|error| {
        let about = match error.place() {
            Some(place) if !place.is_empty() => format!("{}, {place}", path.display()),
            _ => path.display().to_string(),
        };
        Failure::from(error).about(about).ending(Exit::Keyring)
    })
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
            "impacts": key.scope().impacts().map(Iterator::collect::<Vec<_>>),
            "principals": key.scope().principals().map(Iterator::collect::<Vec<_>>),
        })
    };
    let thresholds: Map<_, _> =
        thresholds(keyring).map(|(impact, count)| (impact.to_string(), json!(count))).collect();
    json!({
        "ok": true,
        "keys": keyring.keys().map(entry).collect::<Vec<_>>(),
        "active": active(keyring, now),
        "thresholds": thresholds,
    })
}

fn tell(out: &mut Output, keyring: &EvidenceKeyring, now: Timestamp) -> Result<(), Failure> {
    out.line(&format!("{} keys, {} active", keyring.len(), active(keyring, now)))?;
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
    for (impact, count) in thresholds(keyring) {
        out.line(&format!("{impact}: {count} keys must sign"))?;
    }
    Ok(())
}

/// The parts of a scope that are stated. One that is not allows everything.
fn scope(scope: &KeyScope) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let tools = scope.tools().map(|tools| tools.map(str::to_owned).collect());
    let impacts = scope.impacts().map(|impacts| impacts.map(|impact| impact.to_string()).collect());
    let principals = scope.principals().map(|principals| principals.map(ToString::to_string).collect());
    let parts = [("tools", tools), ("impacts", impacts), ("principals", principals)];
    parts.into_iter().filter_map(|(what, names)| Some((what, names?)))
}

fn active(keyring: &EvidenceKeyring, now: Timestamp) -> usize {
    keyring.keys().filter(|(id, _)| keyring.status(id, now) == KeyStatus::Ok).count()
}

/// The impacts that more than one key must sign for.
fn thresholds(keyring: &EvidenceKeyring) -> impl Iterator<Item = (ImpactClass, usize)> {
    let all = ImpactClass::ALL.into_iter().map(|impact| (impact, keyring.threshold(impact)));
    all.filter(|(_, count)| *count > 1)
}
