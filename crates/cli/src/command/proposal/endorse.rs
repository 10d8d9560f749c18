use std::path::PathBuf;

use clap::Args;
use countersign_action_proposal::{EndorsedDigest, EndorsementDraft, EndorsementError};
use countersign_canonical_json::write_string;
use countersign_core::{Digest, ImpactClass, Millis, Principal, ServerName, Timestamp};
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::{Value, json};

use super::bounds::{Binding, BoundOptions};
use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, read_file, read_signers};
use crate::output::{Output, internal, note};
use crate::time::{moment, now};
use countersign_host::escape::shown_line;

/// Most bytes of an evidence file that verifiers accept.
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
    /// The only principal that it may be used for; give several times for several. Any principal without it.
    #[arg(long = "principal", value_name = "PRINCIPAL")]
    principals: Vec<Principal>,
    #[command(flatten)]
    bounds: BoundOptions,
    /// How many calls it backs, 1 to 100. Without it one where arguments are bound, and any number where none are.
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
    /// When it ends: a span from now, as a number and ms, s, m, h or d, or a moment, as RFC 3339 has it.
    #[arg(long, value_name = "SPAN|TIME", default_value = "30d", value_parser = end)]
    expires: EndorsementEnd,
    /// An earlier list, signed by the same keys: its entries that have not ended are signed again as they are, so that uses
    /// that are over stay over.
    #[arg(long = "with", value_name = "FILE")]
    earlier: Option<PathBuf>,
    /// An operator's signing key; give several where several must sign.
    #[arg(long = "key", required = true, value_name = "FILE")]
    keys: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum EndorsementEnd {
    After(Millis),
    At(Timestamp),
}

fn end(text: &str) -> Result<EndorsementEnd, String> {
    match text.parse() {
        Ok(span) => Ok(EndorsementEnd::After(span)),
        Err(_) => moment(text).map(EndorsementEnd::At).map_err(|_| "not a time span or a time".to_owned()),
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
            EndorsementEnd::After(span) => {
                issued.checked_add(span).map_err(|error| Failure::usage(error.to_string()))?
            }
            EndorsementEnd::At(moment) => moment,
        };
        let binding = self.bounds.read()?;
        let entries: Vec<_> =
            digests.iter().map(|digest| self.entry(digest, &binding, issued, expires)).collect();
        // Built as text: a number that is parsed and printed again could change.
        let list = format!(
            r#"{{"format":"countersign-evidence-digests-1","issued":{},"expires":{},"digests":[{}]}}"#,
            issued.as_millis(),
            expires.as_millis(),
            entries.join(","),
        );
        let draft = EndorsementDraft::from_json(list.as_bytes()).map_err(usage)?;
        let own = draft.entries().len();
        let draft = self.carry_over(draft, &keys)?;
        // The new entries come first.
        self.show(draft.entries().get(..own).unwrap_or_default(), &binding, expires);
        if let Some(path) = &self.earlier {
            let carried = draft.entries().len().saturating_sub(own);
            note(&format!("with       {carried} of the entries of `{}`", path.display()));
        }
        let envelope = draft.to_envelope(&keys.iter().collect::<Vec<&SigningKey>>()).to_json();
        let value: Value =
            serde_json::from_str(&envelope).map_err(|_| internal("an envelope is not JSON"))?;
        let ids: Vec<Digest> = draft.entries().iter().map(EndorsedDigest::id).collect();
        let report = json!({
            "ok": true, "digests": digests, "endorsements": ids, "expires": expires, "envelope": value,
        });
        out.result(&report, envelope.trim_end())?;
        Ok(Exit::Done)
    }

    fn entry(&self, digest: &Digest, binding: &Binding, issued: Timestamp, expires: Timestamp) -> String {
        // A stated scope allows nothing else, so an omitted option is left out.
        let parts = [
            ("tools", json!(self.tools), self.tools.is_empty()),
            ("servers", json!(self.servers), self.servers.is_empty()),
            ("impacts", json!(self.impacts), self.impacts.is_empty()),
            ("principals", json!(self.principals), self.principals.is_empty()),
        ];
        let mut text = format!(r#"{{"sha256":"{digest}""#);
        for (name, list, _) in parts.into_iter().filter(|(_, _, empty)| !empty) {
            text.push_str(&format!(r#","{name}":{list}"#));
        }
        text.push_str(&binding.members());
        let uses = self.uses.or(binding.is_bound().then_some(1));
        if let Some(uses) = uses {
            // The entry has times of its own: its uses are counted across every list that contains it.
            let (issued, expires) = (issued.as_millis(), expires.as_millis());
            text.push_str(&format!(r#","uses":{uses},"issued":{issued},"expires":{expires}"#));
        }
        text.push('}');
        text
    }

    /// Adds the entries of the earlier list that have not expired.
    fn carry_over(&self, draft: EndorsementDraft, keys: &[SigningKey]) -> Result<EndorsementDraft, Failure> {
        let Some(path) = &self.earlier else { return Ok(draft) };
        // why: only entries signed by the same keys, so that no one can make an operator sign another's entries.
        let root = TrustRoot::new(1, keys.len(), keys.iter().map(SigningKey::verifying_key))?;
        draft
            .carry_over(&read_file(path, REGISTRY_BYTES)?, &root)
            .map_err(|error| Failure::from(error).about(path.display()).into_refusal())
    }

    /// Prints the signed entries on standard error.
    fn show(&self, entries: &[EndorsedDigest], binding: &Binding, expires: Timestamp) {
        let mut lines: Vec<_> =
            entries.iter().map(|entry| format!("file       {}", entry.digest())).collect();
        let names = |names: Vec<String>| if names.is_empty() { "any".to_owned() } else { names.join(", ") };
        lines.push(format!("tools      {}", names(self.tools.iter().map(|name| shown_text(name)).collect())));
        lines.push(format!("servers    {}", names(self.servers.iter().map(ToString::to_string).collect())));
        lines.push(format!("impacts    {}", names(self.impacts.iter().map(ToString::to_string).collect())));
        let principals = self.principals.iter().map(|name| shown_text(name.as_str())).collect();
        lines.push(format!("principals {}", names(principals)));
        lines.extend(binding.shown());
        let uses = entries.first().and_then(EndorsedDigest::uses);
        lines.push(format!("uses       {}", uses.map_or("any number".to_owned(), |uses| uses.to_string())));
        lines.push(format!("until      {expires}"));
        if entries.iter().any(EndorsedDigest::lacks_args) {
            lines.push(
                "warning ENDORSEMENT_UNBOUND: no bound arguments: not valid for money, privacy and irreversible"
                    .to_owned(),
            );
        }
        note(&lines.join("\n"));
    }
}

/// Maps contradictory options to a usage error (exit 2).
fn usage(error: EndorsementError) -> Failure {
    let is_usage = matches!(error, EndorsementError::Bounds | EndorsementError::Uses);
    let failure = Failure::from(error);
    if is_usage { failure.ending(Exit::Usage) } else { failure }
}

/// Quotes text, with invisible characters escaped.
fn shown_text(text: &str) -> String {
    let mut quoted = String::new();
    write_string(&mut quoted, text);
    shown_line(&quoted)
}
