use clap::Args;
use countersign_action_proposal::{
    ActionProposal, EvidenceEntry, ProposalCode, ProposalError, ProposalVerifier, ProposedCall,
    VerifiedEvidence, VerifiedProposal,
};
use countersign_core::{Clock, ImpactClass, Millis, escape_hidden};
use serde_json::{Value, json};

use super::facts::Facts;
use super::read::{code_of, exit_of, read_bytes, refusal, refusal_json};
use super::rules::{Rules, Weakening};
use crate::failure::{Exit, Failure};
use crate::files::Source;
use crate::output::Output;
use crate::time::now;

#[derive(Debug, Args)]
pub(crate) struct ProposalVerifyArgs {
    /// The proposal; `-` is standard input.
    file: Source,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    weakening: Weakening,
    #[command(flatten)]
    facts: Facts,
}

/// Result of one verification.
struct Judged {
    verdict: Result<VerifiedProposal, ProposalError>,
    /// Known impact if the proposal is refused.
    impact: Option<ImpactClass>,
    /// Ids and kinds of the evidence entries.
    entries: Vec<(String, &'static str)>,
}

impl ProposalVerifyArgs {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if self.file == Source::Stdin && self.facts.takes_stdin() {
            return Err(Failure::usage("the proposal and --args cannot both come from standard input"));
        }
        let verifier = self.rules.verifier(&self.file, &self.weakening)?;
        let args = self.facts.read_args()?;
        let bytes = read_bytes(&self.file)?;
        let clock = self.rules.clock();
        let begun = now()?;
        let judged = match verifier.parse(&bytes) {
            Ok(proposal) => judge(proposal, &verifier, |proposal| self.facts.call(args, proposal), &*clock),
            Err(error) => Judged { verdict: Err(error), impact: None, entries: Vec::new() },
        };
        let exit = match &judged.verdict {
            Ok(_) => Exit::Done,
            Err(error) => exit_of(code_of(error)),
        };
        if out.is_json() {
            out.json(&self.report(&judged, now()?.since(begun)))?;
            return Ok(exit);
        }
        match judged.verdict {
            Ok(verified) => {
                out.line(&allowed(&verified, &judged.entries))?;
                Ok(exit)
            }
            Err(error) => Err(refusal(&error, self.rules.debug)),
        }
    }

    fn report(&self, judged: &Judged, elapsed: Millis) -> Value {
        let (impact, error) = match &judged.verdict {
            Ok(verified) => (Some(verified.impact()), None),
            Err(error) => (judged.impact, Some(refusal_json(error, self.rules.debug))),
        };
        json!({
            "ok": judged.verdict.is_ok(),
            "profile": self.rules.profile().as_str(),
            "impact": impact,
            "eval_ms": elapsed,
            "error": error,
            "evidence": judged.evidence(self.rules.verifies(&self.weakening)),
        })
    }
}

fn judge<'a>(
    proposal: ActionProposal,
    verifier: &ProposalVerifier,
    call: impl FnOnce(&ActionProposal) -> ProposedCall<'a>,
    clock: &dyn Clock,
) -> Judged {
    let entries = proposal.evidence().iter().map(|entry| (entry.id().to_owned(), kind(entry))).collect();
    let impact = Some(proposal.impact());
    let call = call(&proposal);
    Judged { verdict: proposal.verify(verifier, &call, clock), impact, entries }
}

impl Judged {
    /// Reports the entries that were verified: the first failure ends the verification.
    fn evidence(&self, looked_at: bool) -> Vec<Value> {
        let (verified, failed) = match &self.verdict {
            Ok(verified) => (verified.evidence(), None),
            Err(error) => (&[][..], failing_entry(error).filter(|_| looked_at)),
        };
        let entry = |(index, (id, kind)): (usize, &(String, &'static str))| match verified.get(index) {
            Some(evidence) => describe(evidence, kind),
            None => {
                let ok = failed.filter(|failed| index <= *failed).map(|failed| index != failed);
                json!({"id": id, "kind": kind, "ok": ok})
            }
        };
        self.entries.iter().enumerate().map(entry).collect()
    }
}

/// Kind of a file as evidence.
pub(super) const FILE: &str = "hash";

/// Returns PIC/1.0's name of an entry's kind.
pub(super) const fn kind(entry: &EvidenceEntry) -> &'static str {
    match entry {
        EvidenceEntry::Hash(_) => FILE,
        EvidenceEntry::Signature(_) => "sig",
        _ => "other",
    }
}

/// Returns the index of the evidence entry that caused a refusal.
fn failing_entry(error: &ProposalError) -> Option<usize> {
    if !matches!(error.code(), ProposalCode::EvidenceFailed | ProposalCode::LimitExceeded) {
        return None;
    }
    error.place().strip_prefix("/evidence/")?.split('/').next()?.parse().ok()
}

fn describe(evidence: &VerifiedEvidence, kind: &str) -> Value {
    json!({
        "id": evidence.id(),
        "kind": kind,
        "ok": true,
        "digest": evidence.digest(),
        "raises_trust": evidence.raises_trust(),
        "key_id": evidence.signer().map(|(id, _)| id),
        "expires": evidence.attestation().map(|(_, expires)| expires),
        "takes_endorsement": evidence.takes_endorsement(),
    })
}

fn allowed(verified: &VerifiedProposal, entries: &[(String, &'static str)]) -> String {
    let mut text = format!("allowed by `{}`: impact {}", verified.profile(), verified.impact());
    for (evidence, (_, kind)) in verified.evidence().iter().zip(entries) {
        text.push_str(&format!("\n  {}  {}", escape_hidden(evidence.id()), said(evidence, kind)));
    }
    text
}

/// Describes one verified piece of evidence.
fn said(evidence: &VerifiedEvidence, kind: &str) -> String {
    let by = match evidence.signer() {
        Some((key_id, _)) => format!(" by `{}`", escape_hidden(key_id)),
        None => String::new(),
    };
    let trust = if evidence.raises_trust() { "raises trust" } else { "raises no trust" };
    let until = match evidence.attestation() {
        Some((_, expires)) => format!(", once, until {expires}"),
        None if evidence.takes_endorsement() => ", takes one use of its endorsement".to_owned(),
        None => String::new(),
    };
    format!("{kind}{by}, {trust}{until}")
}
