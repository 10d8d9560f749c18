//! Trust is an output: evidence that raises it, claims that it backs, and the number of keys behind it.

use countersign_core::ImpactClass;
use serde_json::{Value, json};

use super::world::{
    Facts, answer, attested, attested_transfer, built, cfo, clock, code, cto, endorsed, files, for_acme,
    gate, hash_entry, judge, keyring_of, look, outcome, parsed, transfer, verdict, with_evidence,
};
use crate::{Profile, ProposalVerifierBuilder, ProposedCall, TrustLevel};

const INVOICE: &[u8] = b"invoice 77: 500 to acme";

/// The transfer with the invoice as a file.
fn filed() -> Value {
    with_evidence(transfer(), hash_entry("invoice", "file://invoice.txt", INVOICE))
}

fn with_file(profile: Profile) -> ProposalVerifierBuilder {
    gate(profile).resolver(files(&[("file://invoice.txt", INVOICE)])).verify_evidence().sanitize_trust()
}

#[test]
fn claimed_trust_is_ignored() {
    let mut value = transfer();
    value["provenance"][0]["trust"] = json!("trusted");
    value["provenance"][1]["trust"] = json!("trusted");
    assert_eq!(verdict(&value, gate(Profile::Strict)), "PIC_EVIDENCE_REQUIRED");
    assert_eq!(verdict(&value, gate(Profile::Pic09)), "PIC_VERIFIER_FAILED");
    assert_eq!(verdict(&value, gate(Profile::Pic08).sanitize_trust()), "PIC_VERIFIER_FAILED");
    // Claimed trust counts only if the operator allows it, or under 0.8, which allows it by default.
    let asked = gate(Profile::Pic09).dangerous_trust_as_claimed();
    assert_eq!(verdict(&value, asked), "allow");
    assert_eq!(verdict(&value, gate(Profile::Pic08)), "allow");
    assert_eq!(verdict(&transfer(), gate(Profile::Pic08)), "PIC_VERIFIER_FAILED");
}

#[test]
fn signature_raises_its_input() {
    for profile in Profile::ALL {
        let verified =
            judge(&attested_transfer(), &built(gate(profile).verify_evidence().sanitize_trust())).unwrap();
        let [evidence] = verified.evidence() else { panic!("one entry") };
        assert!(evidence.raises_trust());
        assert_eq!((evidence.id(), evidence.bytes()), ("invoice", None));
        assert_eq!(evidence.signer(), Some(("cfo-1", &cfo().verifying_key())));
        assert!(evidence.attestation().is_some());
        assert_eq!(verified.keys().collect::<Vec<_>>(), [cfo().verifying_key()]);
        assert_eq!(verified.impact(), ImpactClass::Money);
    }
}

#[test]
fn semi_trusted_is_untrusted_under_pic_0_8() {
    let mut value = transfer();
    value["provenance"][0]["trust"] = json!("semi_trusted");
    let text = value.to_string();
    let verifier = built(gate(Profile::Pic08).dangerous_trust_as_claimed());
    let proposal = verifier.parse(text.as_bytes()).unwrap();
    assert_eq!(proposal.provenance()[0].claimed(), TrustLevel::Untrusted);
    let facts = Facts::new("payments_send");
    let call = facts.call_for(&proposal);
    assert_eq!(code(proposal.verify(&verifier, &call, &clock())), "PIC_VERIFIER_FAILED");
}

#[test]
fn semi_trusted_is_no_trust_of_later_profiles() {
    let mut value = look();
    value["provenance"] = json!([{"id": "mail", "trust": "semi_trusted"}]);
    for profile in Profile::ALL {
        let read = built(gate(profile)).parse(value.to_string().as_bytes());
        let expected = if profile == Profile::Pic08 { "allow" } else { "PIC_SCHEMA_INVALID" };
        assert_eq!(code(read), expected, "{profile}");
    }
}

