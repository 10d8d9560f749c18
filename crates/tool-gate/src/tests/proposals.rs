use std::sync::Arc;

use countersign_action_proposal::{HighImpacts, ProposalCode, ProposalPolicy};
use countersign_audit_log::EvidenceKind;
use countersign_core::*;
use serde_json::json;

use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

#[test]
fn attested_call_runs_once_with_the_hashed_bytes() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    let call = wire("c1").proposal(&proposal);
    let accepted = gate.check(&call).unwrap();
    assert_eq!(accepted.impact(), ImpactClass::Money);
    assert_eq!(accepted.proposal().unwrap().impact(), ImpactClass::Money);
    let ids: Vec<_> = accepted.evidence().iter().map(|evidence| evidence.id().to_owned()).collect();
    assert_eq!(ids, ["file", "invoice"]);
    let paid = accepted
        .run_with_evidence(|args, evidence| {
            assert_eq!(args.digest(), Digest::of(br#"{"amount":49,"to":"DE02"}"#));
            Ok::<_, ()>(evidence[0].bytes().map(<[u8]>::to_vec))
        })
        .unwrap();
    assert_eq!(paid.as_deref(), Some(INVOICE));
    let again = (PicEvidenceFailed, "attestation: the ticket was used already".to_owned());
    assert_eq!(refusal(&gate, &call), again);
    let other = world.proving().open().unwrap();
    assert_eq!(refusal(&other, &call), again, "another gate over the same store");
}

#[test]
fn dispatch_hands_the_evidence_over() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    let (args, evidence, in_flight) =
        gate.check(&wire("c1").proposal(&proposal)).unwrap().dispatch_with_evidence().unwrap();
    in_flight.finish(OutcomeKind::Returned);
    assert_eq!((args.as_str(), evidence.len()), (r#"{"amount":49,"to":"DE02"}"#, 2));
    let none = gate.check(&search("c2")).unwrap();
    assert!(none.evidence().is_empty() && none.proposal().is_none());
    none.run(|_| Ok::<_, ()>(())).unwrap();
}

#[test]
fn proposal_is_required_by_high_impact_or_rule_alone() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    assert_eq!(code(&gate, &wire("c")), Some(PicInvalidRequest));
    assert_eq!(
        code(&gate, &ToolCall::new("c", "desk", "proven", b"{}")),
        Some(PicInvalidRequest),
        "by its rule"
    );
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example"}"#)), None);
    let external = verifier().high(HighImpacts::default().with(ImpactClass::External));
    let gate = world.full().proposals(world.proposals(external)).open().unwrap();
    let mail = ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example"}"#);
    assert_eq!(code(&gate, &mail), Some(PicInvalidRequest), "the operator counts it as high");
}

#[test]
fn gate_without_proposals_refuses_an_evidence_rule() {
    let world = World::new();
    let gate = world.gate();
    let proposal = Draft::wire().json();
    let proven = ToolCall::new("c", "desk", "proven", b"{}").proposal(&proposal);
    assert_eq!(refusal(&gate, &proven), (PicEvidenceFailed, "this gate takes no proposals".to_owned()));
    assert_eq!(code(&gate, &wire("c")), None);
    assert_eq!(code(&gate, &wire("c").proposal(b"{rubbish")), None);
    assert_eq!(code(&gate, &wire("c").proposal(b"rubbish")), Some(PicInvalidRequest));
    assert_eq!(code(&gate, &wire("c").proposal(&proposal)), None);
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.proposal, None, "nothing is judged, and the record says so");
}

#[test]
fn unneeded_proposal_is_verified_too() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let honest = Draft::new("search", SEARCH, "read").json();
    assert_eq!(code(&gate, &search("c").proposal(&honest)), None);
    assert_eq!(code(&gate, &search("c").proposal(b"rubbish")), Some(PicSchemaInvalid));
    let other_tool = Draft::wire().json();
    assert_eq!(code(&gate, &search("c").proposal(&other_tool)), Some(PicToolBindingMismatch));
}

