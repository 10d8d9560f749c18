//! Public vectors under `tests/vectors/action-proposal`, run through the library. `cargo run -p xtask -- vectors` makes
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{Audience, Digest, ImpactClass, ManualClock, Timestamp};
use countersign_keys::TrustRoot;
use countersign_test_vectors::Vectors;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    EndorsedDigests, EvidenceKeyring, MemoryEvidence, Profile, ProposalCode, ProposalLimits, ProposalPolicy,
    ProposalVerifier, ProposedCall,
};
use countersign_core::rfc3339::{self, Offset};

/// Result of a vector: its verdict, its code, and the place of a failure.
type Came = (&'static str, Option<&'static str>, Option<String>);

fn vectors() -> Vectors {
    Vectors::of("action-proposal").with("artifacts")
}

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let (mut accepted, mut refused, mut codes, mut others) = (0, 0, BTreeSet::new(), Vec::new());
    for (name, text) in vectors().on_disk() {
        if name.starts_with("artifacts/") {
            continue;
        }
        let case: Value = serde_json::from_str(&text).unwrap();
        let (verdict, code, place) = run(&case);
        let said = |name: &str| case.get(name).and_then(Value::as_str);
        let as_said = said("expected") == Some(verdict)
            && said("expected_error_code") == code
            && said("place") == place.as_deref()
            && name.starts_with("accept/") == (verdict == "allow");
        if !as_said {
            others.push(format!("{name}: {verdict} {code:?} at {place:?}"));
        }
        if verdict == "allow" {
            accepted += 1
        } else {
            refused += 1
        }
        codes.extend(code);
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    assert!(accepted + refused >= 60, "{accepted} and {refused}");
    assert!(refused * 10 >= (accepted + refused) * 7, "{refused} refusals and {accepted} others");
    for code in ProposalCode::ALL {
        // No known input causes an internal error, so no vector has that code.
        assert_eq!(codes.contains(code.as_str()), code != ProposalCode::InternalError, "{code}");
    }
}

