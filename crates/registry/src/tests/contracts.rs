use countersign_core::Digest;
use countersign_keys::MacKey;
use countersign_keys::sealed::seal;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn mac(byte: u8) -> MacKey {
    MacKey::from_bytes(&[byte; 32]).unwrap()
}

fn contract() -> (CapabilityRegistry, SessionContract) {
    let registry = load(&desk(1));
    let contract = registry.negotiate(&request("support-bot"), now()).unwrap();
    (registry, contract)
}

#[test]
fn a_contract_holds_until_it_expires() {
    let (registry, contract) = contract();
    let check = |now| contract.check(&registry.view(), now).map_err(|error| error.code());
    assert_eq!(check(now()), Ok(()));
    assert_eq!(check(at(contract.expires().as_millis() - 1)), Ok(()));
    assert_eq!(check(contract.expires()), Err("CONTRACT_EXPIRED"));
    assert_eq!(
        check(at(contract.issued().as_millis() - 60_001)),
        Err("CONTRACT_EXPIRED"),
        "a clock set back"
    );
}

#[test]
fn look_back_view_is_valid_at_every_time() {
    let registry = load(&desk(1));
    let view = registry.view();
    let always = view.dangerous_always_in_force();
    let expires = view.snapshot().expires();
    for moment in [at(1), now(), expires] {
        assert_eq!(always.check_fresh(moment), Ok(()));
        let contract = always.negotiate(&request("support-bot"), moment).unwrap();
        assert_eq!(contract.check(&always, moment), Ok(()));
        assert_eq!(
            contract.check(&view, moment).is_ok(),
            moment == now(),
            "a gate's own view is as strict as ever"
        );
        assert_eq!(contract.check(&always, contract.expires()).unwrap_err().code(), "CONTRACT_EXPIRED");
    }
    assert_eq!(always.snapshot().digest(), view.snapshot().digest());
    registry.revoke(&agent("support-bot"));
    let revoked = registry.view().dangerous_always_in_force();
    assert_eq!(revoked.agent(&agent("support-bot"), expires).unwrap_err().code(), "AGENT_REVOKED");
}

#[test]
fn an_agent_revoked_in_mid_session_is_refused_at_the_next_check() {
    let (registry, contract) = contract();
    let earlier = registry.view();
    registry.revoke(&agent("support-bot"));
    assert_eq!(contract.check(&registry.view(), now()).unwrap_err().code(), "AGENT_REVOKED");
    assert_eq!(contract.check(&earlier, now()), Ok(()), "a view is one moment; each check takes a new one");
    let (registry, contract) = self::contract();
    let mut value = desk(2);
    value["revoked"]["agents"] = json!(["support-bot"]);
    registry.reload(&sign(&value), now()).unwrap();
    assert_eq!(contract.check(&registry.view(), now()).unwrap_err().code(), "AGENT_REVOKED");
}

#[test]
fn swapped_registry_counts_from_the_next_check() {
    let (registry, contract) = contract();
    let refund = tool("desk", "refund");
    assert!(contract.disclosed(&registry.view(), &refund).is_some());
    let mut value = desk(2);
    value["agents"][0]["tools"] =
        json!([{"server": "desk", "name": "search"}, {"server": "mail", "name": "send"}]);
    registry.reload(&sign(&value), now()).unwrap();
    let view = registry.view();
    assert_eq!(contract.check(&view, now()), Ok(()));
    assert!(contract.disclosed(&view, &refund).is_none(), "taken off the entry");
    assert!(contract.disclosed(&view, &tool("mail", "send")).is_none(), "put on the entry after negotiating");
    assert!(contract.disclosed(&view, &tool("desk", "search")).is_some());
    let mut value = desk(3);
    value["agents"].as_array_mut().unwrap().remove(0);
    registry.reload(&sign(&value), now()).unwrap();
    assert_eq!(contract.check(&registry.view(), now()).unwrap_err().code(), "AGENT_NOT_REGISTERED");
}

#[test]
fn entry_of_another_agent_discloses_nothing() {
    let registry = load(&desk(1));
    let contract = registry.negotiate(&request("mailer"), now()).unwrap();
    let (view, search) = (registry.view(), tool("desk", "search"));
    let entry = |name: &str| view.snapshot().agent(&agent(name)).unwrap();
    assert!(entry("support-bot").lists(&search) && entry("mailer").lists(&search));
    assert!(contract.disclosed_to(entry("mailer"), &view, &search).is_some());
    assert!(contract.disclosed_to(entry("support-bot"), &view, &search).is_none());
}

#[test]
fn tool_removed_from_parent_is_gone_for_children() {
    let registry = load(&desk(1));
    let parent = registry.negotiate(&request("support-bot"), now()).unwrap();
    let child = registry.negotiate_under(&parent, &request("mailer"), now()).unwrap();
    let search = tool("desk", "search");
    assert!(child.disclosed(&registry.view(), &search).is_some());
    let mut value = desk(2);
    value["agents"][0]["tools"] = json!([{"server": "desk", "name": "refund"}]);
    registry.reload(&sign(&value), now()).unwrap();
    assert!(child.disclosed(&registry.view(), &search).is_none());
}

