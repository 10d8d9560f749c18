use clap::Args;
use countersign_action_proposal::{ActionProposal, ProposalCode, ProposalError, ProposalVerifier};
use countersign_core::{Clock, Digest, escape_hidden};
use serde_json::{Value, json};

use super::facts::Facts;
use super::read::{evidence_texts, read_proposal, refusal, with_evidence};
use super::rules::{Rules, Weakening};
use super::verify::{FILE, kind};
use crate::failure::{Exit, Failure};
use crate::files::Source;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ProposalEvidenceArgs {
    /// The proposal; `-` is standard input.
    file: Source,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    facts: Facts,
}

/// One entry and its result.
struct CheckedEntry {
    id: String,
    kind: &'static str,
    verdict: Result<(), ProposalError>,
}

impl ProposalEvidenceArgs {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if self.file == Source::Stdin && self.facts.takes_stdin() {
            return Err(Failure::usage("the proposal and --args cannot both come from standard input"));
        }
        let verifier = self.rules.verifier(&self.file, &Weakening::verifying())?;
        let args = self.facts.read_args()?;
        let (proposal, canonical) = read_proposal(&self.file, |bytes| verifier.parse(bytes))?;
        let clock = self.rules.clock();
        let entries: Vec<_> =
            proposal.evidence().iter().map(|entry| (entry.id().to_owned(), kind(entry))).collect();
        if entries.is_empty() {
            return Err(refused(ProposalCode::EvidenceRequired, "the proposal has no evidence"));
        }
        let whole = self.judge(proposal, &verifier, args, &*clock);
        if let Err(error) = &whole
            && error.code() != ProposalCode::EvidenceFailed
        {
            return Err(refusal(error, true));
        }
        let texts = evidence_texts(&canonical);
        let is_file = |kind: &str| kind == FILE;
        let files: Vec<_> =
            entries.iter().zip(&texts).filter(|((_, kind), _)| is_file(kind)).map(|(_, text)| text).collect();
        let mut looked = Vec::with_capacity(entries.len());
        for ((id, kind), text) in entries.iter().cloned().zip(&texts) {
            let verdict = if whole.is_ok() {
                Ok(())
            } else {
                // A file depends on no other entry. An attestation names the files, so they stay, after it.
                let beside = if is_file(kind) { &[][..] } else { &files };
                let first: Vec<_> = [text].iter().chain(beside).map(|text| (*text).clone()).collect();
                let first = with_evidence(&canonical, &first);
                verifier
                    .parse(first.as_bytes())
                    .and_then(|proposal| self.judge(proposal, &verifier, args, &*clock))
                    .or_else(|error| if is_of_another(&error) { Ok(()) } else { Err(error) })
            };
            looked.push(CheckedEntry { id, kind, verdict });
        }
        self.print_result(out, &looked, whole.is_ok())
    }

    /// Verifies the evidence of a proposal. Whether it supports a claim is ignored here.
    fn judge(
        &self,
        proposal: ActionProposal,
        verifier: &ProposalVerifier,
        args: Option<Digest>,
        clock: &dyn Clock,
    ) -> Result<(), ProposalError> {
        let call = self.facts.call(args, &proposal);
        match proposal.verify(verifier, &call, clock) {
            Err(error) if error.code() != ProposalCode::VerifierFailed => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn print_result(&self, out: &mut Output, looked: &[CheckedEntry], ok: bool) -> Result<Exit, Failure> {
        let failed = ProposalCode::EvidenceFailed;
        if out.is_json() {
            let entries: Vec<Value> =
                looked.iter().enumerate().map(|(index, entry)| entry.report(index)).collect();
            let error = (!ok).then(|| json!({"code": failed.as_str(), "message": failed.message()}));
            let profile = self.rules.profile().as_str();
            out.json(&json!({"ok": ok, "profile": profile, "error": error, "evidence": entries}))?;
            return Ok(if ok { Exit::Done } else { Exit::Evidence });
        }
        for entry in looked {
            out.line(&entry.line())?;
        }
        if ok { Ok(Exit::Done) } else { Err(refused(failed, failed.message())) }
    }
}

impl CheckedEntry {
    fn line(&self) -> String {
        let id = escape_hidden(&self.id);
        match &self.verdict {
            Ok(()) => format!("PASS  {id}  {}", self.kind),
            Err(error) => format!("FAIL  {id}  {}  {}: {}", self.kind, member(error), error.rule()),
        }
    }

    fn report(&self, index: usize) -> Value {
        let failed = self.verdict.as_ref().err();
        json!({
            "id": self.id,
            "kind": self.kind,
            "ok": failed.is_none(),
            "place": failed.map(|error| format!("/evidence/{index}/{}", member(error))),
            "rule": failed.map(ProposalError::rule),
        })
    }
}

/// Returns `true` if an entry after the first failed. Entries are verified in order, so the first one passed.
fn is_of_another(error: &ProposalError) -> bool {
    error.place().starts_with("/evidence/") && !error.place().starts_with("/evidence/0/")
}

/// Returns the place of the failure within the entry.
fn member(error: &ProposalError) -> &str {
    error.place().strip_prefix("/evidence/0/").unwrap_or_default()
}

fn refused(code: ProposalCode, message: &str) -> Failure {
    Failure::refused(code.as_str(), message).ending(Exit::Evidence)
}
