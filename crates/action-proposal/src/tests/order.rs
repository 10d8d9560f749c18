//! One order of checks for every profile, and the comparisons of each.

use countersign_core::{Digest, ImpactClass, ToolName};
use serde_json::{Value, json};

use super::world::{
    Facts, answer, attested, attested_transfer, built, cfo, clock, code, gate, hash_entry, judge, keyring_of,
    look, outcome, parsed, transfer, verdict, with_evidence,
};
use crate::{
    HighImpacts, Profile, ProposalCode, ProposalPolicy, ProposalVerifier, ProposalVerifierBuilder,
    ProposedCall,
};

fn policy(file: &Value) -> ProposalPolicy {
    ProposalPolicy::from_json(file.to_string().as_bytes()).unwrap()
}

/// Verifies for a given call.
fn judge_call(value: &Value, verifier: &ProposalVerifier, call: &ProposedCall<'_>) -> (&'static str, String) {
    outcome(parsed(value).verify(verifier, call, &clock()))
}

#[test]
fn a_low_impact_passes_without_ceremony_under_every_profile() {
    for profile in Profile::ALL {
        let verified = judge(&look(), &built(gate(profile))).unwrap();
        assert_eq!((verified.profile(), verified.impact()), (profile, ImpactClass::Read));
        assert!(verified.evidence().is_empty());
        assert_eq!(verified.keys().count(), 0);
    }
}

#[test]
fn a_proposal_for_another_tool_is_refused_byte_by_byte() {
    for profile in Profile::ALL {
        let verifier = built(gate(profile));
        let args = parsed(&look()).args_digest();
        for other in ["Docs_search", "docs_search ", " docs_search", "docs_searc", "d\u{43e}cs_search", ""] {
            let call = ProposedCall::to_tool_named(other).args(args);
            let expected =
                ("PIC_TOOL_BINDING_MISMATCH", "/action/tool: must be the tool that is called".to_owned());
            assert_eq!(judge_call(&look(), &verifier, &call), expected, "{other}");
        }
        let name = ToolName::new("docs_search").unwrap();
        assert_eq!(judge_call(&look(), &verifier, &ProposedCall::new(&name).args(args)).0, "allow");
        assert_eq!(judge_call(&look(), &verifier, &ProposedCall::unbound()).0, "allow");
    }
}

