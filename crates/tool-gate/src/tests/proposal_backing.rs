//! Evidence that backs a call, keys that stop counting, and the cost of judging a proposal to the agent.

use countersign_action_proposal::*;
use countersign_core::*;
use serde_json::json;

use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

const fn proven(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "proven", b"{}")
}

#[test]
fn evidence_rule_needs_an_attestation_or_endorsement() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let bare = Draft::new("proven", b"{}", "write");
    assert_eq!(code(&gate, &proven("c").proposal(&bare.json())), Some(PicEvidenceRequired));
    for nobodys in [bare.clone().with_file(Digest::of(INVOICE)), file_of_the_invoice(bare.clone())] {
        assert_eq!(code(&gate, &proven("c").proposal(&nobodys.json())), Some(PicVerifierFailed));
    }
    let attested = world.attested(&gate, "c", "proven", bare.clone(), "n1");
    assert_eq!(code(&gate, &proven("c").proposal(&attested)), None);
    let gate = world.full().proposals(world.proposals(endorsing())).open().unwrap();
    let elsewhere = bare.clone().with_file(Digest::of(INVOICE)).json();
    assert_eq!(code(&gate, &proven("c").proposal(&elsewhere)), Some(PicVerifierFailed), "for no input");
    let endorsed = file_of_the_invoice(bare).json();
    assert_eq!(code(&gate, &proven("c").proposal(&endorsed)), None);
    assert_eq!(code(&gate, &proven("c").proposal(&endorsed)), None, "there is no attestation to use up");
}

#[test]
fn evidence_rule_is_met_by_no_claim_in_any_profile() {
    let world = World::new();
    let mut claimed = Draft::new("proven", b"{}", "write");
    claimed.0["provenance"][1]["trust"] = json!("trusted");
    let nobodys = claimed.clone().with_file(Digest::of(INVOICE));
    for profile in [Profile::Pic09, Profile::Pic08] {
        let lax = ProposalVerifier::builder(profile).dangerous_skip_evidence().dangerous_trust_as_claimed();
        let gate = world.full().proposals(world.proposals(lax)).open().unwrap();
        for draft in [&claimed, &nobodys] {
            let refused = code(&gate, &proven("c").proposal(&draft.json()));
            assert_eq!(refused.map(RejectionCode::step), Some(8), "{profile:?}");
        }
    }
}

