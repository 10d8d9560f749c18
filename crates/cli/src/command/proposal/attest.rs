use std::path::PathBuf;

use clap::Args;
use countersign_action_proposal::{
    ActionProposal, AttestationDraft, EvidenceBudget, EvidenceEntry, EvidenceResolver, HashEntry,
    ProposedCall, SignedAttestation,
};
use countersign_canonical_json::{Canonical, write_string};
use countersign_core::{Audience, Millis, SystemClock, Timestamp};

use super::facts::Bound;
use super::read::{evidence_texts, limits, read_proposal, refusal, with_evidence};
use crate::failure::{Exit, Failure, chain, one_line};
use crate::files::{Replace, Source, must_be_free, read_signers, write_file};
use crate::output::{Output, ask_at_terminal, internal, note};
use crate::time::{moment, now};
use countersign_host::escape::shown_json;
use countersign_host::proposals::open_folder;
use countersign_host::questions::shown_file;
use countersign_host::random;

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
    /// Folder of the evidence files. They are opened, held against their digests and shown.
    #[arg(long, value_name = "DIR")]
    evidence_root: Option<PathBuf>,
    /// Sign even if the audience or a fact of the call is not bound. The profile `strict` refuses such an attestation.
    #[arg(long)]
    unbound: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// How long it counts: a number and ms, s, m, h or d.
    #[arg(long, default_value = "10m")]
    ttl: Millis,
    /// When it is issued, as RFC 3339 has it; now without it.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    issued: Option<Timestamp>,
    /// Nonce of 16 to 128 characters; without it, a random one.
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
        let (proposal, canonical) =
            read_proposal(&self.proposal, |bytes| ActionProposal::parse(bytes, &limits()))?;
        if proposal.evidence().iter().map(EvidenceEntry::id).any(|id| id == self.evidence_id) {
            return Err(Failure::new("EVIDENCE_ID_TAKEN", "duplicate evidence id in the proposal"));
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
        // A proposal that cannot be signed fails before anything is displayed.
        let payload = draft.payload(&self.key_id)?;
        let missing = self.missing();
        if !missing.is_empty() && !self.unbound {
            let text = format!(
                "not bound by the attestation: {}; bind it, or sign with --unbound",
                missing.join(", ")
            );
            return Err(Failure::new("ATTEST_UNBOUND", text));
        }
        let files = self.open_files(&proposal)?;
        self.show(&proposal, &files, &payload, expires);
        if !self.yes {
            ask()?;
        }
        let signed = draft.sign(&key, &self.key_id)?;
        self.write(out, &canonical, &signed, expires)
    }

    /// Opens every evidence file and checks its digest. Returns the first lines of each.
    fn open_files(&self, proposal: &ActionProposal) -> Result<Vec<String>, Failure> {
        let entries = proposal.evidence().iter().filter_map(|entry| {
            if let EvidenceEntry::Hash(file) = entry { Some((entry.id(), file)) } else { None }
        });
        let entries: Vec<_> = entries.collect();
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let root = self.evidence_root.as_ref().ok_or_else(|| {
            Failure::new(
                "EVIDENCE_ROOT_MISSING",
                "the proposal has evidence files: name their folder with --evidence-root",
            )
        })?;
        let folder = open_folder(root)?;
        let (clock, limits) = (SystemClock::new(), FileLimits::default());
        let mut budget = EvidenceBudget::start(&clock, limits.file, limits.total, limits.time)
            .map_err(|error| Failure::new("EVIDENCE_FILE", chain(&error)))?;
        entries.into_iter().map(|(id, entry)| open_file(&*folder, id, entry, &mut budget)).collect()
    }

    /// Prints the content to be signed: the proposal's values, whose digests the payload contains, and the payload
    /// itself.
    fn show(&self, proposal: &ActionProposal, files: &[String], payload: &str, expires: Timestamp) {
        let mut lines = vec![
            format!("tool       {}", shown_text(proposal.tool())),
            format!("impact     {}", proposal.impact()),
            format!("intent     {}", shown_text(proposal.intent())),
        ];
        for claim in proposal.claims() {
            let cited: Vec<_> = claim.evidence().map(shown_text).collect();
            lines.push(format!("claim      {} by {}", shown_text(claim.text()), cited.join(", ")));
        }
        // The signed payload names these files; no other file can be added to it.
        lines.extend(files.iter().cloned());
        lines.push(format!("raises     {}", shown_text(&self.evidence_id)));
        let session = self.bound.session.as_ref();
        let session =
            session.map(|session| format!(", and no longer than session {}", shown_text(session.as_str())));
        lines.push(format!("until      {expires}{}", session.unwrap_or_default()));
        for (what, json) in [("arguments", &*proposal.args().canonical_text()), ("signed", payload)] {
            lines.push(format!("{what:<10} {}", shown_json(json).replace('\n', "\n           ")));
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            lines.push(format!("It does not bind {missing}: the profile `strict` refuses it."));
        }
        note(&lines.join("\n"));
    }

    /// Lists the facts that a strict verifier requires and that are missing.
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
        // Built as text: a number that is parsed and printed again could change.
        let report =
            |more: &str| format!(r#"{{"ok":true,"expires":{},"entry":{entry}{more}}}"#, expires.as_millis());
        let Some(into) = &self.into else {
            out.line(&if out.is_json() { report("") } else { entry })?;
            return Ok(Exit::Done);
        };
        let mut entries = evidence_texts(proposal);
        entries.push(entry.clone());
        let whole = with_evidence(proposal, &entries);
        // A proposal that no verifier accepts is not written: with the entry in it, it may exceed a limit.
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

/// Limits of a proposal's evidence files: the sizes that verifiers accept, and enough time for a slow disk.
struct FileLimits {
    file: u64,
    total: u64,
    time: Millis,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { file: 5 * 1_024 * 1_024, total: 16 * 1_024 * 1_024, time: Millis::from_secs(30) }
    }
}

fn open_file(
    folder: &dyn EvidenceResolver,
    id: &str,
    entry: &HashEntry,
    budget: &mut EvidenceBudget<'_>,
) -> Result<String, Failure> {
    let name = shown_text(entry.reference());
    let file = folder.resolve(entry.reference(), budget).map_err(|error| {
        Failure::refused("PIC_EVIDENCE_FAILED", chain(&error)).about(&name).ending(Exit::Evidence)
    })?;
    if file.digest() != entry.sha256() {
        let text = "digest mismatch between file and proposal";
        return Err(Failure::refused("PIC_EVIDENCE_FAILED", text).about(&name).ending(Exit::Evidence));
    }
    Ok(shown_file(id, entry.reference(), &entry.sha256(), file.bytes()))
}

/// Asks on the terminal whether to sign.
fn ask() -> Result<(), Failure> {
    let answer = ask_at_terminal("Sign this? [y: sign, anything else: do not] ")?;
    if ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Failure::refused("NOT_SIGNED", "nothing was signed"))
    }
}

/// Quotes text, with invisible characters escaped.
fn shown_text(text: &str) -> String {
    let mut quoted = String::new();
    write_string(&mut quoted, text);
    shown_json(&quoted)
}