#[test]
fn a_proposal_for_other_arguments_is_refused() {
    let others =
        [r#"{"q":"hours","extra":1}"#, "{}", r#"{"q":"Hours"}"#, r#"{"q":["hours"]}"#, r#"{"q":null}"#];
    for profile in Profile::ALL {
        let verifier = built(gate(profile));
        for other in others {
            let call = ProposedCall::to_tool_named("docs_search").args(Digest::of(other.as_bytes()));
            let expected =
                ("PIC_ARG_BINDING_MISMATCH", "/action/args: must be the arguments of the call".to_owned());
            assert_eq!(judge_call(&look(), &verifier, &call), expected, "{other}");
            // Without a tool the arguments are compared all the same.
            let unnamed = ProposedCall::unbound().args(Digest::of(other.as_bytes()));
            assert_eq!(judge_call(&look(), &verifier, &unnamed).0, "PIC_ARG_BINDING_MISMATCH");
        }
        let same = ProposedCall::to_tool_named("docs_search").args(Digest::of(br#"{"q":"hours"}"#));
        assert_eq!(judge_call(&look(), &verifier, &same).0, "allow");
    }
}

#[test]
fn strict_wants_the_arguments_of_every_named_tool() {
    let call = ProposedCall::to_tool_named("docs_search");
    let expected = ("PIC_ARG_BINDING_MISMATCH", "the call: must come with its arguments' digest".to_owned());
    assert_eq!(judge_call(&look(), &built(gate(Profile::Strict)), &call), expected);
    for profile in [Profile::Pic09, Profile::Pic08] {
        assert_eq!(judge_call(&look(), &built(gate(profile)), &call).0, "allow");
    }
}

#[test]
fn understated_impact_is_refused_under_every_profile() {
    for profile in Profile::ALL {
        let args = parsed(&look()).args_digest();
        let call = ProposedCall::to_tool_named("docs_search").args(args);
        for (place, operator) in ImpactClass::ALL.into_iter().enumerate() {
            let expected = if place == 0 { "allow" } else { "IMPACT_UNDERSTATED" };
            let stated = judge_call(&look(), &built(gate(profile)), &call.impact(operator));
            assert_eq!(stated.0, expected, "{profile} {operator}");
            let listed = policy(&json!({"impact_by_tool": {"docs_search": operator}}));
            assert_eq!(judge_call(&look(), &built(gate(profile).policy(listed)), &call).0, expected);
        }
        // The stricter of the two counts.
        let listed = policy(&json!({"impact_by_tool": {"docs_search": "money"}}));
        let verifier = built(gate(profile).policy(listed));
        let outcome = judge_call(&look(), &verifier, &call.impact(ImpactClass::Read));
        let detail = "/impact: must be no less than what the operator says".to_owned();
        assert_eq!(outcome, ("IMPACT_UNDERSTATED", detail));
    }
}

#[test]
fn effective_impact_is_the_strictest() {
    let verifier = built(gate(Profile::Pic09).policy(policy(&json!({
        "impact_by_tool": {"docs_search": "write"},
        "require_evidence_for_impacts": ["irreversible"],
    }))));
    for (proposed, stated) in [("external", "read"), ("write", "write"), ("compute", "external")] {
        let mut value = look();
        value["impact"] = json!(proposed);
        let call = ProposedCall::to_tool_named("docs_search").impact(stated.parse().unwrap());
        let verified = parsed(&value).verify(&verifier, &call, &clock()).unwrap();
        assert_eq!(verified.impact().as_str(), proposed);
    }
}

#[test]
fn unlisted_tool_is_refused_by_strict_only() {
    let listing = || policy(&json!({"impact_by_tool": {"payments_send": "money"}}));
    let expected = ("PIC_POLICY_VIOLATION", "/action/tool: must be a tool that the policy lists".to_owned());
    assert_eq!(answer(&look(), gate(Profile::Strict).policy(listing())), expected);
    for profile in [Profile::Pic09, Profile::Pic08] {
        assert_eq!(verdict(&look(), gate(profile).policy(listing())), "allow");
    }
    // A registry that knows the tool is as good as a policy that lists it; a policy without tools lists none.
    let strict = built(gate(Profile::Strict).policy(listing()));
    let args = parsed(&look()).args_digest();
    let call = ProposedCall::to_tool_named("docs_search").args(args);
    assert_eq!(judge_call(&look(), &strict, &call.impact(ImpactClass::Read)).0, "allow");
    assert_eq!(judge_call(&look(), &strict, &ProposedCall::unbound()), expected);
    assert_eq!(verdict(&look(), gate(Profile::Strict).policy(ProposalPolicy::default())), "allow");
}

#[test]
fn strict_looks_up_the_proposals_tool_without_a_call() {
    let listing = || policy(&json!({"impact_by_tool": {"docs_search": "money"}}));
    let strict = built(gate(Profile::Strict).policy(listing()));
    assert_eq!(judge_call(&look(), &strict, &ProposedCall::unbound()).0, "IMPACT_UNDERSTATED");
    // As the reference, which looks up the tool of the call only.
    let pic = built(gate(Profile::Pic09).policy(listing()));
    assert_eq!(judge_call(&look(), &pic, &ProposedCall::unbound()).0, "allow");
}

#[test]
fn added_high_impact_needs_backing() {
    let high: HighImpacts = [ImpactClass::External].into_iter().collect();
    for profile in Profile::ALL {
        let mut value = look();
        value["impact"] = json!("external");
        assert_eq!(verdict(&value, gate(profile)), "allow");
        let refused = verdict(&value, gate(profile).high(high));
        let expected =
            if profile == Profile::Strict { "PIC_EVIDENCE_REQUIRED" } else { "PIC_VERIFIER_FAILED" };
        assert_eq!(refused, expected);
        for impact in ["money", "privacy", "irreversible"] {
            value["impact"] = json!(impact);
            assert_eq!(verdict(&value, gate(profile).high(high)), expected, "{profile} {impact}");
        }
    }
}

#[test]
fn required_evidence_depends_on_profile() {
    let required =
        ("PIC_EVIDENCE_REQUIRED", "/evidence: must have an entry, since the call needs evidence".to_owned());
    assert_eq!(answer(&transfer(), gate(Profile::Strict)), required);
    let mut empty = transfer();
    empty["evidence"] = json!([]);
    assert_eq!(answer(&empty, gate(Profile::Strict)), required);
    for profile in [Profile::Pic09, Profile::Pic08] {
        let verifying = || gate(profile).verify_evidence().sanitize_trust();
        assert_eq!(verdict(&transfer(), verifying()), "PIC_VERIFIER_FAILED");
        assert_eq!(answer(&transfer(), verifying().policy(ProposalPolicy::default())), required);
        let reads = || policy(&json!({"require_evidence_for_impacts": ["read"]}));
        assert_eq!(answer(&look(), verifying().policy(reads())), required);
        assert_eq!(verdict(&transfer(), verifying().policy(reads())), "PIC_VERIFIER_FAILED");
        let skipping = gate(profile).policy(reads()).dangerous_skip_evidence();
        assert_eq!(verdict(&look(), skipping), "allow");
    }
}

#[test]
fn a_policy_asks_for_evidence_by_its_own_impact_of_the_tool() {
    // The reference's rule: the policy's impact for the tool precedes the proposal's, even if it is lower.
    let mut value = look();
    value["impact"] = json!("external");
    let file =
        json!({"impact_by_tool": {"docs_search": "write"}, "require_evidence_for_impacts": ["external"]});
    assert_eq!(verdict(&value, gate(Profile::Pic09).policy(policy(&file))), "allow");
    // Under strict, from any source.
    assert_eq!(verdict(&value, gate(Profile::Strict).policy(policy(&file))), "PIC_EVIDENCE_REQUIRED");
    let verifier = built(gate(Profile::Pic09).policy(policy(&file)));
    let call = ProposedCall::to_tool_named("docs_search").impact(ImpactClass::External);
    assert_eq!(judge_call(&value, &verifier, &call).0, "PIC_EVIDENCE_REQUIRED");
}

#[test]
fn the_first_check_that_fails_is_the_answer() {
    let everything_wrong = || {
        let mut value = with_evidence(transfer(), hash_entry("invoice", "file://none", b"x"));
        value = with_evidence(value, hash_entry("invoice", "file://none", b"x"));
        value["claims"][0]["evidence"] = json!(["nobody"]);
        value
    };
    let listing = || policy(&json!({"impact_by_tool": {"payments_send": "irreversible"}}));
    let strict = || built(gate(Profile::Strict).policy(listing()));
    let mut value = everything_wrong();
    let wrong_args = Digest::of(b"{}");
    let call = ProposedCall::to_tool_named("other").args(wrong_args);
    assert_eq!(judge_call(&value, &strict(), &call).0, "PIC_DUPLICATE_ID");
    value["evidence"][1]["id"] = json!("mail");
    assert_eq!(judge_call(&value, &strict(), &call).0, "PIC_TOOL_BINDING_MISMATCH");
    let call = ProposedCall::to_tool_named("payments_send").args(wrong_args);
    assert_eq!(judge_call(&value, &strict(), &call).0, "PIC_ARG_BINDING_MISMATCH");
    let call = ProposedCall::to_tool_named("payments_send").args(parsed(&value).args_digest());
    assert_eq!(judge_call(&value, &strict(), &call).0, "IMPACT_UNDERSTATED");
    value["impact"] = json!("irreversible");
    assert_eq!(judge_call(&value, &strict(), &call).0, "PIC_EVIDENCE_FAILED");
    value.as_object_mut().unwrap().remove("evidence");
    assert_eq!(judge_call(&value, &strict(), &call).0, "PIC_EVIDENCE_REQUIRED");
    let attested = attested_transfer();
    assert_eq!(verdict(&attested, gate(Profile::Strict)), "allow");
}

#[test]
fn duplicate_evidence_ids_are_refused_by_strict_only() {
    let value = with_evidence(attested_transfer(), attested_transfer()["evidence"][0].clone());
    let detail = "/evidence/1/id: must be no id of an entry before it".to_owned();
    assert_eq!(answer(&value, gate(Profile::Strict)), ("PIC_DUPLICATE_ID", detail));
    assert_eq!(verdict(&value, gate(Profile::Pic09)), "allow");
}

#[test]
fn the_codes_stand_in_the_order_of_the_checks() {
    assert!(ProposalCode::ALL.is_sorted());
    let place = |code| ProposalCode::ALL.iter().position(|other| *other == code).unwrap();
    assert!(place(ProposalCode::ArgBindingMismatch) < place(ProposalCode::PolicyViolation));
    assert!(place(ProposalCode::PolicyViolation) < place(ProposalCode::ImpactUnderstated));
    assert!(place(ProposalCode::ImpactUnderstated) < place(ProposalCode::EvidenceRequired));
}

/// The read with the impact that the agent states, while the operator states `write` in the call, in the policy, or
/// in both with more.
fn stated(
    gate: ProposalVerifierBuilder,
    evidence_at: &str,
    (proposed, called, listed): Stated,
) -> &'static str {
    let mut value = look();
    value["impact"] = json!(proposed);
    let mut file = json!({"require_evidence_for_impacts": [evidence_at]});
    if let Some(listed) = listed {
        file["impact_by_tool"] = json!({"docs_search": listed});
    }
    let proposal = parsed(&value);
    let facts = Facts::new("docs_search");
    let mut call = facts.call_for(&proposal);
    if let Some(called) = called {
        call = call.impact(called.parse().unwrap());
    }
    code(proposal.verify(&built(gate.policy(policy(&file))), &call, &clock()))
}

/// Impacts of the proposal, the call and the policy.
type Stated = (&'static str, Option<&'static str>, Option<&'static str>);

/// Cases in which one of them is `write`.
const WRITES: [Stated; 7] = [
    ("write", Some("write"), None),
    ("external", Some("write"), None),
    ("compute", Some("write"), Some("external")),
    ("external", None, Some("write")),
    ("compute", Some("external"), Some("write")),
    ("write", None, None),
    ("compute", Some("write"), Some("compute")),
];

#[test]
fn stricter_impact_keeps_the_high_impact_rule() {
    let high = HighImpacts::default().with(ImpactClass::Write);
    for impacts in WRITES {
        for profile in Profile::ALL {
            let gate = || gate(profile).verify_evidence().sanitize_trust();
            let expected =
                if profile == Profile::Strict { "PIC_EVIDENCE_REQUIRED" } else { "PIC_VERIFIER_FAILED" };
            let came = stated(gate().high(high), "irreversible", impacts);
            assert_eq!(came, expected, "{profile} {impacts:?}");
            assert_eq!(stated(gate(), "irreversible", impacts), "allow");
        }
    }
}

#[test]
fn stating_more_does_not_lift_a_threshold() {
    for impacts in WRITES {
        for profile in Profile::ALL {
            let gate = gate(profile).verify_evidence().sanitize_trust();
            let came = stated(gate.keyring(keyring_of(&json!({"write": 1}))), "irreversible", impacts);
            assert_eq!(came, "PIC_VERIFIER_FAILED", "{profile} {impacts:?}");
        }
    }
}

#[test]
fn stricter_impact_keeps_the_policys_evidence_rule() {
    for impacts in WRITES {
        assert_eq!(stated(gate(Profile::Strict), "write", impacts), "PIC_EVIDENCE_REQUIRED", "{impacts:?}");
    }
}

#[test]
fn tool_rule_requires_evidence_at_any_impact() {
    let mut value = transfer();
    value["impact"] = json!("read");
    value["provenance"][0]["trust"] = json!("untrusted");
    let facts = Facts::new("payments_send");
    let judged = |value: &Value, verifier: &ProposalVerifier| {
        let proposal = parsed(value);
        let call = facts.call_for(&proposal).evidence_required();
        outcome(proposal.verify(verifier, &call, &clock()))
    };
    let signed = attested(value.clone(), "invoice", &cfo(), "cfo-1", &facts);
    let beside = attested(value.clone(), "mail", &cfo(), "cfo-1", &facts);
    let mut forged = signed.clone();
    forged["evidence"][0]["key_id"] = json!("cto-1");
    let required = "/evidence: must have an entry, since the call needs evidence".to_owned();
    for profile in Profile::ALL {
        // By default: in 0.8 the operator skips evidence.
        let verifier = built(gate(profile));
        assert_eq!(code(judge(&value, &verifier)), "allow");
        assert_eq!(judged(&value, &verifier), ("PIC_EVIDENCE_REQUIRED", required.clone()), "{profile}");
        assert_eq!(judged(&signed, &verifier).0, "allow", "{profile}");
        assert_eq!(judged(&beside, &verifier).0, "PIC_VERIFIER_FAILED", "{profile}");
        assert_eq!(judged(&forged, &verifier).0, "PIC_EVIDENCE_FAILED", "{profile}");
    }
    let skipping = built(gate(Profile::Pic09).dangerous_skip_evidence().dangerous_trust_as_claimed());
    assert_eq!(judged(&value, &skipping), ("PIC_EVIDENCE_REQUIRED", required));
    assert_eq!(judged(&forged, &skipping).0, "PIC_EVIDENCE_FAILED");
}
