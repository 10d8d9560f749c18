//! Wire transfer: the agent has dreamt up an invoice, and its transfer is refused. For an invoice that is there, a clerk
//! looks at it and signs for the one transfer: it is allowed once, with the very bytes that were hashed, and refused the
//! second time. Reading mail needs none of this.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/finance.rs"]
mod finance;

use countersign::action_proposal::{ActionProposal, AttestationDraft, ProposalLimits, ProposedCall};
use countersign::core::{Audience, CallId, Clock as _, Digest, Millis, SystemClock, ToolId};
use countersign::tool_gate::{RejectionCode, ToolCall};
use finance::{AUDIENCE, CLERK, Desk, clerk};

type Failed = Box<dyn std::error::Error>;

const INVOICE: &str = "Invoice 4711\nPaper, 12 boxes\nDue: 480 EUR, to DE02 1001 0010\n";

/// What the agent hands in for a transfer. The claim names the digest of the invoice, so whoever signs for the claim signs
/// for that file.
fn proposal(invoice: &str, sha256: Digest, args: &str, attestation: &str) -> String {
    let comma = if attestation.is_empty() { "" } else { "," };
    format!(
        r#"{{"protocol":"PIC/1.0","intent":"pay invoice {invoice}","impact":"money",
            "provenance":[{{"id":"invoice-{invoice}","trust":"untrusted","source":"accounts inbox"}}],
            "claims":[{{"text":"the invoice with SHA-256 {sha256} is due","evidence":["invoice-{invoice}"]}}],
            "action":{{"tool":"wire_transfer","args":{args}}},
            "evidence":[{{"id":"file","type":"hash","ref":"file://invoice-{invoice}.txt","sha256":"{sha256}"}}{comma}{attestation}]}}"#
    )
}

/// What the clerk does, on a machine of the clerk's own: look at the invoice, compare, and sign for this one call.
fn attest(desk: &Desk, proposal: &str, call_id: &str) -> Result<String, Failed> {
    let invoice = std::fs::read(desk.evidence.join("invoice-4711.txt"))?;
    let proposal = ActionProposal::parse(proposal.as_bytes(), &ProposalLimits::default())?;
    let claim = proposal.claims().first().ok_or("no claim")?;
    if !claim.text().contains(&Digest::of(&invoice).to_string()) {
        return Err("the claim is about another file".into());
    }
    println!("clerk reads: {}", String::from_utf8(invoice)?.replace('\n', " | "));
    let (gate, tool) = (&desk.gate, ToolId::new("bank", "wire_transfer")?);
    let call_id = CallId::new(call_id)?;
    let mut call = ProposedCall::new(tool.name())
        .server(tool.server())
        .call_id(&call_id)
        .principal(gate.principal())
        .agent(gate.contract().agent())
        .session(gate.contract().session())
        .registry_version(gate.contract().registry_version());
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
    Ok(signed.to_entry_json())
}

fn main() -> Result<(), Failed> {
    let desk = Desk::open("wire-transfer")?;
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

    let attestation = attest(&desk, &unsigned, "call-3")?;
    let signed = proposal("4711", sha256, args, &attestation);
    let more = r#"{"to":"DE02 1001 0010","amount":4800}"#;
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
        let answer = desk.attempt(how, &call, |args, invoice| {
            // Not read again: these are the bytes that were hashed.
            assert_eq!(invoice, Some(INVOICE.as_bytes()));
            println!("    the bank pays {args}");
            paid.push(args.to_owned());
        });
        assert_eq!(answer, expected);
    }
    println!("transfers made: {}", paid.len());
    assert_eq!(paid, [r#"{"amount":480,"to":"DE02 1001 0010"}"#]);
    Ok(())
}
