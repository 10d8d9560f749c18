use std::path::PathBuf;

use clap::Args;
use countersign_keys::VerifyingKey;
use countersign_keys::file::{AnyKey, read_any_key};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The key file.
    file: PathBuf,
}

impl Show {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match read_any_key(&self.file).map_err(|error| Failure::from(error).about(self.file.display()))? {
            AnyKey::Signing(key) => public(out, "ed25519-signing", &key.verifying_key())?,
            AnyKey::Public(key) => public(out, "ed25519-public", &key)?,
            AnyKey::Server(secret) => {
                let report = json!({"ok": true, "kind": "hmac", "key_id": secret.key_id()});
                out.result(&report, &format!("kind   hmac\nkey id {}", secret.key_id()))?;
            }
            _ => return Err(internal("a key of a kind that cannot be shown")),
        }
        Ok(Exit::Done)
    }
}

fn public(out: &mut Output, kind: &str, key: &VerifyingKey) -> Result<(), Failure> {
    let report = json!({
        "ok": true,
        "kind": kind,
        "key_id": key.key_id(),
        "public": key.to_base64(),
        "fingerprint": key.fingerprint(),
    });
    let text = format!(
        "kind        {kind}\nkey id      {}\npublic      {}\nfingerprint {}",
        key.key_id(),
        key.to_base64(),
        key.fingerprint()
    );
    out.result(&report, &text)
}
