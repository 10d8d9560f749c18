//! Rules that a weaker profile enforces if stated, and its own readings.

use serde_json::{Value, json};

use super::made::{
    Case, allowed, attested, base, blocked, changed, evidence_failed, look, pic09, transfer, without,
};

/// A proposal with a semi-trusted input, which drafts before PIC/1.0 had.
fn semi_trusted(mut proposal: Value) -> Value {
    proposal["provenance"] = json!([{"id": "invoice", "trust": "semi_trusted"}]);
    proposal
}

pub(super) fn accepted() -> Vec<Case> {
    let read = base("pic-0.8", semi_trusted(look()));
    vec![("semi_trusted_in_0_8", allowed("pic-0.8 reads semi_trusted as untrusted", read))]
}

pub(super) fn refused() -> Vec<Case> {
    let claimed = changed(base("pic-0.8", semi_trusted(transfer())), |vector| {
        vector["options"]["strict_trust"] = false.into();
    });
    let fails = |about: &str, member: &str, vector: Value| {
        evidence_failed(about, &format!("/evidence/0/payload{member}"), vector)
    };
    let stated = |name: &'static str, value: Value| {
        attested(|object| {
            object[name] = value;
        })
    };
    vec![
        (
            "stated_call_id_of_another_call",
            fails("pic-0.9 compares a call id", "/x_call_id", pic09(stated("x_call_id", "call-2".into()))),
        ),
        (
            "stated_call_id_in_0_8",
            fails("so does pic-0.8", "/x_call_id", base("pic-0.8", stated("x_call_id", "call-2".into()))),
        ),
        (
            "stated_call_id_without_a_call",
            fails(
                "a call id, and no call that it could be compared with",
                "/x_call_id",
                changed(pic09(stated("x_call_id", "call-1".into())), |vector| {
                    without(&mut vector["call"], "call_id")
                }),
            ),
        ),
        (
            "stated_files_of_another_proposal",
            fails(
                "pic-0.9 compares the files",
                "/x_files",
                pic09(stated("x_files", json!([{"id": "scan", "sha256": "0".repeat(64)}]))),
            ),
        ),
        (
            "stated_member_that_is_unknown",
            fails("a restriction that pic-0.9 cannot enforce", "", pic09(stated("x_limit", 500.into()))),
        ),
        (
            "stated_nonce_without_issue_time",
            fails(
                "a nonce is for one use, which is remembered for a time",
                "/issued_at",
                pic09(attested(|object| without(object, "issued_at"))),
            ),
        ),
        (
            "stated_nonce_for_another_audience",
            fails("one gate remembers a use", "/audience", pic09(stated("audience", "gate-2".into()))),
        ),
        (
            "stated_nonce_that_is_short",
            fails("a nonce of 15 characters", "/x_nonce", pic09(stated("x_nonce", "n".repeat(15).into()))),
        ),
        (
            "semi_trusted_backs_nothing_in_0_8",
            blocked("semi_trusted is no trust", "PIC_VERIFIER_FAILED", "/claims", claimed),
        ),
        (
            "semi_trusted_in_0_9",
            blocked(
                "pic-0.9 has no semi_trusted",
                "PIC_SCHEMA_INVALID",
                "/provenance/0/trust",
                pic09(semi_trusted(look())),
            ),
        ),
    ]
}