#[test]
fn a_contract_under_a_revoked_or_another_registry_does_not_hold() {
    let (registry, contract) = contract();
    let mut value = desk(2);
    value["revoked"]["snapshots"] = json!([contract.registry_digest()]);
    registry.reload(&sign(&value), now()).unwrap();
    assert_eq!(contract.check(&registry.view(), now()).unwrap_err().code(), "CONTRACT_EXPIRED");
    let mut fork = desk(1);
    fork["agents"][0]["max_session"] = json!("2h");
    let elsewhere = load(&fork);
    assert_eq!(contract.check(&elsewhere.view(), now()).unwrap_err().code(), "CONTRACT_EXPIRED");
}

#[test]
fn contract_of_a_newer_registry_shows_staleness() {
    let contract = load(&desk(9)).negotiate(&request("support-bot"), now()).unwrap();
    let behind = load(&desk(3));
    assert_eq!(contract.check(&behind.view(), now()).unwrap_err().code(), "REGISTRY_STALE");
    behind.reload(&sign(&desk(9)), now()).unwrap();
    assert_eq!(contract.check(&behind.view(), now()), Ok(()));
    behind.reload(&sign(&desk(10)), now()).unwrap();
    assert_eq!(contract.check(&behind.view(), now()), Ok(()));
}

#[test]
fn sealed_contract_round_trips() {
    let (registry, contract) = contract();
    let text = contract.seal(&mac(1)).unwrap();
    assert!(text.starts_with("cc1."));
    assert_eq!(SessionContract::open(&text, &mac(1), now()), Ok(contract.clone()));
    let child = registry.negotiate_under(&contract, &request("mailer"), now()).unwrap();
    assert_eq!(SessionContract::open(&child.seal(&mac(1)).unwrap(), &mac(1), now()), Ok(child));
    let late = SessionContract::open(&text, &mac(1), contract.expires());
    assert_eq!(late.unwrap_err().code(), "CONTRACT_EXPIRED");
}

#[test]
fn tampered_sealed_contract_is_refused() {
    let (_, contract) = contract();
    let text = contract.seal(&mac(1)).unwrap();
    let code = |text: &str, key: u8| SessionContract::open(text, &mac(key), now()).unwrap_err().code();
    assert_eq!(code(&text, 2), "CONTRACT_INVALID");
    for index in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        assert_eq!(code(std::str::from_utf8(&bytes).unwrap(), 1), "CONTRACT_INVALID", "byte {index}");
    }
    for bad in ["", "cc1", "cc1..", &format!("{text}="), &format!(" {text}"), &text.replacen("cc1", "cs1", 1)]
    {
        assert_eq!(code(bad, 1), "CONTRACT_INVALID", "{bad}");
    }
}

#[test]
fn a_payload_under_the_right_tag_still_has_one_spelling() {
    let (_, contract) = contract();
    let text = contract.seal(&mac(1)).unwrap();
    let mut buffer = countersign_keys::sealed::PayloadBuffer::default();
    let sealed = countersign_keys::sealed::SealedText::parse("cc1", &text, &mut buffer).unwrap();
    let good: Value =
        serde_json::from_slice(sealed.open("countersign/contract-1", &mac(1)).unwrap()).unwrap();
    let open = |bytes: &[u8], label: &str| {
        SessionContract::open(&seal("cc1", label, &mac(1), bytes).unwrap(), &mac(1), now())
    };
    let label = "countersign/contract-1";
    assert_eq!(open(canonical(&good).bytes(), label), Ok(contract));
    assert_eq!(open(canonical(&good).bytes(), "countersign/approval-1"), Err(ContractError::Invalid));
    assert_eq!(
        open(serde_json::to_string_pretty(&good).unwrap().as_bytes(), label),
        Err(ContractError::Invalid)
    );
    for (name, bad) in [
        ("more", json!(1)),
        ("recipe", json!("contract-2")),
        ("session", json!("")),
        ("registry_version", json!("1")),
        ("registry_digest", json!(Digest::of(b"").to_string().to_uppercase())),
        ("expires", json!(-1)),
        ("expires", json!(null)),
    ] {
        let mut bent = good.clone();
        bent[name] = bad;
        assert_eq!(open(canonical(&bent).bytes(), label), Err(ContractError::Invalid), "{name}");
    }
    let mut bent = good.clone();
    bent["tools"].as_array_mut().unwrap().reverse();
    assert_eq!(open(canonical(&bent).bytes(), label), Err(ContractError::Invalid), "out of order");
    let mut bent = good.clone();
    let first = bent["tools"][0].clone();
    bent["tools"].as_array_mut().unwrap().insert(0, first);
    assert_eq!(open(canonical(&bent).bytes(), label), Err(ContractError::Invalid), "there twice");
    for name in good.as_object().unwrap().keys() {
        let mut bent = good.clone();
        bent.as_object_mut().unwrap().remove(name);
        assert_eq!(open(canonical(&bent).bytes(), label), Err(ContractError::Invalid), "{name} left out");
    }
}

#[test]
fn a_contract_too_large_for_a_sealed_text_is_not_sealed() {
    let mut value = desk(1);
    let names: Vec<_> = (0..600).map(|n| format!("tool-{}-{n}x", "a".repeat(60))).collect();
    value["tools"].as_array_mut().unwrap().extend(names.iter().map(|name| {
        json!({"server": "desk", "name": name, "impact": "read", "approval": "not_required", "args_schema": {}})
    }));
    value["agents"][0]["tools"] = names.iter().map(|name| json!({"server": "desk", "name": name})).collect();
    let contract = load(&value).negotiate(&request("support-bot"), now()).unwrap();
    assert_eq!(contract.seal(&mac(1)).unwrap_err().code(), "CONTRACT_TOO_LARGE");
}