#[test]
fn a_claim_must_cite_the_input_that_is_trusted() {
    let facts = Facts::new("payments_send");
    for (cited, expected) in [
        (json!([]), "PIC_VERIFIER_FAILED"),
        (json!(["mail"]), "PIC_VERIFIER_FAILED"),
        (json!(["mail", "invoice"]), "allow"),
    ] {
        let mut value = transfer();
        value["claims"][0]["evidence"] = cited.clone();
        let value = attested(value, "invoice", &cfo(), "cfo-1", &facts);
        for profile in Profile::ALL {
            let verifier = built(gate(profile).verify_evidence().sanitize_trust());
            assert_eq!(code(judge(&value, &verifier)), expected, "{profile} {cited}");
        }
    }
    let mut none = transfer();
    none["claims"] = json!([]);
    let none = attested(none, "invoice", &cfo(), "cfo-1", &facts);
    let detail = "/claims: one must cite an input that is trusted".to_owned();
    assert_eq!(answer(&none, gate(Profile::Strict)), ("PIC_VERIFIER_FAILED", detail));
}

#[test]
fn dangling_citation_is_refused_by_strict() {
    for impact in ["read", "money"] {
        let mut value = transfer();
        value["impact"] = json!(impact);
        value["claims"] = json!([
            {"text": "a", "evidence": ["invoice"]},
            {"text": "b", "evidence": ["invoice", "Invoice"]},
        ]);
        let value = attested(value, "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"));
        let detail = "/claims/1/evidence: must cite inputs that are there".to_owned();
        assert_eq!(answer(&value, gate(Profile::Strict)), ("PIC_VERIFIER_FAILED", detail));
        assert_eq!(verdict(&value, gate(Profile::Pic09)), "allow");
    }
}

#[test]
fn evidence_for_no_input_raises_nothing() {
    // Signed opaque text: accepted under 0.9 beside any id.
    let entry = |id: &str| {
        json!({"id": id, "type": "sig", "ref": "inline:x", "payload": "approved", "alg": "ed25519",
               "signature": cfo().sign(b"approved").to_base64(), "key_id": "cfo-1"})
    };
    let pic = built(gate(Profile::Pic09));
    assert_eq!(code(judge(&with_evidence(transfer(), entry("invoice")), &pic)), "allow");
    let mut value = with_evidence(transfer(), entry("elsewhere"));
    assert_eq!(code(judge(&value, &pic)), "PIC_VERIFIER_FAILED");
    // Even if a claim cites that id.
    value["claims"][0]["evidence"] = json!(["elsewhere"]);
    assert_eq!(code(judge(&value, &pic)), "PIC_VERIFIER_FAILED");
    value["impact"] = json!("read");
    let verified = judge(&value, &pic).unwrap();
    assert!(!verified.evidence()[0].raises_trust());
    assert_eq!(
        verdict(&with_evidence(transfer(), entry("invoice")), gate(Profile::Strict)),
        "PIC_EVIDENCE_FAILED"
    );
}

#[test]
fn plain_hash_raises_trust_in_0_8_only() {
    assert_eq!(verdict(&filed(), with_file(Profile::Strict)), "PIC_VERIFIER_FAILED");
    assert_eq!(verdict(&filed(), with_file(Profile::Pic09)), "PIC_VERIFIER_FAILED");
    let verified = judge(&filed(), &built(with_file(Profile::Pic08))).unwrap();
    assert_eq!(verified.evidence()[0].bytes(), Some(INVOICE));
    assert!(verified.evidence()[0].raises_trust());
    // At a low impact it verifies nevertheless, and reports it.
    let mut low = filed();
    low["impact"] = json!("read");
    let verified = judge(&low, &built(with_file(Profile::Pic09))).unwrap();
    assert!(!verified.evidence()[0].raises_trust());
}

