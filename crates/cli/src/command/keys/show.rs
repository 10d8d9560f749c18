use std::path::PathBuf;

use clap::Args;
use countersign_audit_log::LogKey;
use countersign_keys::VerifyingKey;
use countersign_keys::file::{AnyKey, read_any_key};
use countersign_tlog::note::KeyName;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};

#[derive(Debug, Args)]
pub(crate) struct KeysShowArgs {
    /// The key file.
    file: PathBuf,
    /// The key is that of the log with this origin: show what its checkpoints are verified by, `origin+id+key`.
    #[arg(long, value_name = "NAME")]
    origin: Option<KeyName>,
}

impl KeysShowArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let key =
            read_any_key(&self.file).map_err(|error| Failure::from(error).about(self.file.display()))?;
        if self.origin.is_some() && !matches!(key, AnyKey::Log(_)) {
            return Err(Failure::usage(
                "--origin is only valid for the key of a log: the file has a key of another kind",
            ));
        }
        match key {
            AnyKey::Signing(key) => self.public(out, "ed25519-signing", &key.verifying_key())?,
            AnyKey::Public(key) => self.public(out, "ed25519-public", &key)?,
            AnyKey::Log(key) => self.public(out, "ed25519-log", &key.verifying_key())?,
            AnyKey::Server(secret) => {
                let report = json!({"ok": true, "kind": "hmac", "key_id": secret.key_id()});
                out.result(&report, &format!("kind   hmac\nkey id {}", secret.key_id()))?;
            }
            _ => return Err(internal("a key of a kind that cannot be shown")),
        }
        Ok(Exit::Done)
    }

    fn public(&self, out: &mut Output, kind: &str, key: &VerifyingKey) -> Result<(), Failure> {
        let mut report = json!({
            "ok": true,
            "kind": kind,
            "key_id": key.key_id(),
            "public": key.to_base64(),
            "fingerprint": key.fingerprint(),
        });
        let mut text = format!(
            "kind        {kind}\nkey id      {}\npublic      {}\nfingerprint {}",
            key.key_id(),
            key.to_base64(),
            key.fingerprint()
        );
        if let Some(origin) = &self.origin {
            let verifier = LogKey::new(origin.clone(), *key).to_string();
            text.push_str(&format!("\nlog         {verifier}"));
            if let Some(report) = report.as_object_mut() {
                report.insert("verifier_key".to_owned(), verifier.into());
            }
        }
        out.result(&report, &text)
    }
}
