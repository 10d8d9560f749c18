use countersign::action_proposal::{
    ActionProposal, EvidenceKeyring, Profile, ProposalLimits, ProposalPolicy, ProposalVerifier, ProposedCall,
};
use countersign::canonical_json::{Limits, read};
use countersign::core::{
    AgentId, Audience, CallId, Digest, ImpactClass, ManualClock, Principal, Recipe, ServerName, SessionId,
    Timestamp,
};

/// A proposal that is accepted has the digests of its canonical text, which reads back to the same proposal. One that
/// verifies for a call of high impact names its tool and arguments, and has evidence of a trusted key. Keyrings and
/// policies are read as well.
pub fn proposal(bytes: &[u8]) -> bool {
    if let Ok(keyring) = EvidenceKeyring::from_json(bytes) {
        assert_eq!(EvidenceKeyring::from_json(keyring.to_json().as_bytes()).as_ref(), Ok(&keyring));
    }
    let _ = ProposalPolicy::from_json(bytes);
    let Ok(proposal) = ActionProposal::parse(bytes, &ProposalLimits::default()) else { return false };
    let canonical = read(bytes, Recipe::PicCjson1, &Limits::hard_caps()).expect("a proposal is strict JSON");
    assert_eq!(proposal.digest(), canonical.digest());
    assert_eq!(proposal.args_digest(), Digest::of(proposal.args().canonical_text().as_bytes()));
    assert_eq!(proposal.intent_digest(), Digest::of(proposal.intent().as_bytes()));
    // Its canonical text has integers that it does not take where it had an exponent.
    if let Ok(again) = ActionProposal::parse(canonical.bytes(), &ProposalLimits::default()) {
        assert_eq!(
            (again.digest(), again.args_digest(), again.claims_digest(), again.intent_digest()),
            (proposal.digest(), proposal.args_digest(), proposal.claims_digest(), proposal.intent_digest()),
        );
    }

    let clock = ManualClock::new(Timestamp::from_millis(1_769_860_800_000).expect("a time in range"));
    for profile in Profile::ALL {
        let keyring = EvidenceKeyring::from_json(KEYRING).expect("a keyring");
        let audience = Audience::new("gate-1").expect("an id");
        let verifier = ProposalVerifier::builder(profile).keyring(keyring).audience(audience);
        let verifier = verifier.verify_evidence().build().expect("a verifier");
        let Ok(parsed) = verifier.parse(bytes) else { continue };
        let (tool, args) = (parsed.tool().to_owned(), parsed.args_digest());
        let Some(verified) = verify(parsed, &verifier, &clock) else { continue };
        assert_eq!((tool.as_str(), args), (TOOL, Digest::of(ARGS)), "a proposal is bound to its call");
        assert!(verified.impact() >= ImpactClass::Money, "the operator's impact counts");
        let is_proved = verified.keys().next().is_some();
        assert!(
            profile != Profile::Strict || is_proved,
            "under `strict`, high impact takes evidence: {}",
            bytes.escape_ascii()
        );
    }
    true
}

/// Keys, call and time are those of the public vector `action-proposal/accept/001_attested_transfer.json`.
const KEYRING: &[u8] = br#"{"trusted_keys":{"cfo-1":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
    "cto-1":"gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q="}}"#;
const TOOL: &str = "payments_send";
const ARGS: &[u8] = br#"{"amount":500,"to":"acme"}"#;

fn verify(
    proposal: ActionProposal,
    verifier: &ProposalVerifier,
    clock: &ManualClock,
) -> Option<countersign::action_proposal::VerifiedProposal> {
    let (bank, agent) = (ServerName::new("bank").expect("a name"), AgentId::new("pay-bot").expect("an id"));
    let (id, alice) = (CallId::new("call-1").expect("an id"), Principal::new("alice").expect("an id"));
    let session = SessionId::new("session-1").expect("an id");
    let call = ProposedCall::to_tool_named(TOOL)
        .args(Digest::of(ARGS))
        .impact(ImpactClass::Money)
        .server(&bank)
        .agent(&agent)
        .call_id(&id)
        .principal(&alice)
        .session(&session)
        .registry_version(7);
    proposal.verify(verifier, &call, clock).ok()
}
