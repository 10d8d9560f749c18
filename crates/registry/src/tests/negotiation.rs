use countersign_core::{Millis, OutputTag};
use serde_json::json;

use super::fixture::*;
use crate::*;

fn tag(name: &str) -> OutputTag {
    OutputTag::new(name).unwrap()
}

#[test]
fn contract_has_the_listed_rights() {
    let registry = load(&desk(7));
    let contract = registry.negotiate(&request("support-bot"), now()).unwrap();
    let entry = registry.lookup(&agent("support-bot"), minutes(5), now()).unwrap();
    assert_eq!(contract.tools(), entry.tools());
    assert_eq!(contract.tags(), entry.output_tags());
    assert_eq!(contract.registry_version(), 7);
    assert_eq!(contract.registry_digest(), registry.current().digest());
    assert_eq!(contract.expires().since(contract.issued()), minutes(60));
    assert!(contract.ancestors().is_empty());
}

#[test]
fn less_can_be_asked_for_and_more_refuses_as_a_whole() {
    let registry = load(&desk(1));
    let ask = |tools: &[(&str, &str)]| {
        let wanted = Wanted::these(tools.iter().map(|(server, name)| tool(server, name)));
        registry.negotiate(&request("support-bot").wanted_tools(wanted), now())
    };
    assert_eq!(ask(&[("desk", "search")]).unwrap().tools().len(), 1);
    assert_eq!(ask(&[]).unwrap().tools().len(), 0);
    for more in [&[("mail", "send")][..], &[("desk", "search"), ("mail", "send")], &[("desk", "nothing")]] {
        assert_eq!(ask(more).unwrap_err().code(), "CAPABILITY_NOT_LISTED");
    }
    let ask = |tags: &[&str]| {
        let wanted = Wanted::these(tags.iter().map(|name| tag(name)));
        registry.negotiate(&request("support-bot").wanted_tags(wanted), now())
    };
    assert_eq!(ask(&["reply"]).unwrap().tags().len(), 1);
    assert_eq!(ask(&["reply", "invoice"]).unwrap_err().code(), "CAPABILITY_NOT_LISTED");
}

#[test]
fn a_session_lasts_no_longer_than_the_entry_allows() {
    let registry = load(&desk(1));
    let ask = |ttl| registry.negotiate(&request("mailer").ttl(ttl), now());
    assert_eq!(ask(minutes(1)).unwrap().expires(), now().saturating_add(minutes(1)));
    assert_eq!(ask(minutes(10)).unwrap().expires(), now().saturating_add(minutes(10)));
    assert_eq!(ask(Millis::ZERO).unwrap_err().code(), "SESSION_TTL");
    assert_eq!(ask(Millis::new(600_001).unwrap()).unwrap_err().code(), "SESSION_TTL");
}

#[test]
fn an_agent_that_is_unknown_or_revoked_gets_no_contract() {
    let mut value = desk(1);
    value["revoked"]["agents"] = json!(["mailer", "old-bot"]);
    let registry = load(&value);
    let code = |name: &str| registry.negotiate(&request(name), now()).unwrap_err().code();
    assert_eq!(code("stranger"), "AGENT_NOT_REGISTERED");
    assert_eq!(code("Support-bot"), "AGENT_NOT_REGISTERED");
    assert_eq!(code("mailer"), "AGENT_REVOKED");
    assert_eq!(code("old-bot"), "AGENT_REVOKED", "revoked counts before registered");
    assert!(registry.negotiate(&request("support-bot"), now()).is_ok());
    registry.revoke(&agent("support-bot"));
    assert_eq!(code("support-bot"), "AGENT_REVOKED");
}

