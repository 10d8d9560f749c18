//! Every bound field, changed alone.

use super::*;
use crate::MintError;

#[test]
fn a_token_approves_the_call_that_it_was_minted_for() {
    let approval = check(&token("c", "t"), &full("c")).unwrap();
    assert_eq!(approval.token_id().as_str(), "t");
    assert_eq!(approval.approver().as_str(), "olga");
    assert_eq!(approval.key_id().as_str(), "k1");
    assert_eq!(approval.expires(), at(1_060_000));
    assert_eq!(approval.spent_id(), check(&token("c", "t"), &full("c")).unwrap().spent_id());
}

/// The full call without one optional field, by index.
fn without(field: usize) -> CallFacts {
    let mut call = bare("c");
    let setters: [fn(CallFacts) -> CallFacts; 7] = [
        |c| c.agent(AgentId::new("bot").unwrap()),
        |c| c.session(SessionId::new("s-1").unwrap()),
        |c| c.definition(Digest::of(b"definition")),
        |c| c.ask(Digest::of(b"ask")),
        |c| c.plan(Digest::of(b"plan")),
        |c| c.registry_version(7),
        |c| c.audience(Audience::new("gate-1").unwrap()),
    ];
    for (at, set) in setters.into_iter().enumerate() {
        if at != field {
            call = set(call);
        }
    }
    call
}

const OPTIONAL: [&str; 7] = [
    "other-agent",
    "other-session",
    "other-definition",
    "other-ask",
    "other-plan",
    "other-registry-version",
    "other-audience",
];

#[test]
fn omitted_field_is_refused_by_default() {
    assert_eq!(Partial::default(), Partial::Refuse);
    for (field, reason) in OPTIONAL.into_iter().enumerate() {
        let partial = minted(&without(field), &terms("t"));
        assert_eq!(refusal(check(&partial, &full("c"))), reason);
        let accepted = verify(&partial, &keys(), &full("c"), at(1_000_000), &PARTIAL);
        assert!(accepted.is_ok(), "{reason}");
    }
}

#[test]
fn field_unknown_to_the_gate_is_refused() {
    for (field, reason) in OPTIONAL.into_iter().enumerate() {
        for partial in [Partial::Refuse, Partial::Accept] {
            let result =
                verify(&token("c", "t"), &keys(), &without(field), at(1_000_000), &STRICT.partial(partial));
            assert_eq!(refusal(result), reason);
        }
    }
}

#[test]
fn differing_field_is_refused_under_partial_terms() {
    let other = full("c").session(SessionId::new("s-2").unwrap());
    let result = verify(&token("c", "t"), &keys(), &other, at(1_000_000), &PARTIAL);
    assert_eq!(refusal(result), "other-session");
}

