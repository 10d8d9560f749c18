use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use countersign_audit_log::LogKey;
use countersign_core::KeyId;
use countersign_keys::file::{
    KeyFileError, write_log_key, write_public_key, write_server_secret, write_signing_key,
};
use countersign_keys::{ServerSecret, SigningKey};
use countersign_tlog::note::KeyName;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::files::{Replace, must_be_free, write_file};
use crate::output::Output;
use countersign_host::random;

#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// `ed25519` signs registries, `hmac` mints approvals, `log` signs the checkpoints of a log.
    #[arg(long, value_enum)]
    kind: GeneratedKind,
    /// File to write the secret key to. It must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File to write the public half of an Ed25519 key to, for a log as `origin+id+key`. It must not exist.
    #[arg(long, value_name = "FILE")]
    public_out: Option<PathBuf>,
    /// Id of an HMAC key. An Ed25519 key's id is derived from the key.
    #[arg(long)]
    id: Option<KeyId>,
    /// A log's origin, which is also the name of its key: best a URL without its scheme, as example.com/log.
    #[arg(long, value_name = "NAME")]
    origin: Option<KeyName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GeneratedKind {
    Ed25519,
    Hmac,
    Log,
}

impl Generate {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match (self.kind, &self.origin) {
            (GeneratedKind::Log, Some(origin)) => self.log(out, origin),
            (GeneratedKind::Log, None) => {
                Err(Failure::usage("origin of the log's key missing: give --origin"))
            }
            (_, Some(_)) => Err(Failure::usage("--origin is only valid for the key of a log")),
            (GeneratedKind::Ed25519, None) => self.ed25519(out),
            (GeneratedKind::Hmac, None) => self.hmac(out),
        }
    }

    /// Generates a key and writes both halves, or neither.
    fn pair(
        &self,
        write_secret: impl Fn(&Path, &SigningKey) -> Result<(), KeyFileError>,
        write_public: impl Fn(&Path, &SigningKey) -> Result<(), Failure>,
    ) -> Result<SigningKey, Failure> {
        if self.id.is_some() {
            return Err(Failure::usage(
                "--id is not valid for an Ed25519 key: its id is derived from the key",
            ));
        }
        if self.public_out.as_ref() == Some(&self.out) {
            return Err(Failure::usage("--out and --public-out are the same file"));
        }
        for path in self.public_out.iter().chain([&self.out]) {
            must_be_free(path, Replace::Never)?;
        }
        let key = SigningKey::from_seed(*random::secret::<32>()?);
        write_secret(&self.out, &key).map_err(|error| about(&self.out, error))?;
        if let Some(path) = &self.public_out {
            write_public(path, &key).inspect_err(|_| {
                // Half a pair is useless: no one has the secret half yet.
                let _ = std::fs::remove_file(&self.out);
            })?;
        }
        Ok(key)
    }

    fn log(&self, out: &mut Output, origin: &KeyName) -> Result<Exit, Failure> {
        let named = |key: &SigningKey| LogKey::new(origin.clone(), key.verifying_key()).to_string();
        let key = self.pair(write_log_key, |path, key| {
            Ok(write_file(path, format!("{}\n", named(key)).as_bytes(), Replace::Never)?)
        })?;
        let verifier = named(&key);
        let report = json!({
            "ok": true,
            "kind": "log",
            "key_id": key.key_id(),
            "origin": origin.as_str(),
            "verifier_key": verifier,
            "out": self.out.display().to_string(),
            "public_out": self.public_out.as_ref().map(|path| path.display().to_string()),
        });
        self.print_result(out, &report, &verifier)
    }

    fn ed25519(&self, out: &mut Output) -> Result<Exit, Failure> {
        let key = self.pair(write_signing_key, |path, key| {
            write_public_key(path, &key.verifying_key()).map_err(|error| about(path, error))
        })?;
        let public = key.verifying_key();
        let report = json!({
            "ok": true,
            "kind": "ed25519",
            "key_id": key.key_id(),
            "public": public.to_base64(),
            "out": self.out.display().to_string(),
            "public_out": self.public_out.as_ref().map(|path| path.display().to_string()),
        });
        self.print_result(out, &report, key.key_id().as_str())
    }

    fn print_result(&self, out: &mut Output, report: &Value, name: &str) -> Result<Exit, Failure> {
        let text = format!("{name}\nsecret key in {}", self.out.display());
        let text = match &self.public_out {
            Some(path) => format!("{text}\npublic key in {}", path.display()),
            None => text,
        };
        out.result(report, &text)?;
        Ok(Exit::Done)
    }

    fn hmac(&self, out: &mut Output) -> Result<Exit, Failure> {
        if self.public_out.is_some() {
            return Err(Failure::usage("--public-out is not valid for an HMAC key: it has no public half"));
        }
        must_be_free(&self.out, Replace::Never)?;
        let id = match &self.id {
            Some(id) => id.clone(),
            None => random::id::<KeyId>("hmac")?,
        };
        let secret = ServerSecret::new(id, random::secret::<32>()?.as_ref())?;
        write_server_secret(&self.out, &secret).map_err(|error| about(&self.out, error))?;
        let report = json!({
            "ok": true,
            "kind": "hmac",
            "key_id": secret.key_id(),
            "out": self.out.display().to_string(),
        });
        out.result(&report, &format!("{}\nsecret key in {}", secret.key_id(), self.out.display()))?;
        Ok(Exit::Done)
    }
}

fn about(path: &Path, error: KeyFileError) -> Failure {
    Failure::from(error).about(path.display())
}