#[test]
fn a_view_is_in_force_until_the_next_one() {
    let (registry, other) = (load(&desk(1)), load(&desk(1)));
    let first = registry.view();
    assert!(registry.is_in_force(&first));
    assert!(!other.is_in_force(&first), "it is a view of another registry");
    assert!(!registry.is_in_force(&first.dangerous_always_in_force()));
    registry.revoke(&agent("mailer"));
    assert!(!registry.is_in_force(&first));
    let second = registry.borrow_view();
    assert!(registry.is_in_force(&second));
    registry.reload(&sign(&desk(2)), now()).unwrap();
    assert!(!registry.is_in_force(&second));
    assert!(registry.is_in_force(&registry.view()));
}

#[test]
fn a_revocation_in_this_process_outlives_a_reload() {
    let registry = load(&desk(1));
    registry.revoke(&agent("mailer"));
    registry.reload(&sign(&desk(2)), now()).unwrap();
    assert!(registry.view().is_agent_revoked(&agent("mailer")));
    assert!(!registry.view().is_agent_revoked(&agent("support-bot")));
}

#[test]
fn a_look_up_can_demand_a_maximum_age() {
    let registry = load(&desk(1));
    let code = |age| registry.lookup(&agent("mailer"), age, now()).map(|_| ()).map_err(|error| error.code());
    assert_eq!(code(minutes(1)), Ok(()));
    assert_eq!(code(Millis::new(59_999).unwrap()), Err("REGISTRY_STALE"));
}

#[test]
fn an_agents_own_capability_object_changes_nothing() {
    let registry = load(&desk(1));
    let plain = registry.negotiate(&request("mailer"), now()).unwrap();
    for claims in [
        &br#"{"tools":["refund","wire_money"],"output_tags":["invoice"],"registry_version":99,"admin":true}"#
            [..],
        br#"{"tools":[{"server":"desk","name":"refund"}],"agent":"support-bot","expires":9007199254740991}"#,
        b"not json",
        b"",
    ] {
        let asked = request("mailer").claims(AgentClaims::from_json(claims));
        assert_eq!(registry.negotiate(&asked, now()).unwrap(), plain);
    }
}

#[test]
fn claims_that_differ_are_named_for_the_record() {
    let contract = load(&desk(1)).negotiate(&request("mailer"), now()).unwrap();
    let claims = AgentClaims::from_json(
        br#"{"tools":["send","refund",{"server":"mail","name":"send"},{"server":"desk","name":"refund"},7,
             {"name":"search"}],"tags":["summary","inv\u202eoice"]}"#,
    );
    assert_eq!(claims.differences(&contract), ["refund", "desk:refund", "inv\\u{202e}oice"]);
    let many: Vec<_> = (0..1_000).map(|n| format!("tool-{n}-{}", "x".repeat(50))).collect();
    let flood = AgentClaims::from_json(json!({ "tools": many }).to_string().as_bytes());
    assert_eq!((flood.tools().len(), flood.differences(&contract).len()), (64, 64));
    let long = AgentClaims::from_json(json!({"tools": ["\u{202e}".repeat(9_000)]}).to_string().as_bytes());
    assert!(long.tools().iter().all(|name| name.len() <= 256));
    assert_ne!(claims.digest(), flood.digest());
}

#[test]
fn child_gets_no_more_than_its_parent() {
    let registry = load(&desk(1));
    let search = Wanted::these([tool("desk", "search")]);
    let parent = registry.negotiate(&request("support-bot").ttl(minutes(5)), now()).unwrap();
    let child = registry.negotiate_under(&parent, &request("mailer"), now()).unwrap();
    assert_eq!(child.tools().iter().collect::<Vec<_>>(), [&tool("desk", "search")]);
    assert_eq!(child.tags().iter().collect::<Vec<_>>(), [&tag("summary")]);
    assert_eq!(child.ancestors(), [agent("support-bot")]);
    assert_eq!(child.expires(), parent.expires(), "no later than the parent");
    let under = |request: NegotiationRequest| registry.negotiate_under(&parent, &request, now());
    assert!(under(request("mailer").wanted_tools(search.clone())).is_ok());
    let more = request("mailer").wanted_tools(Wanted::these([tool("mail", "send")]));
    assert_eq!(
        under(more).unwrap_err().code(),
        "CAPABILITY_NOT_LISTED",
        "its own entry lists it, the parent not"
    );
    let more = request("mailer").wanted_tools(Wanted::these([tool("desk", "refund")]));
    assert_eq!(
        under(more).unwrap_err().code(),
        "CAPABILITY_NOT_LISTED",
        "the parent has it, its own entry not"
    );
    let more = request("mailer").wanted_tags(Wanted::these([tag("reply")]));
    assert_eq!(under(more).unwrap_err().code(), "CAPABILITY_NOT_LISTED");

    let narrow = registry.negotiate(&request("support-bot").wanted_tools(search), now()).unwrap();
    let own = registry.negotiate_under(&narrow, &request("support-bot"), now()).unwrap();
    assert!(!own.discloses(&tool("desk", "refund")), "what the parent gave up its child does not get back");
}

