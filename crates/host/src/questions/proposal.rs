//! The action proposal of a call that waits, displayed to the approver.

use countersign_approval_token::{ClaimSummary, EvidenceSummary, ProposalSummary};

use crate::escape::spelled;

/// Describes claims, evidence and signers, each from the start of a line. The agent's text is in quotes, with invisible
/// characters escaped.
#[must_use]
pub fn describe(proposal: &ProposalSummary) -> String {
    let verdict = match (proposal.code(), proposal.effective_impact()) {
        (Some(code), _) => format!("NOT VERIFIED by {}: {code}", proposal.profile()),
        (None, Some(impact)) => format!("verified by {}, impact {impact}", proposal.profile()),
        (None, None) => format!("verified by {}", proposal.profile()),
    };
    let mut text = format!("\nproposal   {verdict} (information: the approval does not bind it)");
    if !proposal.intent().is_empty() {
        text.push_str(&format!("\nintent     {}", spelled(proposal.intent())));
    }
    for claim in proposal.claims() {
        text.push_str(&format!("\nclaim      {}{}", spelled(claim.text()), cited(claim)));
    }
    text.push_str(&more("claim", proposal.claims_omitted()));
    for piece in proposal.evidence_entries() {
        let (id, kind) = (spelled(piece.id()), piece.kind().as_str());
        text.push_str(&format!("\nevidence   {id} {kind} {}", how_verified(piece)));
    }
    text.push_str(&more("evidence", proposal.evidence_omitted()));
    text
}

fn cited(claim: &ClaimSummary) -> String {
    let ids: Vec<_> = claim.evidence().iter().map(|id| spelled(id)).collect();
    match (ids.as_slice(), claim.omitted()) {
        ([], _) => " (cites nothing)".to_owned(),
        (ids, 0) => format!(" (cites {})", ids.join(", ")),
        (ids, more) => format!(" (cites {} and {more} more)", ids.join(", ")),
    }
}

fn how_verified(piece: &EvidenceSummary) -> String {
    let digest = piece.digest().map(|digest| format!(", sha-256 {digest}")).unwrap_or_default();
    match (piece.is_verified(), piece.key()) {
        (false, _) => "NOT VERIFIED".to_owned(),
        (true, Some(key)) => format!("verified, signed by {}{digest}", spelled(key)),
        (true, None) if piece.is_endorsed() => format!("verified, endorsed by an operator{digest}"),
        (true, None) => format!("verified{digest}"),
    }
}

fn more(what: &str, omitted: u64) -> String {
    if omitted == 0 { String::new() } else { format!("\n{what:<10} {omitted} more") }
}

#[cfg(test)]
mod tests {
    use countersign_approval_token::{EvidenceForm, EvidenceSummary, ProposalSummary};
    use countersign_core::Digest;

    use super::describe;

    #[test]
    fn claims_evidence_and_signers_are_shown_escaped() {
        let digest = Digest::of(b"invoice");
        let summary = ProposalSummary::new("strict", "Pay\nevidence   \"x\" sig verified")
            .impact("money")
            .claim("due\u{202e}", ["finance", "mail"])
            .claim("urgent", [])
            .evidence(EvidenceSummary::signature("finance", digest, "finance-1"))
            .evidence(EvidenceSummary::file("mail", digest, true))
            .evidence(EvidenceSummary::unverified("other", EvidenceForm::Hash));
        let expected = format!(
            "\nproposal   verified by strict, impact money (information: the approval does not bind it)\n\
             intent     \"Pay\\nevidence   \\\"x\\\" sig verified\"\n\
             claim      \"due\\u202e\" (cites \"finance\", \"mail\")\n\
             claim      \"urgent\" (cites nothing)\n\
             evidence   \"finance\" sig verified, signed by \"finance-1\", sha-256 {digest}\n\
             evidence   \"mail\" hash verified, endorsed by an operator, sha-256 {digest}\n\
             evidence   \"other\" hash NOT VERIFIED"
        );
        assert_eq!(describe(&summary), expected);
    }

    #[test]
    fn a_refused_proposal_is_shown_as_not_verified() {
        let summary = ProposalSummary::new("pic-0.9", "").refused("PIC_SCHEMA_INVALID");
        let expected = "\nproposal   NOT VERIFIED by pic-0.9: PIC_SCHEMA_INVALID \
                        (information: the approval does not bind it)";
        assert_eq!(describe(&summary), expected);
    }
}