#[test]
fn each_fault_of_a_proposal_has_its_own_code() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let check = |draft: &Draft| refusal(&gate, &wire("c").proposal(&draft.json())).0;
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut draft = Draft::wire().with_file(Digest::of(INVOICE));
        change(&mut draft.0);
        check(&draft)
    };
    for no_object in [&b"7"[..], b"[]", b"null", br#""PIC/1.0""#] {
        assert_eq!(code(&gate, &wire("c").proposal(no_object)), Some(PicInvalidRequest));
    }
    let long = |draft: &mut serde_json::Value| draft["intent"] = json!("x".repeat(70_000));
    assert_eq!(changed(&long), PicLimitExceeded);
    let many = |draft: &mut serde_json::Value| {
        let input = |n: usize| json!({"id": n.to_string(), "trust": "untrusted"});
        draft["provenance"] = (0..65).map(input).collect();
    };
    assert_eq!(changed(&many), PicLimitExceeded);
    assert_eq!(changed(&|draft| draft["protocol"] = json!("PIC/2.0")), PicSchemaInvalid);
    assert_eq!(changed(&|draft| draft["extra"] = json!(1)), PicSchemaInvalid);
    let twice = String::from_utf8(Draft::wire().json()).unwrap().replacen('{', r#"{"impact":"read","#, 1);
    assert_eq!(
        code(&gate, &wire("c").proposal(twice.as_bytes())),
        Some(PicSchemaInvalid),
        "a repeated member"
    );
    assert_eq!(changed(&|draft| draft["provenance"][0]["id"] = json!("invoice")), PicDuplicateId);
    assert_eq!(changed(&|draft| draft["action"]["tool"] = json!("refund")), PicToolBindingMismatch);
    assert_eq!(changed(&|draft| draft["action"]["args"]["amount"] = json!(4_900)), PicArgBindingMismatch);
    assert_eq!(changed(&|draft| draft["action"]["args"]["cc"] = json!(1)), PicArgBindingMismatch);
    assert_eq!(changed(&|draft| draft["impact"] = json!("read")), ImpactUnderstated);
    assert_eq!(changed(&|draft| draft["evidence"] = json!([])), PicEvidenceRequired);
    assert_eq!(
        changed(&|draft| draft["evidence"][0]["sha256"] = json!(Digest::of(b"other"))),
        PicEvidenceFailed
    );
    assert_eq!(changed(&|draft| draft["evidence"][0]["ref"] = json!("file://other.txt")), PicEvidenceFailed);
    assert_eq!(changed(&|_| ()), PicVerifierFailed, "a file that nobody signed for backs nothing");
    let claimed = |draft: &mut serde_json::Value| draft["provenance"][1]["trust"] = json!("trusted");
    assert_eq!(changed(&claimed), PicVerifierFailed, "and neither does a claim of trust");
    assert_eq!(gate.counts().accepted(), 0);
}

#[test]
fn proposal_codes_match_the_gates_codes() {
    for proposal in ProposalCode::ALL {
        let code = RejectionCode::from(proposal);
        if proposal == ProposalCode::InternalError {
            assert_eq!(code, Internal);
            continue;
        }
        assert_eq!((code.as_str(), code.message(), code.step()), (proposal.as_str(), proposal.message(), 8));
    }
    let mut step_8: Vec<_> =
        RejectionCode::ALL.iter().filter(|code| code.step() == 8).map(|c| c.as_str()).collect();
    let place = |code: RejectionCode| step_8.iter().position(|text| *text == code.as_str());
    assert!(place(PicPolicyViolation) < place(ImpactUnderstated), "in the order of the checks");
    let codes = ProposalCode::ALL.iter().filter(|code| **code != ProposalCode::InternalError);
    let mut of_proposals: Vec<_> = codes.map(|code| code.as_str()).collect();
    of_proposals.sort_unstable();
    step_8.sort_unstable();
    assert_eq!(step_8, of_proposals);
}

