//! Wire transfer: the agent has made up an invoice, and its transfer is refused. For an invoice that exists, a clerk
//! reads it, compares recipient and amount, and signs an attestation for this one transfer. The transfer is accepted
//! once, with the bytes that the clerk saw, and refused the second time. Reading mail needs none of this.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/finance.rs"]
mod finance;

use std::error::Error;

use countersign::action_proposal::{
    ActionProposal, AttestationDraft, EvidenceEntry, ProposalLimits, ProposedCall, VerifiedEvidence,
};
use countersign::canonical_json::ValueRef;
use countersign::core::{Audience, CallId, Clock as _, Digest, Millis, SystemClock, ToolId};
use countersign::tool_gate::{RejectionCode, ToolCall};
use finance::{AUDIENCE, CLERK, FinanceDesk, clerk};

const INVOICE: &str = "Invoice 4711\nPaper, 12 boxes\nDue: 480 EUR, to DE02 1001 0010\n";

/// The proposal that the agent submits for a transfer. It names the invoice's file before the clerk signs, because an
/// attestation binds the files that the proposal names.
fn proposal(invoice: &str, sha256: Digest, args: &str, attestation: &str) -> String {
    let comma = if attestation.is_empty() { "" } else { "," };
    format!(
        r#"{{"protocol":"PIC/1.0","intent":"pay invoice {invoice}","impact":"money",
            "provenance":[{{"id":"invoice-{invoice}","trust":"untrusted","source":"accounts inbox"}}],
            "claims":[{{"text":"invoice {invoice} is due","evidence":["invoice-{invoice}"]}}],
            "action":{{"tool":"wire_transfer","args":{args}}},
            "evidence":[{{"id":"file","type":"hash","ref":"file://invoice-{invoice}.txt","sha256":"{sha256}"}}{comma}{attestation}]}}"#
    )
}

/// The clerk's part, on the clerk's own machine: read the invoice, compare, and sign for this one call. Returns the
/// attestation and the digest of the file that it covers.
fn attest(desk: &FinanceDesk, proposal: &str, call_id: &str) -> Result<(String, Digest), Box<dyn Error>> {
    let invoice = std::fs::read_to_string(desk.evidence.join("invoice-4711.txt"))?;
    let seen = Digest::of(invoice.as_bytes());
    let proposal = ActionProposal::parse(proposal.as_bytes(), &ProposalLimits::default())?;
    let is_about_it =
        |entry: &EvidenceEntry| matches!(entry, EvidenceEntry::Hash(file) if file.sha256() == seen);
    if proposal.evidence().len() != 1 || !proposal.evidence().iter().all(is_about_it) {
        return Err("the evidence is not the invoice and nothing else".into());
    }
    let to = proposal.args().get("to").and_then(ValueRef::as_str).ok_or("no recipient")?;
    let amount = proposal.args().get("amount").map(ValueRef::canonical_text).ok_or("no amount")?;
    println!("clerk reads: {}", invoice.replace('\n', " | "));
    println!("clerk is asked to sign for {amount} EUR to {to:?}");
    if !invoice.lines().any(|line| line == format!("Due: {amount} EUR, to {to}")) {
        return Err("the invoice says otherwise".into());
    }
    let (gate, tool) = (&desk.gate, ToolId::new("bank", "wire_transfer")?);
    let (contract, call_id) = (gate.contract(), CallId::new(call_id)?);
    let mut call = ProposedCall::new(tool.name())
        .server(tool.server())
        .call_id(&call_id)
        .principal(gate.principal())
        .agent(contract.agent())
        .session(contract.session())
        .registry_version(contract.registry_version());
    if let Some(pin) = gate.pinned_ask() {
        call = call.ask(pin.digest());
    }
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce)?;
    let now = SystemClock::new().now()?;
    let signed = AttestationDraft::for_proposal(&proposal, "invoice-4711")
        .audience(&Audience::new(AUDIENCE)?)
        .issued(now)
        .expires(now.checked_add(Millis::from_secs(300))?)
        .call(&call)
        .nonce(&Digest::from_bytes(nonce).to_string())
        .sign(&clerk(), CLERK)?;
    Ok((signed.to_entry_json(), seen))
}

fn main() -> Result<(), Box<dyn Error>> {
    let desk = FinanceDesk::open("wire-transfer")?;
    std::fs::write(desk.evidence.join("invoice-4711.txt"), INVOICE)?;
    let sha256 = Digest::of(INVOICE.as_bytes());
    let args = r#"{"to":"DE02 1001 0010","amount":480}"#;
    let transfer = |id, args: &'static str| ToolCall::new(id, "bank", "wire_transfer", args.as_bytes());
    let mut paid = Vec::new();

    let read = ToolCall::new("call-0", "desk", "read_mail", br#"{"id":"mail-32"}"#);
    assert_eq!(desk.attempt("a read, without a proposal", &read, |_, _| ()), None);

    let dreamt_args = r#"{"to":"GB33 9999","amount":9000}"#;
    let dreamt = proposal("9999", Digest::of(b"an invoice that nobody wrote"), dreamt_args, "");
    let call = transfer("call-1", dreamt_args).proposal(dreamt.as_bytes());
    let answer = desk.attempt("an invoice that is not there", &call, |args, _| paid.push(args.to_owned()));
    assert_eq!(answer, Some(RejectionCode::PicEvidenceFailed));

    let unsigned = proposal("4711", sha256, args, "");
    let call = transfer("call-2", args).proposal(unsigned.as_bytes());
    let answer =
        desk.attempt("one that is there and nobody signed for", &call, |args, _| paid.push(args.to_owned()));
    assert_eq!(answer, Some(RejectionCode::PicVerifierFailed));

    let more = r#"{"to":"DE02 1001 0010","amount":4800}"#;
    let too_much = attest(&desk, &proposal("4711", sha256, more, ""), "call-3");
    let unsigned_for = too_much.err().map(|error| error.to_string());
    assert_eq!(unsigned_for.as_deref(), Some("the invoice says otherwise"));

    let (attestation, signed_for) = attest(&desk, &unsigned, "call-3")?;
    let signed = proposal("4711", sha256, args, &attestation);
    let call = transfer("call-3", more).proposal(signed.as_bytes());
    let answer = desk.attempt("signed for, with another amount", &call, |args, _| paid.push(args.to_owned()));
    assert_eq!(answer, Some(RejectionCode::PicArgBindingMismatch));
    let both = proposal("4711", sha256, more, &attestation);
    let call = transfer("call-3", more).proposal(both.as_bytes());
    let answer =
        desk.attempt("the same, and the proposal says so", &call, |args, _| paid.push(args.to_owned()));
    assert_eq!(answer, Some(RejectionCode::PicEvidenceFailed));

    let call = transfer("call-3", args).proposal(signed.as_bytes());
    for (how, expected) in
        [("as it was signed for", None), ("the same again", Some(RejectionCode::PicEvidenceFailed))]
    {
        let answer = desk.attempt(how, &call, |args, evidence| {
            // why: not read again: these are the bytes that were hashed. The agent chose the order of the files; the
            // clerk attested which one counts.
            let invoice =
                evidence.iter().find(|piece| piece.bytes().is_some() && piece.digest() == signed_for);
            assert_eq!(invoice.and_then(VerifiedEvidence::bytes), Some(INVOICE.as_bytes()));
            println!("    the bank pays {args}");
            paid.push(args.to_owned());
        });
        assert_eq!(answer, expected);
    }
    println!("transfers made: {}", paid.len());
    assert_eq!(paid, [r#"{"amount":480,"to":"DE02 1001 0010"}"#]);
    Ok(())
}
