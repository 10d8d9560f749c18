use std::path::PathBuf;

use clap::Args;
use countersign_action_proposal::{
    ActionProposal, AttestationDraft, EvidenceEntry, ProposedCall, SignedAttestation,
};
use countersign_canonical_json::{Canonical, write_string};
use countersign_core::{Audience, Millis, Timestamp};

use super::facts::Bound;
use super::read::{evidence_texts, limits, read_proposal, refusal, with_evidence};
use crate::command::keys::read_signers;
use crate::failure::{Exit, Failure, one_line};
use crate::files::{Replace, Source, must_be_free, write_file};
use crate::output::{Output, internal, note};
use crate::random;
use crate::shown::shown_json;
use crate::time::{moment, now};

#[derive(Debug, Args)]
pub(crate) struct Attest {
    /// The proposal; `-` is standard input. Its evidence need not hold the entry yet, but has to hold every file: strictly,
    /// one that is added, left out or exchanged after this makes the attestation worthless.
    #[arg(long, value_name = "FILE")]
    proposal: Source,
    /// The signing key, as `keys generate --kind ed25519` makes it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The id under which the verifier's keyring has the key.
    #[arg(long, value_name = "ID")]
    key_id: String,
    /// The id of the provenance entry to raise, which becomes the evidence entry's.
    #[arg(long, value_name = "ID")]
    evidence_id: String,
    /// The gate that it is for.
    #[arg(long)]
    audience: Option<Audience>,
    #[command(flatten)]
    bound: Bound,
    /// How long it counts: a number and ms, s, m, h or d.
    #[arg(long, default_value = "10m")]
    ttl: Millis,
    /// When it is issued, as RFC 3339 has it; now without it.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    issued: Option<Timestamp>,
    /// What makes it one of a kind, 16 to 128 characters; a random one without it.
    #[arg(long)]
    nonce: Option<String>,
    /// Write the proposal with the entry in it to this new file, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    into: Option<Source>,
}

impl Attest {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if let Some(Source::File(path)) = &self.into {
            must_be_free(path, Replace::Never)?;
        }
        let (proposal, canonical) = read_proposal(&self.proposal)?;
        if proposal.evidence().iter().map(EvidenceEntry::id).any(|id| id == self.evidence_id) {
            return Err(Failure::new("EVIDENCE_ID_TAKEN", "the proposal has evidence of that id already"));
        }
        let key = read_signers(std::slice::from_ref(&self.key))?.pop().ok_or_else(|| internal("no key"))?;
        let issued = self.issued.map_or_else(now, Ok)?;
        let expires = issued.checked_add(self.ttl).map_err(|error| Failure::usage(error.to_string()))?;
        let nonce = match &self.nonce {
            Some(nonce) => nonce.clone(),
            None => format!("{:032x}", u128::from_be_bytes(*random::secret()?)),
        };
        let mut draft = AttestationDraft::for_proposal(&proposal, &self.evidence_id)
            .call(&self.bound.add_to(ProposedCall::unbound()))
            .issued(issued)
            .expires(expires)
            .nonce(&nonce);
        if let Some(audience) = &self.audience {
            draft = draft.audience(audience);
        }
        // What cannot be signed is told before anybody reads what it would be.
        let signed = draft.sign(&key, &self.key_id)?;
        self.show(&proposal, &signed, expires);
        self.write(out, &canonical, &signed, expires)
    }

    /// Shows what is signed: the proposal's own values, of which the payload has the digests, and the payload itself.
    fn show(&self, proposal: &ActionProposal, signed: &SignedAttestation, expires: Timestamp) {
        let mut lines = vec![
            format!("tool       {}", shown_text(proposal.tool())),
            format!("impact     {}", proposal.impact()),
            format!("intent     {}", shown_text(proposal.intent())),
        ];
        for claim in proposal.claims() {
            let cited: Vec<_> = claim.evidence().map(shown_text).collect();
            lines.push(format!("claim      {} by {}", shown_text(claim.text()), cited.join(", ")));
        }
        // The files are named in what is signed, and no others can stand beside it.
        for entry in proposal.evidence() {
            if let EvidenceEntry::Hash(file) = entry {
                let (id, name) = (shown_text(entry.id()), shown_text(file.reference()));
                lines.push(format!("file       {id} {name} {}", file.sha256()));
            }
        }
        lines.push(format!("raises     {}", shown_text(&self.evidence_id)));
        let session = self.bound.session.as_ref();
        let session =
            session.map(|session| format!(", and no longer than session {}", shown_text(session.as_str())));
        lines.push(format!("until      {expires}{}", session.unwrap_or_default()));
        for (what, json) in [("arguments", &*proposal.args().canonical_text()), ("signed", signed.payload())]
        {
            lines.push(format!("{what:<10} {}", shown_json(json).replace('\n', "\n           ")));
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            lines.push(format!("It says nothing of {missing}: the profile `strict` refuses it."));
        }
        note(&lines.join("\n"));
    }

    /// What a strict verifier asks for and is not there.
    fn missing(&self) -> Vec<&'static str> {
        let bound = &self.bound;
        let all = [
            ("the audience", self.audience.is_some()),
            ("the server", bound.server.is_some()),
            ("the call id", bound.call_id.is_some()),
            ("the principal", bound.principal.is_some()),
            ("the agent", bound.agent.is_some()),
            ("the session", bound.session.is_some()),
            ("the registry version", bound.registry_version.is_some()),
        ];
        all.into_iter().filter(|(_, there)| !there).map(|(what, _)| what).collect()
    }

    fn write(
        &self,
        out: &mut Output,
        proposal: &Canonical,
        signed: &SignedAttestation,
        expires: Timestamp,
    ) -> Result<Exit, Failure> {
        let entry = signed.to_entry_json();
        // Put together as text: a number that is read and written again could come out as another one.
        let report =
            |more: &str| format!(r#"{{"ok":true,"expires":{},"entry":{entry}{more}}}"#, expires.as_millis());
        let Some(into) = &self.into else {
            out.line(&if out.is_json() { report("") } else { entry })?;
            return Ok(Exit::Done);
        };
        let mut entries = evidence_texts(proposal);
        entries.push(entry.clone());
        let whole = with_evidence(proposal, &entries);
        // What nobody could verify is not written: with the entry in it, the proposal may be over a limit.
        ActionProposal::parse(whole.as_bytes(), &limits()).map_err(|error| refusal(&error, true))?;
        let (more, text) = match into {
            Source::Stdin => (format!(r#","proposal":{whole}"#), whole),
            Source::File(path) => {
                write_file(path, format!("{whole}\n").as_bytes(), Replace::Never)?;
                let name = path.display().to_string();
                let mut more = r#","into":"#.to_owned();
                write_string(&mut more, &name);
                (more, format!("in {}", one_line(&name)))
            }
        };
        out.line(&if out.is_json() { report(&more) } else { text })?;
        Ok(Exit::Done)
    }
}

/// A text in quotation marks, in which nothing hides.
fn shown_text(text: &str) -> String {
    let mut quoted = String::new();
    write_string(&mut quoted, text);
    shown_json(&quoted)
}
