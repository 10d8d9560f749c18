use std::path::PathBuf;

use clap::Args;
use countersign_action_proposal::EndorsementDraft;
use countersign_core::{Digest, ImpactClass, Millis, Principal, ServerName, Timestamp};
use countersign_keys::SigningKey;
use serde_json::{Value, json};

use crate::command::keys::read_signers;
use crate::failure::{Exit, Failure};
use crate::files::read_file;
use crate::output::{Output, internal};
use crate::time::{moment, now};

/// The most bytes of an evidence file: what verifiers take.
const FILE_BYTES: u64 = 5 * 1_024 * 1_024;

#[derive(Debug, Args)]
pub(crate) struct Endorse {
    /// An evidence file; give several times for several.
    #[arg(long = "file", value_name = "FILE", required_unless_present = "digests")]
    files: Vec<PathBuf>,
    /// The SHA-256 of an evidence file; give several times for several.
    #[arg(long = "sha256", value_name = "SHA256")]
    digests: Vec<Digest>,
    /// The only tool that it may back; give several times for several. Any tool without it.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// The only server whose tools it may back; give several times for several. Any server without it.
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<ServerName>,
    /// The only impact that it may back; give several times for several. Any impact without it.
    #[arg(long = "impact", value_name = "IMPACT")]
    impacts: Vec<ImpactClass>,
    /// The only principal that it may be used for; give several times for several. Anybody without it.
    #[arg(long = "principal", value_name = "PRINCIPAL")]
    principals: Vec<Principal>,
    /// When it ends: a span from now, as a number and ms, s, m, h or d, or a moment, as RFC 3339 has it.
    #[arg(long, value_name = "SPAN|TIME", default_value = "30d", value_parser = end)]
    expires: End,
    /// An operator's signing key; give several where several must sign.
    #[arg(long = "key", required = true, value_name = "FILE")]
    keys: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    After(Millis),
    At(Timestamp),
}

fn end(text: &str) -> Result<End, String> {
    match text.parse() {
        Ok(span) => Ok(End::After(span)),
        Err(_) => moment(text).map(End::At).map_err(|_| "neither a span nor a moment".to_owned()),
    }
}

impl Endorse {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let keys = read_signers(&self.keys)?;
        let mut digests = self.digests.clone();
        for path in &self.files {
            digests.push(Digest::of(&read_file(path, FILE_BYTES)?));
        }
        let issued = now()?;
        let expires = match self.expires {
            End::After(span) => {
                issued.checked_add(span).map_err(|error| Failure::usage(error.to_string()))?
            }
            End::At(moment) => moment,
        };
        let list = json!({
            "format": "countersign-evidence-digests-1",
            "issued": issued,
            "expires": expires,
            "digests": digests.iter().map(|digest| self.entry(digest)).collect::<Vec<_>>(),
        });
        let draft = EndorsementDraft::from_json(list.to_string().as_bytes())?;
        let envelope = draft.to_envelope(&keys.iter().collect::<Vec<&SigningKey>>()).to_json();
        let value: Value =
            serde_json::from_str(&envelope).map_err(|_| internal("an envelope is not JSON"))?;
        let report = json!({"ok": true, "digests": digests, "expires": expires, "envelope": value});
        out.result(&report, envelope.trim_end())?;
        Ok(Exit::Done)
    }

    fn entry(&self, digest: &Digest) -> Value {
        // A scope that is stated allows nothing else, so what was not given is not stated.
        let parts = [
            ("tools", json!(self.tools), self.tools.is_empty()),
            ("servers", json!(self.servers), self.servers.is_empty()),
            ("impacts", json!(self.impacts), self.impacts.is_empty()),
            ("principals", json!(self.principals), self.principals.is_empty()),
        ];
        let stated = parts.into_iter().filter(|(_, _, empty)| !empty).map(|(name, list, _)| (name, list));
        let members = [("sha256", json!(digest))].into_iter().chain(stated);
        members.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