#[test]
fn a_sub_agent_is_revoked_with_its_parent() {
    let registry = load(&desk(1));
    let parent = registry.negotiate(&request("support-bot"), now()).unwrap();
    let child = registry.negotiate_under(&parent, &request("mailer"), now()).unwrap();
    assert_eq!(child.check(&registry.view(), now()), Ok(()));
    registry.revoke(&agent("support-bot"));
    assert_eq!(child.check(&registry.view(), now()).unwrap_err().code(), "AGENT_REVOKED");
    let under = registry.negotiate_under(&parent, &request("mailer"), now());
    assert_eq!(under.unwrap_err().code(), "AGENT_REVOKED");
    assert!(registry.negotiate(&request("mailer"), now()).is_ok(), "on its own it may");
}

#[test]
fn a_line_of_sub_agents_has_an_end() {
    let registry = load(&desk(1));
    let mut contract = registry.negotiate(&request("support-bot"), now()).unwrap();
    for _ in 0..8 {
        contract = registry.negotiate_under(&contract, &request("support-bot"), now()).unwrap();
    }
    let under = registry.negotiate_under(&contract, &request("support-bot"), now());
    assert_eq!(under.unwrap_err().code(), "SESSION_DEPTH");
}

#[test]
fn child_gets_no_tool_removed_from_its_parent() {
    let registry = load(&desk(1));
    let parent = registry.negotiate(&request("support-bot"), now()).unwrap();
    let mut value = desk(2);
    value["agents"][0]["tools"] = json!([{"server": "desk", "name": "refund"}]);
    value["agents"][0]["output_tags"] = json!(["reply"]);
    registry.reload(&sign(&value), now()).unwrap();
    let child = registry.negotiate_under(&parent, &request("mailer"), now()).unwrap();
    assert!(child.tools().is_empty() && child.tags().is_empty());
}

#[test]
fn an_expired_parent_starts_nothing() {
    let registry = load(&desk(1));
    let parent = registry.negotiate(&request("support-bot").ttl(minutes(1)), now()).unwrap();
    let later = now().saturating_add(minutes(1));
    let under = registry.negotiate_under(&parent, &request("mailer"), later);
    assert_eq!(under.unwrap_err().code(), "CONTRACT_EXPIRED");
}

#[test]
fn contracts_of_an_agent_share_its_tools() {
    let registry = load(&desk(1));
    let all = registry.negotiate(&request("support-bot"), now()).unwrap();
    let named = Wanted::these([tool("desk", "search"), tool("desk", "refund")]);
    let same = registry.negotiate(&request("support-bot").wanted_tools(named), now()).unwrap();
    assert!(std::ptr::eq(all.tools(), same.tools()));
    let fewer = Wanted::these([tool("desk", "search")]);
    let narrowed = registry.negotiate(&request("support-bot").wanted_tools(fewer), now()).unwrap();
    assert_eq!(narrowed.tools().len(), 1);
    assert!(std::ptr::eq(all.tags(), narrowed.tags()));
}