#[test]
fn endorsed_hash_raises_trust() {
    for profile in [Profile::Strict, Profile::Pic09] {
        for (scope, expected) in [
            (json!({}), "allow"),
            (json!({"tools": ["payments_send"], "impacts": ["money"], "principals": ["alice"]}), "allow"),
            (json!({"tools": ["payments_get"]}), "PIC_VERIFIER_FAILED"),
            (json!({"impacts": ["privacy"]}), "PIC_VERIFIER_FAILED"),
            (json!({"principals": ["bob"]}), "PIC_VERIFIER_FAILED"),
            (json!({"servers": ["bank"]}), "allow"),
            (json!({"servers": ["shop"]}), "PIC_VERIFIER_FAILED"),
        ] {
            let verifier = built(with_file(profile).endorsed(endorsed(INVOICE, &for_acme(&scope))));
            assert_eq!(code(judge(&filed(), &verifier)), expected, "{profile} {scope}");
        }
        let other = built(with_file(profile).endorsed(endorsed(b"another invoice", &for_acme(&json!({})))));
        assert_eq!(code(judge(&filed(), &other)), "PIC_VERIFIER_FAILED");
    }
}

#[test]
fn endorsement_does_not_cover_a_stricter_impact() {
    // The scope must include the proposal's impact and the operator's.
    let scope = json!({"impacts": ["irreversible"]});
    let mut value = filed();
    value["impact"] = json!("irreversible");
    let verifier = built(with_file(Profile::Pic09).endorsed(endorsed(INVOICE, &for_acme(&scope))));
    let args = parsed(&value).args_digest();
    let call = ProposedCall::to_tool_named("payments_send").args(args);
    let judged = |call: &ProposedCall<'_>| code(parsed(&value).verify(&verifier, call, &clock()));
    assert_eq!(judged(&call), "allow");
    let unknown = ProposedCall::to_tool_named("payments_send");
    assert_eq!(judged(&unknown), "PIC_VERIFIER_FAILED", "nothing is known of the arguments");
    assert_eq!(judged(&call.impact(ImpactClass::Money)), "PIC_VERIFIER_FAILED");
}

#[test]
fn only_endorsed_evidence_reports_endorsement() {
    for profile in [Profile::Strict, Profile::Pic09] {
        let verifier = built(with_file(profile).endorsed(endorsed(INVOICE, &for_acme(&json!({})))));
        assert!(verifier.endorsed().unwrap().still_counts(&|_| false));
        let verified = judge(&filed(), &verifier).unwrap();
        assert!(verified.evidence()[0].endorsed());
        let mut low = filed();
        low["impact"] = json!("read");
        assert!(!judge(&low, &built(with_file(profile))).unwrap().evidence()[0].endorsed());
        // It raises no trust there, so no operator vouches for it.
        low["evidence"][0]["id"] = json!("elsewhere");
        assert!(!judge(&low, &verifier).unwrap().evidence()[0].endorsed());
    }
    // In 0.8 the digest alone raises trust, but not at a high impact if an operator endorses digests.
    let low = |value: Value| {
        let mut value = value;
        value["impact"] = json!("read");
        value
    };
    let old = built(with_file(Profile::Pic08).endorsed(endorsed(INVOICE, &for_acme(&json!({})))));
    let verified = judge(&low(filed()), &old).unwrap();
    assert!(verified.evidence()[0].raises_trust() && !verified.evidence()[0].endorsed());
    let verified = judge(&filed(), &old).unwrap();
    assert!(verified.evidence()[0].raises_trust() && verified.evidence()[0].endorsed());
    let signed = judge(&attested_transfer(), &built(gate(Profile::Strict))).unwrap();
    assert!(!signed.evidence()[0].endorsed());
    assert!(built(gate(Profile::Strict)).endorsed().is_none());
}

