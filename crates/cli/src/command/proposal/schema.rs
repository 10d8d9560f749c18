use clap::Args;
use countersign_action_proposal::ActionProposal;
use serde_json::json;

use super::read::{code_of, exit_of, limits, read_bytes, refusal, refusal_json};
use crate::failure::{Exit, Failure};
use crate::files::Source;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ProposalSchemaArgs {
    /// The proposal; `-` is standard input.
    file: Source,
}

impl ProposalSchemaArgs {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let bytes = read_bytes(&self.file)?;
        let proposal = match ActionProposal::parse(&bytes, &limits()) {
            Ok(proposal) => proposal,
            Err(error) if out.is_json() => {
                out.json(&json!({"ok": false, "error": refusal_json(&error, true)}))?;
                return Ok(exit_of(code_of(&error)));
            }
            Err(error) => return Err(refusal(&error, true)),
        };
        let counts = [proposal.provenance().len(), proposal.claims().len(), proposal.evidence().len()];
        let [provenance, claims, evidence] = counts;
        let report = json!({
            "ok": true,
            "impact": proposal.impact(),
            "provenance": provenance,
            "claims": claims,
            "evidence": evidence,
            "digest": proposal.digest(),
            "args_digest": proposal.args_digest(),
            "claims_digest": proposal.claims_digest(),
            "intent_digest": proposal.intent_digest(),
        });
        let text = format!(
            "of the schema: impact {}, provenance {provenance}, claims {claims}, evidence {evidence}\n\
             digest {}",
            proposal.impact(),
            proposal.digest()
        );
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}
