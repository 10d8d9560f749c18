use std::path::{Path, PathBuf};

use clap::Args;
use countersign_audit_log::{
    AuditError, ClosingError, ClosingNote, LogKey, RetireError, RetireWhich, Retired, interrupted_retirement,
    retire_log, unsummed_names, verify_closing,
};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use serde_json::json;

use super::log::KeySource;
use super::own::{OwnLog, options, read_key, state_line};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::time::now;

#[derive(Debug, Args)]
pub(crate) struct Retire {
    #[command(flatten)]
    log: OwnLog,
    /// Origin of the new log, never used by another log.
    #[arg(long, value_name = "NEW")]
    origin: KeyName,
}

#[derive(Debug, Args)]
pub(crate) struct RotateKey {
    #[command(flatten)]
    log: OwnLog,
    /// Ed25519 key file of the new log.
    #[arg(long, value_name = "FILE")]
    new_key: PathBuf,
    /// Origin of the new log, never used by another log.
    #[arg(long, value_name = "NEW")]
    origin: KeyName,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyClosing {
    /// The retired folder.
    folder: PathBuf,
    /// The public key of the folder's first log, `origin+id+key`, or a file that holds it.
    #[arg(long, value_name = "KEY")]
    key: KeySource,
}

impl Retire {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let next = self.log.key()?;
        run(&self.log, &self.origin, next, RetireWhich::Any, out)
    }
}

impl RotateKey {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let next = read_key(&self.new_key)?;
        if next.verifying_key() == self.log.key()?.verifying_key() {
            return Err(Failure::usage("the new key equals the old key"));
        }
        run(&self.log, &self.origin, next, RetireWhich::Sound, out)
    }
}

fn run(
    log: &OwnLog,
    origin: &KeyName,
    next: SigningKey,
    which: RetireWhich,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let (key, now) = (log.key()?, now()?);
    // why: `.` names the folder that was moved, once it was.
    let folder = match log.folder() {
        named if named.file_name().is_some() => named.to_owned(),
        unnamed => std::path::absolute(unnamed)
            .map_err(|error| Failure::new("AUDIT_UNAVAILABLE", error.to_string()).about(unnamed.display()))?,
    };
    let folder = folder.as_path();
    let next_key = LogKey::new(origin.clone(), next.verifying_key());
    let closed = interrupted_retirement(folder, &key.verifying_key(), &next_key)
        .map_err(|error| Failure::from(error).about(folder.display()))?;
    // The state may lack the log that an interrupted run began.
    let closed = closed.map_or_else(|| log.verifier(), |closed| Ok(Some(closed)))?;
    let state = log.state(closed.as_ref())?;
    let next = options(origin.clone(), next, state.as_deref(), now);
    let done = retire_log(folder, &key, next, which, now).map_err(|error| {
        let is_no = matches!(
            &error,
            RetireError::Key | RetireError::Log(AuditError::Log(_) | AuditError::NotContinued { .. })
        );
        let failure = Failure::from(error).about(folder.display());
        if is_no { failure.into_refusal() } else { failure }
    })?;
    let Retired { closing, digest, seq, .. } = &done;
    let retired = folder.with_file_name(done.folder.file_name().unwrap_or_default());
    let unsummed = unsummed(&retired)?;
    let retired = retired.display();
    let report = json!({
        "ok": true,
        "retired": retired.to_string(),
        "closing": digest,
        "note": closing,
        "next": closing.next,
        "seq": seq,
        "no_sum": unsummed,
        "state": state,
    });
    let (old, folder, next) = (&closing.origin, folder.display(), &closing.next);
    let text = format!(
        "{}{}\nlog `{folder}` begins as {origin}, its key is {next}{}\nset this origin wherever the log is written, and take away \
         checkpoints that were kept of {old}",
        described(closing, &retired.to_string(), &format!("note sha-256 {digest}")),
        unsummed_line(&unsummed),
        state_line(state.as_deref()),
    );
    out.result(&report, &text)?;
    Ok(Exit::Done)
}

fn described(closing: &ClosingNote, folder: &str, digest: &str) -> String {
    let ClosingNote { origin, bytes, .. } = closing;
    let files = if closing.files == 1 { "1 file".to_owned() } else { format!("{} files", closing.files) };
    let logs = closing.logs.iter().map(|log| {
        let upto = log.checkpoint.as_deref().and_then(|note| note.lines().nth(1)).unwrap_or("0");
        let damage = log.code.as_ref().map(|code| format!(", then {code}")).unwrap_or_default();
        format!("\n{}: verifies up to {upto} entries{damage}", log.origin)
    });
    let logs = logs.collect::<String>();
    format!("{origin} closed in `{folder}`: {files}, {bytes} bytes, {digest}{logs}")
}

/// Lists the files without a checksum in a closed folder.
fn unsummed(folder: &Path) -> Result<Vec<String>, Failure> {
    let names = unsummed_names(folder);
    names.map_err(|error| Failure::from(ClosingError::from(error)).about(folder.display()))
}

fn unsummed_line(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nno sum, since they are no plain files or have names that a list cannot hold: {}",
        names.join(", ")
    )
}

impl VerifyClosing {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let about = |failure: Failure| failure.about(self.folder.display());
        let closing = verify_closing(&self.folder, &self.key.read()?).map_err(|error| {
            let is_mishap = matches!(error, ClosingError::Missing | ClosingError::Io(_));
            let failure = about(error.into());
            if is_mishap { failure } else { failure.into_refusal() }
        })?;
        let unsummed = unsummed(&self.folder)?;
        let report = json!({"ok": true, "note": closing, "no_sum": unsummed});
        let text = format!(
            "{}{}\nthe log that goes on: {}",
            described(
                &closing,
                &self.folder.display().to_string(),
                &format!("sums sha-256 {}", closing.sums)
            ),
            unsummed_line(&unsummed),
            closing.next
        );
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}