#[test]
fn reserved_members_are_stripped_from_the_arguments() {
    let world = World::new();
    let open = |proposals: bool| if proposals { world.proving() } else { world.full() }.open().unwrap();
    for takes in [true, false] {
        let seen = Arc::new(parking_lot::Mutex::new(String::new()));
        let notes = Arc::clone(&seen);
        let note = move |call: &CheckedCall<'_>| {
            call.args().as_str().clone_into(&mut notes.lock());
            Ok(())
        };
        let builder = if takes { world.proving() } else { world.full() };
        let gate = builder.user_check("notes", note).open().unwrap();
        let id = format!("c-{takes}");
        let proposal = String::from_utf8(world.attested_wire(&gate, &id, &id)).unwrap();
        let args = format!(r#"{{"to":"DE02","__pic_request_id":"r-7","amount":49.0,"__pic":{proposal}}}"#);
        let call = ToolCall::new(&id, "desk", "wire", args.as_bytes());
        let accepted = gate.check(&call).unwrap();
        assert_eq!(accepted.args().as_str(), r#"{"amount":49,"to":"DE02"}"#);
        assert_eq!(accepted.evidence().len(), if takes { 2 } else { 0 });
        assert_eq!(*seen.lock(), r#"{"amount":49,"to":"DE02"}"#);
        let record = gate.call_log().pop().unwrap();
        assert_eq!(record.args, Some(accepted.args().digest()));
        assert_eq!(record.request_id.unwrap().as_str(), "r-7");
        accepted.run(|_| Ok::<_, ()>(())).unwrap();
    }
    // A call that waits for approval shows and binds the arguments without the reserved members, so one approval is
    // valid either way.
    let gate = open(false);
    let args = br#"{"ticket":"T-1001","amount":49,"__pic":{"x":1},"__pic_request_id":"r"}"#;
    let token = world.approve(&gate, &ToolCall::new("c1", "desk", "refund", args));
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
}

#[test]
fn only_top_level_reserved_members_are_stripped() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let search = |args: &'static [u8]| ToolCall::new("c", "desk", "search", args);
    assert_eq!(code(&gate, &search(br#"{"query":"x","__pic_request_id":"r"}"#)), None);
    assert_eq!(code(&gate, &search(br#"{"query":"x","__pic2":{}}"#)), Some(ArgsSchema));
    let open = world.full().open().unwrap();
    let nested = ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example","m":{"__pic":1}}"#);
    let accepted = open.check(&nested).unwrap();
    assert_eq!(accepted.args().as_str(), r#"{"m":{"__pic":1},"to":"x@customers.example"}"#);
    accepted.run(|_| Ok::<_, ()>(())).unwrap();
}

#[test]
fn non_object_proposal_is_refused_if_proposals_are_taken() {
    let world = World::new();
    let (taking, not_taking) = (world.proving().open().unwrap(), world.gate());
    for member in ["7", "null", "[]", r#""text""#] {
        let args = format!(r#"{{"query":"x","__pic":{member}}}"#);
        let call = ToolCall::new("c", "desk", "search", args.as_bytes());
        assert_eq!(code(&taking, &call), Some(PicInvalidRequest), "{member}");
        let accepted = not_taking.check(&call).unwrap();
        assert_eq!(accepted.args().as_str(), r#"{"query":"x"}"#);
        accepted.run(|_| Ok::<_, ()>(())).unwrap();
    }
}

#[test]
fn a_proposal_in_two_places_is_malformed() {
    let world = World::new();
    for gate in [world.proving().open().unwrap(), world.gate()] {
        let proposal = Draft::new("search", SEARCH, "read").json();
        for member in ["{}", "null"] {
            let args = format!(r#"{{"query":"T-1001","__pic":{member}}}"#);
            let call = ToolCall::new("c", "desk", "search", args.as_bytes());
            assert_eq!(code(&gate, &call.proposal(&proposal)), Some(MalformedCall));
        }
    }
}

#[test]
fn the_correlation_id_is_an_id_and_the_hosts_own_comes_first() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    for bad in
        [r#""""#, "7", "null", r#""a\nb""#, r#"["r"]"#, r#""\u202e""#, &format!("\"{}\"", "x".repeat(300))]
    {
        let args = format!(r#"{{"query":"x","__pic_request_id":{bad}}}"#);
        let call = ToolCall::new("c", "desk", "search", args.as_bytes());
        assert_eq!(code(&gate, &call), Some(MalformedCall), "{bad}");
    }
    let call = ToolCall::new("c", "desk", "search", br#"{"query":"x","__pic_request_id":"agents"}"#);
    let id = |gate: &ToolGate| gate.call_log().pop().unwrap().request_id.map(|id| id.to_string());
    assert_eq!(code(&gate, &call), None);
    assert_eq!(id(&gate).as_deref(), Some("agents"));
    assert_eq!(code(&gate, &call.request_id("hosts")), None);
    assert_eq!(id(&gate).as_deref(), Some("hosts"));
}

#[test]
fn an_attestation_of_another_call_is_refused_fact_by_fact() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let now = world.clock.now().unwrap();
    let try_told = |nonce: &str, change: &dyn Fn(&mut Told)| {
        let mut told = Told::of(&gate, "c1", "wire");
        change(&mut told);
        let proposal = Draft::wire().with(&told.attest(&Draft::wire(), nonce, now)).json();
        code(&gate, &wire("c1").proposal(&proposal))
    };
    type Change = fn(&mut Told);
    let others: [(&str, Change); 9] = [
        ("call id", |told| told.call_id = CallId::new("c2").unwrap()),
        ("server", |told| told.tool = ToolId::new("attic", "wire").unwrap()),
        ("principal", |told| told.principal = Principal::new("mallory@example.com").unwrap()),
        ("agent", |told| told.agent = AgentId::new("capped-bot").unwrap()),
        ("session", |told| told.session = SessionId::new("session-2").unwrap()),
        ("registry version", |told| told.registry_version = 2),
        ("ask", |told| told.ask = Some(Digest::of(b"another goal"))),
        ("no ask", |told| told.ask = None),
        ("audience", |told| told.audience = Audience::new("gate-2").unwrap()),
    ];
    for (nonce, (fact, change)) in others.iter().enumerate() {
        assert_eq!(try_told(&nonce.to_string(), change), Some(PicEvidenceFailed), "{fact}");
    }
    assert_eq!(try_told("good", &|_| ()), None);
}

#[test]
fn an_attestation_of_before_a_new_registry_is_dead() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    world.reload(2, NONE_REVOKED);
    assert_eq!(code(&gate, &wire("c1").proposal(&proposal)), Some(PicEvidenceFailed));
    let anew = world.attested_wire(&gate, "c1", "n2");
    assert_eq!(code(&gate, &wire("c1").proposal(&anew)), None);
}

#[test]
fn expired_attestation_stays_expired_when_clock_is_set_back() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    world.clock.advance(Millis::from_secs(300)).unwrap();
    let over = refusal(&gate, &wire("c1").proposal(&proposal));
    assert_eq!(over.0, PicEvidenceFailed);
    assert!(over.1.starts_with("/evidence/1/payload/expires_at: "), "{over:?}");
    world.clock.set(start());
    assert_eq!(refusal(&gate, &wire("c1").proposal(&proposal)), over);
}

#[test]
fn a_key_that_the_registry_revokes_signs_for_nothing() {
    let world = World::new();
    let key = attestor().key_id();
    world.reload(2, &format!(r#"{{"agents": [], "keys": ["{key}"], "snapshots": []}}"#));
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    let refused = (PicEvidenceFailed, "the registry revokes a key that signed".to_owned());
    assert_eq!(refusal(&gate, &wire("c1").proposal(&proposal)), refused);
    let file_only = Draft::new("search", SEARCH, "read").with_file(Digest::of(INVOICE)).json();
    assert_eq!(code(&gate, &search("c").proposal(&file_only)), None, "a file has no key");
}

#[test]
fn effective_impact_is_the_strictest_of_all_sources() {
    let world = World::new();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let note = move |call: &CheckedCall<'_>| {
        notes.lock().push(call.impact());
        Ok(())
    };
    let policy =
        ProposalPolicy::from_json(br#"{"impact_by_tool":{"mail":"write","search":"external"}}"#).unwrap();
    let settings = world.proposals(verifier().policy(policy));
    let gate = world.full().proposals(settings).user_check("notes", note).open().unwrap();
    let draft = Draft::new("proven", b"{}", "irreversible");
    let proposal = world.attested(&gate, "c1", "proven", draft, "n1");
    let accepted = gate.check(&ToolCall::new("c1", "desk", "proven", b"{}").proposal(&proposal)).unwrap();
    assert_eq!(accepted.impact(), ImpactClass::Irreversible);
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.impact.unwrap().as_str(), "write", "as the registry has it");
    assert_eq!(record.proposal.unwrap().impact.unwrap().as_str(), "irreversible");
    accepted.run(|_| Ok::<_, ()>(())).unwrap();
    for (call, impact) in [
        (search("c2"), ImpactClass::External),
        (ToolCall::new("c3", "desk", "mail", br#"{"to":"x@customers.example"}"#), ImpactClass::External),
    ] {
        let accepted = gate.check(&call).unwrap();
        assert_eq!(accepted.impact(), impact, "the stricter of registry and policy");
        accepted.run(|_| Ok::<_, ()>(())).unwrap();
    }
    use ImpactClass::{External, Irreversible};
    assert_eq!(*seen.lock(), [Irreversible, External, External]);
}

#[test]
fn a_policy_that_makes_a_tool_worse_asks_for_a_proposal_of_it() {
    let world = World::new();
    let policy = ProposalPolicy::from_json(br#"{"impact_by_tool":{"search":"money"}}"#).unwrap();
    let gate = world.full().proposals(world.proposals(verifier().policy(policy))).open().unwrap();
    assert_eq!(code(&gate, &search("c")), Some(PicInvalidRequest));
    let read = Draft::new("search", SEARCH, "read").json();
    assert_eq!(code(&gate, &search("c").proposal(&read)), Some(ImpactUnderstated));
}

#[test]
fn the_checks_before_and_after_keep_their_place() {
    let world = World::new();
    let gate = world.proving().user_check("no", |_: &CheckedCall<'_>| Err("no".to_owned())).open().unwrap();
    let rubbish = b"rubbish";
    let broken = ToolCall::new("c", "desk", "wire", b"{}").proposal(rubbish);
    assert_eq!(code(&gate, &broken), Some(ArgsSchema), "3 before 8");
    assert_eq!(code(&gate, &wire("c").ask("drift").proposal(rubbish)), Some(AskDrift), "5 before 8");
    assert_eq!(code(&gate, &refund("c").proposal(rubbish)), Some(ApprovalRequired), "7 before 8");
    let token = world.approve(&gate, &refund("c"));
    let approved = refund("c").approval(token.as_str());
    assert_eq!(code(&gate, &approved), Some(PicInvalidRequest), "8 before 9");
    assert_eq!(code(&gate, &approved.clone().proposal(rubbish)), Some(PicSchemaInvalid), "8 before 9");
    let draft = Draft::new("refund", REFUND, "money");
    let proposal = world.attested(&gate, "c", "refund", draft, "n1");
    let backed = approved.proposal(&proposal);
    assert_eq!(code(&gate, &backed), Some(CheckRefused), "9 before 10");
    let willing = world.proving().open().unwrap();
    assert_eq!(code(&willing, &backed), None, "and nothing was used up by it");
}

#[test]
fn a_replayed_attestation_costs_no_approval() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let draft = Draft::new("refund", REFUND, "money");
    let used = world.attested(&gate, "c", "refund", draft.clone(), "n1");
    let fresh = world.attested(&gate, "c", "refund", draft, "n2");
    let first = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(first.as_str()).proposal(&used)), None);
    let second = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(second.as_str()).proposal(&used)), Some(PicEvidenceFailed));
    assert_eq!(code(&gate, &refund("c").approval(second.as_str()).proposal(&fresh)), None);
}

#[test]
fn attestation_without_a_valid_approval_is_not_spent() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let draft = Draft::new("refund", REFUND, "money");
    let proposal = world.attested(&gate, "c", "refund", draft, "n1");
    assert_eq!(code(&gate, &refund("c").proposal(&proposal)), Some(ApprovalRequired));
    assert_eq!(code(&gate, &refund("c").approval("rubbish").proposal(&proposal)), Some(ApprovalInvalid));
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(token.as_str()).proposal(&proposal)), None);
}

#[test]
fn approval_request_carries_the_proposal_summary() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let summary = |proposal: &[u8]| {
        let no = gate.check(&refund("c").proposal(proposal)).unwrap_err();
        assert_eq!(no.code(), ApprovalRequired);
        no.approval_request().unwrap().proposal().unwrap().clone()
    };
    let draft = Draft::new("refund", REFUND, "money").with_file(Digest::of(INVOICE));
    let verified = summary(&world.attested(&gate, "c", "refund", draft.clone(), "n1"));
    assert_eq!((verified.code(), verified.effective_impact()), (None, Some("money")));
    assert_eq!((verified.profile(), verified.intent()), ("strict", "pay what the supplier is owed"));
    let [claim] = verified.claims() else { panic!("{verified:?}") };
    assert_eq!((claim.text(), claim.evidence()), ("the invoice is due", &["invoice".to_owned()][..]));
    let [file, signed] = verified.evidence_entries() else { panic!("{verified:?}") };
    assert_eq!((file.id(), file.is_verified(), file.is_endorsed()), ("file", true, false));
    assert_eq!((file.digest(), file.key()), (Some(&Digest::of(INVOICE)), None));
    assert_eq!((signed.id(), signed.is_verified(), signed.key()), ("invoice", true, Some("finance")));

    // A proposal for another call, then one without its evidence, then no proposal.
    let other = summary(&world.attested(&gate, "d", "refund", draft.clone(), "n2"));
    assert_eq!((other.code(), other.effective_impact()), (Some("PIC_EVIDENCE_FAILED"), None));
    let evidence = other.evidence_entries();
    assert!(evidence.len() == 2 && evidence.iter().all(|piece| !piece.is_verified()), "{evidence:?}");
    assert_eq!(summary(&draft.json()).code(), Some("PIC_VERIFIER_FAILED"));
    assert_eq!(summary(b"{").code(), Some("PIC_SCHEMA_INVALID"));
    let bare = gate.check(&refund("c")).unwrap_err();
    assert!(bare.approval_request().unwrap().proposal().is_none());
}

#[test]
fn a_question_uses_up_no_attestation() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested(&gate, "c", "refund", Draft::new("refund", REFUND, "money"), "n1");
    for _ in 0..2 {
        let no = gate.check(&refund("c").proposal(&proposal)).unwrap_err();
        assert_eq!(no.approval_request().unwrap().proposal().unwrap().code(), None);
    }
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(token.as_str()).proposal(&proposal)), None);
}

#[test]
fn proposal_record_holds_evidence_but_no_values() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let last = || gate.call_log().pop().unwrap().proposal.unwrap();
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "none", b"{}")), Some(UndisclosedTool));
    assert_eq!((last().profile.as_str(), last().digest), ("strict", None), "in every decision");
    assert_eq!(code(&gate, &wire("c").proposal(b"{")), Some(PicSchemaInvalid));
    assert_eq!(last().digest, None);
    let unbacked = Draft::wire().with_file(Digest::of(INVOICE));
    let (no, reason) = refusal(&gate, &wire("c").proposal(&unbacked.json()));
    assert_eq!((no, reason.as_str()), (PicVerifierFailed, "/claims: one must cite an input that is trusted"));
    let record = last();
    assert_eq!(record.digest, Some(unbacked.parse().digest()));
    assert_eq!(record.intent, Some(Digest::of(b"pay what the supplier is owed")));
    assert_eq!((record.impact.clone(), record.evidence().len()), (None, 0), "it did not verify");
    let proposal = world.attested_wire(&gate, "c", "n1");
    assert_eq!(code(&gate, &wire("c").proposal(&proposal)), None);
    let record = last();
    assert_eq!(record.impact.clone().unwrap().as_str(), "money");
    let evidence: Vec<_> = record
        .evidence()
        .iter()
        .map(|e| (e.id.as_str(), e.kind, e.key.as_ref().map(|key| key.as_str())))
        .collect();
    assert_eq!(
        evidence,
        [("invoice", EvidenceKind::Sig, Some("finance")), ("file", EvidenceKind::Hash, None)]
    );
    assert_eq!(record.evidence()[1].digest, Digest::of(INVOICE));
    let lines = serde_json::to_string(&gate.call_log()).unwrap();
    for value in ["DE02", "supplier", "invoice is due", "Invoice 7", "file://"] {
        assert!(!lines.contains(value), "{value}");
    }
}

