#![expect(
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that goes out of range is to fail"
)]

mod allocations;
mod bits;
mod field;
mod grant;
mod payload;
mod pending;
mod recipes;
mod spend;
mod text;
mod time;
mod vector;

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Millis, OperatorId, Principal, RunId, SessionId,
    Timestamp, TokenId, ToolId,
};
use countersign_keys::sealed::PayloadBuffer;
use countersign_keys::{Keyring, RunKeys, ServerSecret};

use crate::{
    Approval, ApprovalError, ApprovalToken, DEFAULT_TTL_CAP, MintTerms, Partial, VerifyTerms, mint, verify,
};

const SKEW: Millis = Millis::from_secs(5);
const STRICT: VerifyTerms =
    VerifyTerms { skew: SKEW, max_lifetime: DEFAULT_TTL_CAP, partial: Partial::Refuse };
const PARTIAL: VerifyTerms = STRICT.partial(Partial::Accept);

fn secret(id: &str, byte: u8) -> ServerSecret {
    ServerSecret::new(KeyId::new(id).unwrap(), &[byte; 32]).unwrap()
}

fn run_keys(id: &str, byte: u8, run: &str) -> RunKeys {
    Keyring::new(secret(id, byte)).for_run(&RunId::new(run).unwrap())
}

fn keys() -> RunKeys {
    run_keys("k1", 1, "run-1")
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn canonical(json: &str) -> Canonical {
    read(json.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

/// A call with the mandatory fields only.
fn bare(call: &str) -> CallFacts {
    CallFacts::new(
        CallId::new(call).unwrap(),
        ToolId::new("desk", "refund").unwrap(),
        canonical(r#"{"amount":10,"lines":[1,2],"to":{"name":"bob"}}"#).digest(),
        Recipe::Jcs1,
        Principal::new("alice").unwrap(),
    )
}

/// A call with every field.
fn full(call: &str) -> CallFacts {
    bare(call)
        .agent(AgentId::new("bot").unwrap())
        .session(SessionId::new("s-1").unwrap())
        .definition(Digest::of(b"definition"))
        .ask(Digest::of(b"ask"))
        .plan(Digest::of(b"plan"))
        .registry_version(7)
        .audience(Audience::new("gate-1").unwrap())
}

/// Terms of an approver, issued at `issued` ms for `ttl` seconds.
fn terms_of(token: &str, approver: &str, issued: u64, ttl: u32) -> MintTerms {
    let (token, approver) = (TokenId::new(token).unwrap(), OperatorId::new(approver).unwrap());
    MintTerms::new(token, approver, at(issued), Millis::from_secs(ttl))
}

/// Terms issued at 1,000 s, for a minute.
fn terms(token: &str) -> MintTerms {
    terms_of(token, "olga", 1_000_000, 60)
}

fn minted(binding: &CallFacts, terms: &MintTerms) -> ApprovalToken {
    mint(&keys(), binding, terms, DEFAULT_TTL_CAP).unwrap()
}

fn token(call: &str, id: &str) -> ApprovalToken {
    minted(&full(call), &terms(id))
}

fn check(token: &ApprovalToken, binding: &CallFacts) -> Result<Approval, ApprovalError> {
    verify(token, &keys(), binding, at(1_000_000), &STRICT)
}

/// The reason of a refusal, which must have the one public code and message.
fn refusal(result: Result<Approval, ApprovalError>) -> &'static str {
    let error = result.unwrap_err();
    assert_eq!(error.code(), "APPROVAL_INVALID");
    assert_eq!(error.to_string(), "the approval is not valid for this call");
    error.reason()
}

/// The payload of a token, as text.
fn payload(token: &ApprovalToken) -> String {
    let keys = keys();
    let mut buffer = PayloadBuffer::default();
    let sealed = crate::token::parse(token.as_str(), &mut buffer).unwrap();
    let bytes = sealed.open(crate::payload::LABEL, keys.active().1).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Seals any payload, as a holder of the key could.
fn forge(payload: &str) -> ApprovalToken {
    let label = crate::payload::LABEL;
    countersign_keys::sealed::seal("cs1", label, keys().active().1, payload.as_bytes())
        .unwrap()
        .parse()
        .unwrap()
}
