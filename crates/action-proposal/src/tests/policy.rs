//! The policy file, and its effect on a verifier.

use countersign_core::ImpactClass;
use serde_json::json;

use super::world::{built, gate, keyring_of};
use crate::{HighImpacts, PolicyError, Profile, ProposalPolicy, ProposalVerifier, VerifierError};

fn read(text: &str) -> Result<ProposalPolicy, PolicyError> {
    ProposalPolicy::from_json(text.as_bytes())
}

fn asked(asks: impl Fn(ImpactClass) -> bool) -> Vec<&'static str> {
    ImpactClass::ALL.into_iter().filter(|impact| asks(*impact)).map(ImpactClass::as_str).collect()
}

const HIGH: [&str; 3] = ["money", "privacy", "irreversible"];

#[test]
fn policy_file_is_read() {
    let policy = read(
        r#"{"impact_by_tool": {"pay": "money", "Pay": "read"},
            "require_pic_for_impacts": ["write", "money"], "require_evidence_for_impacts": ["external"]}"#,
    )
    .unwrap();
    assert_eq!(policy.impact_of("pay"), Some(ImpactClass::Money));
    assert_eq!(policy.impact_of("Pay"), Some(ImpactClass::Read));
    assert_eq!(policy.impact_of("pay "), None);
    assert!(policy.lists_tools());
    assert_eq!(asked(|impact| policy.requires_proposal(impact)), ["write", "money"]);
    assert_eq!(asked(|impact| policy.requires_evidence(impact)), ["external"]);
}

#[test]
fn omitted_policy_list_means_the_high_impacts() {
    for text in
        ["{}", r#"{"impact_by_tool":{},"require_pic_for_impacts":[],"require_evidence_for_impacts":[]}"#]
    {
        let policy = read(text).unwrap();
        assert_eq!(policy, ProposalPolicy::default());
        assert!(!policy.lists_tools());
        assert_eq!(asked(|impact| policy.requires_proposal(impact)), HIGH);
        assert_eq!(asked(|impact| policy.requires_evidence(impact)), HIGH);
    }
}

#[test]
fn a_policy_that_is_not_understood_is_refused_as_a_whole() {
    for (text, code) in [
        ("", "POLICY_MALFORMED"),
        ("[]", "POLICY_MALFORMED"),
        ("null", "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":{"a":"read","a":"money"}}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":{"a":"read"},"impact_by_tools":{}}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":null}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":["a"]}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":{"":"read"}}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":{"a":1}}"#, "POLICY_MALFORMED"),
        (r#"{"impact_by_tool":{"a":"Money"}}"#, "POLICY_IMPACT"),
        (r#"{"require_pic_for_impacts":"money"}"#, "POLICY_MALFORMED"),
        (r#"{"require_pic_for_impacts":null}"#, "POLICY_MALFORMED"),
        (r#"{"require_evidence_for_impacts":["money",null]}"#, "POLICY_MALFORMED"),
        (r#"{"require_evidence_for_impacts":["none"]}"#, "POLICY_IMPACT"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.code(), code, "{text}");
        assert!(!error.to_string().contains("Money") && !error.to_string().contains("none"));
    }
}

#[test]
fn high_impact_always_needs_a_proposal() {
    let lax = read(r#"{"require_pic_for_impacts": ["compute"]}"#).unwrap();
    for profile in Profile::ALL {
        let verifier = built(gate(profile).policy(lax.clone()));
        assert_eq!(
            asked(|impact| verifier.requires_proposal(impact)),
            ["compute", "money", "privacy", "irreversible"]
        );
        let bare = built(ProposalVerifier::builder(profile));
        assert_eq!(asked(|impact| bare.requires_proposal(impact)), HIGH);
        let more = built(gate(profile).high(HighImpacts::default().with(ImpactClass::Write)));
        assert_eq!(
            asked(|impact| more.requires_proposal(impact)),
            ["write", "money", "privacy", "irreversible"]
        );
    }
}

#[test]
fn absent_policy_requires_no_evidence() {
    let verifier = built(gate(Profile::Pic09));
    assert_eq!(asked(|impact| verifier.policy().requires_evidence(impact)), [""; 0]);
    assert!(!verifier.policy().lists_tools());
}

#[test]
fn strict_can_be_asked_for_nothing_dangerous() {
    let strict = || gate(Profile::Strict);
    assert_eq!(strict().dangerous_skip_evidence().build().err(), Some(VerifierError::SkipUnderStrict));
    assert_eq!(strict().dangerous_trust_as_claimed().build().err(), Some(VerifierError::ClaimedUnderStrict));
    assert_eq!(VerifierError::SkipUnderStrict.code(), "VERIFIER_SKIPS_EVIDENCE");
    assert_eq!(VerifierError::ClaimedUnderStrict.code(), "VERIFIER_TRUSTS_CLAIMS");
    // The last setting wins.
    assert!(strict().dangerous_skip_evidence().verify_evidence().build().is_ok());
    assert!(strict().dangerous_trust_as_claimed().sanitize_trust().build().is_ok());
    for profile in [Profile::Pic09, Profile::Pic08] {
        assert!(gate(profile).dangerous_skip_evidence().dangerous_trust_as_claimed().build().is_ok());
    }
}

#[test]
fn verifier_reports_its_settings() {
    let verifier = built(gate(Profile::Pic09));
    assert_eq!(verifier.profile(), Profile::Pic09);
    assert_eq!(verifier.keyring().len(), 2);
    assert_eq!(verifier.high(), HighImpacts::default());
    assert_eq!(*verifier.limits(), crate::ProposalLimits::default());
}

#[test]
fn requirements_of_evidence_imply_a_proposal() {
    let plain = built(gate(Profile::Strict));
    assert_eq!(asked(|impact| plain.requires_proposal(impact)), HIGH);
    let evidence = read(r#"{"require_evidence_for_impacts": ["external"]}"#).unwrap();
    let verifier = built(gate(Profile::Strict).policy(evidence));
    assert_eq!(
        asked(|impact| verifier.requires_proposal(impact)),
        ["external", "money", "privacy", "irreversible"]
    );
    for count in [1, 2] {
        let keyring = keyring_of(&json!({"write": count}));
        let verifier = built(gate(Profile::Strict).keyring(keyring));
        assert_eq!(
            asked(|impact| verifier.requires_proposal(impact)),
            ["write", "money", "privacy", "irreversible"]
        );
    }
}
