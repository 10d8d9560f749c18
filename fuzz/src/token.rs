use countersign::approval_token::{
    Approval, ApprovalToken, DEFAULT_TTL_CAP, MintTerms, Partial, VerifyTerms, mint, verify, verify_text,
};
use countersign::core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Principal, Recipe, RunId, SessionId, Timestamp,
    ToolId,
};
use countersign::keys::{Keyring, RunKeys, ServerSecret};
use countersign_keys::sealed::seal;

/// Bytes as the text of a token, and as a payload under the right tag. What verifies is the very text that minting with
/// its terms gives, and what binds every field is accepted as binding some of them.
pub fn token(bytes: &[u8]) -> bool {
    let (keys, binding) = (keys(), binding());
    let (_, key) = keys.active();
    let given = std::str::from_utf8(bytes).ok().map(str::to_owned);
    let sealed = seal("cs1", "countersign/approval-1", key, bytes).ok();
    let verifies = [given, sealed].into_iter().flatten().map(|text| hold_token(&text, &keys, &binding));
    verifies.fold(false, |any, verifies| any | verifies)
}

fn hold_token(text: &str, keys: &RunKeys, binding: &CallFacts) -> bool {
    let terms = VerifyTerms::default();
    let verified = verify_text(text, keys, binding, now(), &terms);
    let partial = verify_text(text, keys, binding, now(), &terms.partial(Partial::Accept));
    assert!(verified.is_err() || partial.is_ok(), "what binds every field binds some of them");
    if let Ok(token) = text.parse::<ApprovalToken>() {
        assert_eq!(token.as_str(), text);
        let parsed = verify(&token, keys, binding, now(), &VerifyTerms::default());
        assert_eq!(parsed.is_ok(), verified.is_ok(), "a token and its text verify alike");
        let expires = partial.as_ref().ok().map(Approval::expires);
        assert!(expires.is_none() || token.claimed_expiry() == expires);
    }
    let Ok(approval) = verified else { return partial.is_ok() };
    let terms = MintTerms::new(
        approval.token_id().clone(),
        approval.approver().clone(),
        approval.issued(),
        approval.expires().since(approval.issued()),
    );
    let again = mint(keys, binding, &terms, DEFAULT_TTL_CAP).expect("a token that verifies can be minted");
    assert_eq!(again.as_str(), text, "one token has one spelling");
    true
}

/// Keys, binding and time are those of the public vector `approval-token/accept/001_every_field.json`.
fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").expect("an id"), &[1; 32]).expect("32 bytes");
    Keyring::new(secret).for_run(&RunId::new("run-1").expect("an id"))
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000_000).expect("a time in range")
}

fn binding() -> CallFacts {
    let digest = |hex: &str| hex.parse::<Digest>().expect("64 digits");
    CallFacts::new(
        CallId::new("c").expect("an id"),
        ToolId::new("desk", "refund").expect("an id"),
        digest("f19fe22415dd056a90f542c92d7fdcc864b4acb47d1eb4ee4036da75394f6ba2"),
        Recipe::Jcs1,
        Principal::new("alice").expect("an id"),
    )
    .agent(AgentId::new("bot").expect("an id"))
    .session(SessionId::new("s-1").expect("an id"))
    .audience(Audience::new("gate-1").expect("an id"))
    .registry_version(7)
    .ask(digest("2f2fc7f2e9ce13b09b84f63d54d0b4a59f4dbd46aea41da67023817e2d0c5e59"))
    .plan(digest("64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525"))
    .definition(digest("4c4ed1afbfdaa1e4c3bf7bbb82d730cecb7e384da91eea4f3cc093fd545524d6"))
}