#[test]
fn a_word_that_asks_for_a_proposal_is_not_hidden_by_a_worse_one() {
    let world = World::new();
    let asking = ToolCall::new("c", "desk", "asking", b"{}").ask(GOAL);
    let mail = ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example"}"#);
    for (policy, call) in [
        (r#"{"impact_by_tool":{"asking":"external"},"require_pic_for_impacts":["write"]}"#, &asking),
        (r#"{"impact_by_tool":{"mail":"write"},"require_pic_for_impacts":["write"]}"#, &mail),
    ] {
        let policy = ProposalPolicy::from_json(policy.as_bytes()).unwrap();
        let gate = world.full().proposals(world.proposals(verifier().policy(policy))).open().unwrap();
        assert_eq!(code(&gate, call), Some(PicInvalidRequest), "{call:?}");
        assert_eq!(code(&gate, &search("c")), None);
    }
}

#[test]
fn raised_impact_is_recorded_without_a_proposal_too() {
    let world = World::new();
    let policy = ProposalPolicy::from_json(br#"{"impact_by_tool":{"search":"external","mail":"read"}}"#);
    let settings = world.proposals(verifier().policy(policy.unwrap()));
    let gate = world.full().proposals(settings).open().unwrap();
    let recorded = |call: &ToolCall<'_>| {
        let _ = code(&gate, call);
        let record = gate.call_log().pop().unwrap();
        let [of_registry, effective] = [record.impact, record.proposal.unwrap().impact];
        (of_registry.unwrap().as_str().to_owned(), effective.map(|impact| impact.as_str().to_owned()))
    };
    let raised = |effective: &str| ("read".to_owned(), Some(effective.to_owned()));
    assert_eq!(recorded(&search("c")), raised("external"));
    assert_eq!(recorded(&search("c").proposal(b"rubbish")), raised("external"), "refused");
    let worse = Draft::new("search", SEARCH, "compute").json();
    assert_eq!(recorded(&search("c").proposal(&worse)), raised("compute"));
    let mail = ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example"}"#);
    assert_eq!(recorded(&mail), ("external".to_owned(), None), "the registry says more");
}

#[test]
fn a_signer_revoked_by_the_id_in_the_keyring_signs_for_nothing() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    world.reload(2, r#"{"agents": [], "keys": ["finance"], "snapshots": []}"#);
    let proposal = world.attested_wire(&gate, "c1", "n1");
    let refused = (PicEvidenceFailed, "the registry revokes a key that signed".to_owned());
    assert_eq!(refusal(&gate, &wire("c1").proposal(&proposal)), refused);
    assert_eq!(
        code(&world.proving().open().unwrap(), &wire("c1").proposal(&proposal)),
        Some(PicEvidenceFailed)
    );
}

#[test]
fn endorsement_ends_when_its_key_is_revoked() {
    let world = World::new();
    let gate = world.full().proposals(world.proposals(endorsing())).open().unwrap();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    let call = wire("c").proposal(&endorsed);
    assert_eq!(code(&gate, &call), None);
    let key = endorser().key_id();
    world.reload(2, &format!(r#"{{"agents": [], "keys": ["{key}"], "snapshots": []}}"#));
    let refused = (PicEvidenceFailed, "the registry revokes a key that endorsed".to_owned());
    assert_eq!(refusal(&gate, &call), refused);
    let attested = world.attested_wire(&gate, "c1", "n1");
    assert_eq!(code(&gate, &wire("c1").proposal(&attested)), None, "the signature of another key is as good");
}

#[test]
fn examined_proposal_keeps_its_rate_limit_slot() {
    let world = World::new();
    let minute = || world.clock.advance(Millis::from_secs(60)).unwrap();
    let scarce = |id| ToolCall::new(id, "desk", "scarce", b"{}");
    let no = |call: &CheckedCall<'_>| {
        if call.call_id().as_str() == "no" { Err("no".to_owned()) } else { Ok(()) }
    };
    let gate = world.proving().user_check("no", no).open().unwrap();
    let honest = Draft::new("scarce", b"{}", "read");
    let lying = honest.clone().with_file(Digest::of(b"another file")).json();
    let honest = honest.with_file(Digest::of(INVOICE)).json();
    let check = |call: &ToolCall<'_>| code(&gate, call);
    // Refused before a proposal is examined: the slot is released.
    for _ in 0..5 {
        assert_eq!(check(&scarce("c").ask("drift").proposal(&lying)), Some(AskDrift));
    }
    assert_eq!(check(&scarce("c").proposal(&lying)), Some(PicEvidenceFailed));
    assert_eq!(check(&scarce("no").proposal(&honest)), Some(CheckRefused), "judged, and refused later");
    assert_eq!(check(&scarce("c").proposal(&lying)), Some(RateLimit));
    assert_eq!(check(&scarce("c")), Some(RateLimit));
    minute();
    assert_eq!([check(&scarce("c")), check(&scarce("c").proposal(&honest))], [None, None]);
    assert_eq!(check(&scarce("c")), Some(RateLimit), "an accepted one has one place");
    minute();
    assert_eq!(check(&scarce("no")), Some(CheckRefused), "nothing was judged");
    assert_eq!([check(&scarce("c").proposal(&lying)), check(&scarce("c"))], [Some(PicEvidenceFailed), None]);
    minute();
    assert_eq!(check(&scarce("c")), Some(CallLimit), "three ran");
}