#[test]
fn rejection_never_shows_the_proposal() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let secret = "hunter2-secret";
    let mut proposals = Vec::new();
    for change in ["intent", "impact", "protocol"] {
        let mut draft = Draft::wire();
        draft.0[change] = json!(secret);
        proposals.push(draft.json());
    }
    let mut draft = Draft::wire();
    draft.0[secret] = json!(secret);
    draft.0["action"]["tool"] = json!(secret);
    proposals.push(draft.json());
    let mut draft = Draft::wire();
    draft.0["action"]["tool"] = json!(secret);
    proposals.push(draft.json());
    let file =
        json!({"id": secret, "type": "hash", "ref": format!("file://{secret}"), "sha256": Digest::of(b"")});
    proposals.push(Draft::wire().with(&file.to_string()).json());
    let sig = json!({"id": secret, "type": "sig", "ref": secret, "payload": secret, "alg": "ed25519",
        "signature": secret, "key_id": secret});
    proposals.push(Draft::wire().with(&sig.to_string()).json());
    proposals.push(format!(r#"{{"{secret}":"#).into_bytes());
    for proposal in proposals {
        let no = gate.check(&wire("c").proposal(&proposal)).unwrap_err();
        assert_eq!(no.code().step(), 8);
        let told = format!("{no} {:?} {} {:?} {}", no, no.message(), no.unlock(), no.call_id());
        assert!(!told.contains(secret), "{told}");
        let record = serde_json::to_string(gate.call_log().last().unwrap()).unwrap();
        assert!(!record.contains(secret), "nor does the record hold a value: {record}");
    }
}

#[test]
fn of_many_threads_with_one_attestation_one_runs() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let proposal = world.attested_wire(&gate, "c1", "n1");
    let results: Vec<_> = std::thread::scope(|scope| {
        let check = || code(&gate, &wire("c1").proposal(&proposal));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(check)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|code| code.is_none()).count(), 1);
    assert_eq!(results.iter().filter(|code| **code == Some(PicEvidenceFailed)).count(), 7);
}

#[test]
fn proposal_records_are_bounded_in_size() {
    let world = World::new();
    let gate = world.proving().limits(GateLimits::default().recent_records(10)).open().unwrap();
    let entry = |n: usize| {
        json!({"id": format!("{n}{}", "\u{1f600}".repeat(100)), "type": "hash", "ref": "file://invoice.txt",
            "sha256": Digest::of(INVOICE)})
    };
    let mut draft = Draft::new("search", SEARCH, "read");
    draft.0["evidence"] = (0..64).map(entry).collect();
    let proposal = draft.json();
    for _ in 0..50 {
        assert_eq!(code(&gate, &search("c").proposal(&proposal)), None);
    }
    let log = gate.call_log();
    assert_eq!(log.len(), 10);
    for record in &log {
        let proposal = record.proposal.as_deref().unwrap();
        assert_eq!((proposal.evidence().len(), proposal.omitted()), (64, 0));
        assert!(serde_json::to_string(record).unwrap().len() < 24 << 10);
    }
}