/// Text of a member: its own, or that of the member with the suffix `_text`.
fn text_of(case: &Value, name: &str) -> Option<String> {
    match case.get(format!("{name}_text")) {
        Some(text) => Some(text.as_str().unwrap().to_owned()),
        None => case.get(name).map(Value::to_string),
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(value: &Value) -> Option<T> {
    value.as_str().map(|text| text.parse().unwrap())
}

fn member<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn moment(value: &Value) -> Timestamp {
    rfc3339::parse(value.as_str().unwrap(), Offset::Required).unwrap()
}

fn run(case: &Value) -> Came {
    let profile: Profile = parsed(&case["profile"]).unwrap();
    let clock = ManualClock::new(moment(&case["now"]));
    let mut builder = ProposalVerifier::builder(profile).limits(limits(case));
    if let Some(text) = text_of(case, "keyring").or_else(|| text_of(case, "embedded_keyring")) {
        match EvidenceKeyring::from_json(text.as_bytes()) {
            Ok(keyring) => builder = builder.keyring(keyring),
            Err(error) => return ("keyring_refused", Some(error.code()), None),
        }
    }
    if let Some(text) = text_of(case, "policy").or_else(|| text_of(&case["options"], "policy")) {
        match ProposalPolicy::from_json(text.as_bytes()) {
            Ok(policy) => builder = builder.policy(policy),
            Err(error) => return ("policy_refused", Some(error.code()), None),
        }
    }
    if case["options"].get("evidence_root_dir").is_some() {
        let files = vectors().on_disk().into_iter();
        let artifacts = files.filter_map(|(name, text)| {
            Some((format!("file://{}", name.strip_prefix("artifacts/")?), text.into_bytes()))
        });
        let held = artifacts.fold(MemoryEvidence::new(), |held, (name, bytes)| held.with(name, bytes));
        builder = builder.resolver(Arc::new(held));
    }
    if let Some(envelope) = case.get("endorsed") {
        let root = TrustRoot::from_json(case["trust_root"].to_string().as_bytes()).unwrap();
        let now = moment(&case["now"]);
        builder =
            builder.endorsed(EndorsedDigests::load(envelope.to_string().as_bytes(), &root, now).unwrap());
    }
    if let Some(high) = case.get("high") {
        builder = builder.high(member::<Vec<ImpactClass>>(high).into_iter().collect());
    }
    if let Some(audience) = parsed::<Audience>(&case["audience"]) {
        builder = builder.audience(audience);
    }
    if profile != Profile::Strict {
        let said = |name: &str| case["options"].get(name).and_then(Value::as_bool);
        builder = match said("verify_evidence") {
            Some(true) => builder.verify_evidence(),
            _ => builder.dangerous_skip_evidence(),
        };
        builder = match said("strict_trust").unwrap_or(profile == Profile::Pic09) {
            true => builder.sanitize_trust(),
            false => builder.dangerous_trust_as_claimed(),
        };
    }
    judge(case, &builder.build().unwrap(), &clock)
}

fn limits(case: &Value) -> ProposalLimits {
    let most = |name: &str| case["limits"].get(name).and_then(Value::as_u64);
    let size = |name: &str| most(name).map(|most| usize::try_from(most).unwrap());
    let mut limits = ProposalLimits::default();
    if let Some(most) = size("proposal_bytes") {
        limits = limits.proposal_bytes(most);
    }
    if let Some(most) = size("items") {
        limits = limits.items(most);
    }
    if let Some(most) = size("payload_bytes") {
        limits = limits.payload_bytes(most);
    }
    if let Some(most) = most("file_bytes") {
        limits = limits.file_bytes(most);
    }
    if let Some(most) = most("total_bytes") {
        limits = limits.total_bytes(most);
    }
    limits
}

fn judge(case: &Value, verifier: &ProposalVerifier, clock: &ManualClock) -> Came {
    let none = Value::Null;
    let call = case.get("call").unwrap_or(&none);
    let live = text_of(case, "live_args");
    let args = text_of(call, "args").or_else(|| live.clone()).map(|text| digest_of(&text));
    let tool = parsed::<String>(&call["tool"]).or_else(|| parsed(&case["options"]["expected_tool"]));
    let Some(text) = text_of(case, "proposal").filter(|text| live.is_none() || text != "null") else {
        assert!(live.is_some());
        let impact = parsed::<ImpactClass>(&call["impact"])
            .max(tool.as_deref().and_then(|tool| verifier.policy().impact_of(tool)));
        return match impact {
            Some(impact) if !verifier.requires_proposal(impact) => ("allow", None, None),
            _ => ("block", Some(ProposalCode::InvalidRequest.as_str()), None),
        };
    };
    let proposal = match verifier.parse(text.as_bytes()) {
        Ok(proposal) => proposal,
        Err(error) => return blocked(&error),
    };
    let facts = (
        parsed(&call["server"]),
        parsed(&call["call_id"]),
        parsed(&call["principal"]),
        parsed(&call["agent"]),
        parsed(&call["session"]),
    );
    let mut known = tool.as_deref().map_or_else(ProposedCall::unbound, ProposedCall::to_tool_named);
    known.args = args;
    known.impact = parsed(&call["impact"]);
    (known.server, known.call_id) = (facts.0.as_ref(), facts.1.as_ref());
    (known.principal, known.agent, known.session) = (facts.2.as_ref(), facts.3.as_ref(), facts.4.as_ref());
    known.registry_version = call["registry_version"].as_u64();
    (known.ask, known.plan) = (parsed(&call["ask"]), parsed(&call["plan"]));
    match proposal.verify(verifier, &known, clock) {
        Ok(_) => ("allow", None, None),
        Err(error) => blocked(&error),
    }
}

fn blocked(error: &crate::ProposalError) -> Came {
    ("block", Some(error.code().as_str()), Some(error.place().to_owned()))
}

/// Digest of the call's arguments without their reserved members; if they cannot be read, a digest that no arguments
/// have.
fn digest_of(args: &str) -> Digest {
    let Ok(args) = read(args.as_bytes(), Recipe::PicCjson1, &Limits::default()) else {
        return Digest::from_bytes([0; 32]);
    };
    let own = args.value().members().filter(|(name, _)| !name.starts_with("__pic"));
    let members: Vec<_> = own.map(|(name, value)| format!("{name:?}:{}", value.canonical_text())).collect();
    Digest::of(format!("{{{}}}", members.join(",")).as_bytes())
}