#[test]
fn a_separator_inside_an_id_makes_no_second_call() {
    let digest = Digest::of(b"args");
    let call = |id: &str, principal: &str| {
        let tool = ToolId::new("desk", "pay").unwrap();
        CallFacts::new(
            CallId::new(id).unwrap(),
            tool,
            digest,
            Recipe::Jcs1,
            Principal::new(principal).unwrap(),
        )
    };
    for separator in ["|", ".", ",", ":", "\"", "\\", "\",\"principal\":\"", " "] {
        let joined = format!("x{separator}{digest}{separator}mallory");
        let token = mint(&keys(), &call("1", &joined), &terms("t"), DEFAULT_TTL_CAP).unwrap();
        assert!(check(&token, &call("1", &joined)).is_ok());
        for (id, principal) in [("1", "mallory"), ("10000", "mallory"), (&joined, "1"), ("1x", "mallory")] {
            assert!(check(&token, &call(id, principal)).is_err());
        }
    }
    // The same for the run, which comes from the keys.
    let odd = run_keys("k1", 1, "run-1\",\"run\":\"run-2");
    let token = mint(&odd, &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    assert!(verify(&token, &odd, &full("c"), at(1_000_000), &STRICT).is_ok());
    assert_eq!(refusal(check(&token, &full("c"))), "tag");
}

#[test]
fn other_arguments_are_refused_in_any_spelling() {
    let call = |json: &str| {
        let tool = ToolId::new("desk", "refund").unwrap();
        let args = canonical(json).digest();
        CallFacts::new(CallId::new("c").unwrap(), tool, args, Recipe::Jcs1, Principal::new("alice").unwrap())
    };
    let approved = r#"{"amount":10,"lines":[1,2],"to":{"name":"bob"}}"#;
    let token = minted(&call(approved), &terms("t"));
    for same in [
        r#"{ "to": {"name":"bob"}, "lines": [1,2], "amount": 10 }"#,
        r#"{"amount":10.0,"lines":[1.0,2e0],"to":{"name":"bob"}}"#,
        r#"{"amount":1e1,"lines":[1,2],"to":{"name":"\u0062ob"}}"#,
    ] {
        assert!(check(&token, &call(same)).is_ok(), "{same}");
    }
    for other in [
        r#"{"amount":10,"lines":[1,2],"to":{"name":"bob"},"note":null}"#,
        r#"{"amount":10,"lines":[1,2],"to":{"name":"eve"}}"#,
        r#"{"amount":10,"lines":[2,1],"to":{"name":"bob"}}"#,
        r#"{"amount":"10","lines":[1,2],"to":{"name":"bob"}}"#,
        r#"{"amount":10,"lines":[[1,2]],"to":{"name":"bob"}}"#,
        r#"{"amount":10,"to":{"name":"bob"}}"#,
        r#"{"amount":10.000000000000002,"lines":[1,2],"to":{"name":"bob"}}"#,
    ] {
        assert_eq!(refusal(check(&token, &call(other))), "other-args", "{other}");
    }
}

#[test]
fn a_run_and_a_key_id_cannot_lend_each_other_letters() {
    let token = mint(&run_keys("a", 1, "bc"), &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    let other = run_keys("ab", 1, "c");
    assert_eq!(refusal(verify(&token, &other, &full("c"), at(1_000_000), &STRICT)), "tag");
}

#[test]
fn only_active_and_accepted_keys_verify() {
    let run = RunId::new("run-1").unwrap();
    let rotated = Keyring::new(secret("k2", 2)).accept(secret("k1", 1)).unwrap().for_run(&run);
    let retired = Keyring::new(secret("k2", 2)).for_run(&run);
    let renamed = Keyring::new(secret("k9", 1)).for_run(&run);
    let verify = |keys: &RunKeys| verify(&token("c", "t"), keys, &full("c"), at(1_000_000), &STRICT);
    assert_eq!(verify(&rotated).unwrap().key_id().as_str(), "k1");
    assert_eq!(refusal(verify(&retired)), "tag");
    assert_eq!(refusal(verify(&renamed)), "tag");
}

#[test]
fn a_key_id_picks_a_key_and_never_makes_one() {
    // The tag is under k1, the payload names another key.
    for id in ["k2", "none", "k1 ", "K1", ""] {
        let other = payload(&token("c", "t")).replace(r#""key_id":"k1""#, &format!(r#""key_id":"{id}""#));
        assert_eq!(refusal(check(&forge(&other), &full("c"))), "other-key", "{id:?}");
    }
}

#[test]
fn another_recipe_is_refused() {
    for recipe in ["approval-0", "approval-2", "none", "HS256", ""] {
        let other = payload(&token("c", "t")).replace("approval-1", recipe);
        assert_eq!(refusal(check(&forge(&other), &full("c"))), "other-recipe", "{recipe:?}");
    }
}

#[test]
fn an_approval_edited_to_another_tool_is_refused() {
    let edited = payload(&token("c", "t")).replace(r#""tool":"refund""#, r#""tool":"delete_ticket""#);
    let good = token("c", "t");
    let (_, tag) = good.as_str().rsplit_once('.').unwrap();
    let forged = forge(&edited);
    let (head, _) = forged.as_str().rsplit_once('.').unwrap();
    let spliced: ApprovalToken = format!("{head}.{tag}").parse().unwrap();
    let mut delete = serde_json::to_value(full("c")).unwrap();
    delete["tool"]["name"] = "delete_ticket".into();
    let delete: CallFacts = serde_json::from_value(delete).unwrap();
    assert_eq!(refusal(check(&spliced, &delete)), "tag");
}

#[test]
fn an_agent_cannot_approve_its_own_call() {
    let own = terms_of("t", "bot", 1_000_000, 60);
    assert_eq!(mint(&keys(), &full("c"), &own, DEFAULT_TTL_CAP).map(|_| ()), Err(MintError::SelfApproval));
    assert_eq!(MintError::SelfApproval.code(), "APPROVAL_SELF");
    // Omitting the agent does not help.
    let blind = minted(&without(0), &own);
    let result = verify(&blind, &keys(), &full("c"), at(1_000_000), &PARTIAL);
    assert_eq!(refusal(result), "self-approval");
}

#[test]
fn an_approver_that_looks_like_the_agent_is_the_agent() {
    for name in ["BOT", "Bot", "b\u{43e}t", "b0t", "bot."] {
        let own = terms_of("t", name, 1_000_000, 60);
        let refused = mint(&keys(), &full("c"), &own, DEFAULT_TTL_CAP).map(|_| ());
        assert_eq!(refused, Err(MintError::SelfApproval), "{name}");
        let blind = minted(&without(0), &own);
        let result = verify(&blind, &keys(), &full("c"), at(1_000_000), &PARTIAL);
        assert_eq!(refusal(result), "self-approval", "{name}");
    }
}

#[test]
fn the_longest_ids_fit_into_a_token() {
    let long = "\"".repeat(256);
    let name = "x".repeat(128);
    let call = CallFacts::new(
        CallId::new(&long).unwrap(),
        ToolId::new(&name, &name).unwrap(),
        Digest::of(b""),
        Recipe::Jcs1,
        Principal::new(&long).unwrap(),
    )
    .agent(AgentId::new(&long).unwrap())
    .session(SessionId::new(&long).unwrap())
    .definition(Digest::of(b""))
    .ask(Digest::of(b""))
    .plan(Digest::of(b""))
    .registry_version((1 << 53) - 1)
    .audience(Audience::new(&long).unwrap());
    let keys = run_keys(&long, 1, &long);
    let approver = OperatorId::new(&"\\".repeat(256)).unwrap();
    let terms = MintTerms::new(TokenId::new(&long).unwrap(), approver, at(1_000_000), Millis::from_secs(60));
    let token = mint(&keys, &call, &terms, DEFAULT_TTL_CAP).unwrap();
    assert!(verify(&token, &keys, &call, at(1_000_000), &STRICT).is_ok());
}

#[test]
fn inexact_registry_version_is_not_minted() {
    for version in [1 << 53, (1 << 53) + 1, u64::MAX] {
        let call = full("c").registry_version(version);
        assert_eq!(mint(&keys(), &call, &terms("t"), DEFAULT_TTL_CAP).map(|_| ()), Err(MintError::Binding));
    }
}

#[test]
fn a_binding_is_read_strictly() {
    let json = serde_json::to_string(&full("c")).unwrap();
    assert_eq!(serde_json::from_str::<CallFacts>(&json).unwrap(), full("c"));
    assert_eq!(
        serde_json::from_str::<CallFacts>(&serde_json::to_string(&bare("c")).unwrap()).unwrap(),
        bare("c")
    );
    for bad in [
        json.replacen('{', r#"{"extra":1,"#, 1),
        json.replace(r#""agent":"bot""#, r#""agent":null"#),
        json.replace(r#""call_id":"c","#, ""),
        json.replace(r#""call_id":"c""#, r#""call_id":"""#),
        json.replace("jcs-1", "none"),
    ] {
        assert_ne!(bad, json);
        assert!(serde_json::from_str::<CallFacts>(&bad).is_err(), "{bad}");
    }
}

#[test]
fn two_calls_are_one_act_when_only_their_ids_differ() {
    assert_eq!(full("c").act(), full("d").act());
    let acts: std::collections::HashSet<_> =
        (0..7).map(without).chain([full("c"), bare("c")]).map(|call| call.act()).collect();
    assert_eq!(acts.len(), 9);
    let version = bare("c").registry_version(0);
    assert_ne!(version.act(), bare("c").act());
}