#[test]
fn endorsed_file_for_no_input_raises_nothing() {
    let mut value = with_evidence(transfer(), hash_entry("elsewhere", "file://invoice.txt", INVOICE));
    value["claims"][0]["evidence"] = json!(["elsewhere"]);
    for profile in [Profile::Pic09, Profile::Pic08] {
        let verifier = built(with_file(profile).endorsed(endorsed(INVOICE, &for_acme(&json!({})))));
        assert_eq!(code(judge(&value, &verifier)), "PIC_VERIFIER_FAILED", "{profile}");
    }
    value["impact"] = json!("read");
    let verified = judge(&value, &built(with_file(Profile::Pic08))).unwrap();
    assert!(!verified.evidence()[0].raises_trust());
}

fn twice_attested(cited: &Value) -> Value {
    let facts = Facts::new("payments_send");
    let mut value = transfer();
    value["impact"] = json!("irreversible");
    value["claims"][0]["evidence"] = cited.clone();
    let first = attested(value, "invoice", &cfo(), "cfo-1", &facts);
    attested(first, "mail", &cto(), "cto-1", &facts)
}

#[test]
fn threshold_counts_keys_behind_cited_evidence() {
    let two = || keyring_of(&json!({"irreversible": 2}));
    let detail = "/evidence: must be signed by as many keys as the keyring asks for".to_owned();
    for profile in Profile::ALL {
        let verifier = || built(gate(profile).verify_evidence().sanitize_trust().keyring(two()));
        assert_eq!(outcome(judge(&twice_attested(&json!(["invoice", "mail"])), &verifier())).0, "allow");
        // One signature, an uncited one, one key twice.
        let mut one = twice_attested(&json!(["invoice", "mail"]));
        one["evidence"].as_array_mut().unwrap().pop();
        let uncited = twice_attested(&json!(["invoice"]));
        let facts = Facts::new("payments_send");
        let mut value = one.clone();
        value.as_object_mut().unwrap().remove("evidence");
        let same = attested(value, "invoice", &cfo(), "cfo-1", &facts);
        let same = attested(same, "mail", &cfo(), "cfo-1", &facts);
        for refused in [one, uncited, same] {
            assert_eq!(
                outcome(judge(&refused, &verifier())),
                ("PIC_VERIFIER_FAILED", detail.clone()),
                "{profile}"
            );
        }
        // Another impact has another threshold.
        assert_eq!(code(judge(&attested_transfer(), &verifier())), "allow");
    }
}

#[test]
fn stated_threshold_of_one_counts_at_a_low_impact() {
    let mut value = transfer();
    value["impact"] = json!("write");
    for profile in Profile::ALL {
        let gate = || gate(profile).verify_evidence().sanitize_trust();
        assert_eq!(verdict(&value, gate()), "allow");
        let one = built(gate().keyring(keyring_of(&json!({"write": 1}))));
        assert_eq!(code(judge(&value, &one)), "PIC_VERIFIER_FAILED");
        let signed = attested(value.clone(), "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"));
        assert_eq!(code(judge(&signed, &one)), "allow");
    }
    let two = built(gate(Profile::Pic09).keyring(keyring_of(&json!({"write": 2}))));
    assert_eq!(code(judge(&value, &two)), "PIC_VERIFIER_FAILED");
    let skipping = gate(Profile::Pic09).keyring(keyring_of(&json!({"write": 2}))).dangerous_skip_evidence();
    assert_eq!(verdict(&value, skipping), "PIC_VERIFIER_FAILED");
}

#[test]
fn the_operators_impact_has_its_threshold_as_well() {
    let keyring = || keyring_of(&json!({"money": 2}));
    let mut value = transfer();
    value["impact"] = json!("irreversible");
    let value = attested(value, "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"));
    let verifier = built(gate(Profile::Strict).keyring(keyring()));
    assert_eq!(code(judge(&value, &verifier)), "allow");
    let facts = Facts::new("payments_send");
    let proposal = parsed(&value);
    let call = facts.call_for(&proposal).impact(ImpactClass::Money);
    assert_eq!(code(proposal.verify(&verifier, &call, &clock())), "PIC_VERIFIER_FAILED");
}
