use super::*;
use crate::MintError;

fn from(issued: u64, ttl: Millis) -> MintTerms {
    MintTerms::new(TokenId::new("t").unwrap(), OperatorId::new("olga").unwrap(), at(issued), ttl)
}

fn verify_at(token: &ApprovalToken, now: u64, skew: Millis) -> Result<Approval, ApprovalError> {
    verify(token, &keys(), &full("c"), at(now), &STRICT.skew(skew))
}

#[test]
fn token_expires_exactly_at_its_expiry() {
    let token = token("c", "t");
    assert!(verify_at(&token, 1_059_999, SKEW).is_ok());
    for now in [1_060_000, 1_060_001, 2_000_000, (1 << 53) - 1] {
        let error = verify_at(&token, now, SKEW).unwrap_err();
        assert_eq!(error, ApprovalError::Expired);
        assert_eq!((error.code(), error.reason()), ("APPROVAL_EXPIRED", "expired"));
    }
}

#[test]
fn skew_does_not_lengthen_a_tokens_life() {
    let result = verify_at(&token("c", "t"), 1_060_000, Millis::from_secs(3_600));
    assert_eq!(result.map(|_| ()), Err(ApprovalError::Expired));
}

#[test]
fn an_expired_token_that_is_wrong_as_well_is_only_wrong() {
    let result = verify(&token("c", "t"), &keys(), &full("d"), at(2_000_000), &STRICT);
    assert_eq!(refusal(result), "other-call");
}

#[test]
fn token_issued_beyond_the_skew_is_refused() {
    let token = token("c", "t");
    assert!(verify_at(&token, 995_000, SKEW).is_ok());
    assert_eq!(refusal(verify_at(&token, 994_999, SKEW)), "not-yet");
    assert_eq!(refusal(verify_at(&token, 999_999, Millis::ZERO)), "not-yet");
    assert!(verify_at(&token, 1_000_000, Millis::ZERO).is_ok());
    assert_eq!(refusal(verify_at(&token, 0, SKEW)), "not-yet");
}

#[test]
fn ttl_of_zero_or_above_the_cap_is_refused() {
    let mint = |ttl, cap| mint(&keys(), &full("c"), &from(1_000, ttl), cap).map(|_| ());
    let hour = Millis::from_secs(3_600);
    assert_eq!(DEFAULT_TTL_CAP, hour);
    assert_eq!(mint(Millis::ZERO, hour), Err(MintError::Ttl));
    assert_eq!(mint(hour, hour), Ok(()));
    assert_eq!(mint(Millis::new(3_600_001).unwrap(), hour), Err(MintError::Ttl));
    assert_eq!(mint(Millis::new(1).unwrap(), Millis::ZERO), Err(MintError::Ttl));
    assert_eq!(MintError::Ttl.code(), "APPROVAL_TTL");
}

#[test]
fn an_expiry_that_overflows_is_refused_at_minting() {
    let last = Millis::new((1 << 53) - 1).unwrap();
    let mint = |issued, ttl| mint(&keys(), &full("c"), &from(issued, ttl), last).map(|_| ());
    assert_eq!(mint(1, last), Err(MintError::Time));
    assert_eq!(mint((1 << 53) - 1, Millis::new(1).unwrap()), Err(MintError::Time));
    assert_eq!(mint(0, last), Ok(()));
    assert_eq!(MintError::Time.code(), "APPROVAL_TIME");
}
