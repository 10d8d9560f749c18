use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::*;
use crate::ApprovalRule::{EachCall, NotRequired, Required};
use crate::*;

const SMALL: &str = r#"[{"kind": "number", "at": "/amount", "max": 20}]"#;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Reads the desk's draft with this approval of its first tool.
fn read_with(approval: &Value) -> Result<ToolEntry, ContentError> {
    let mut value = desk(1);
    let name = value["tools"][0]["name"].as_str().unwrap().to_owned();
    value["tools"][0]["approval"] = approval.clone();
    match RegistryDraft::from_json(value.to_string().as_bytes()) {
        Ok(draft) => Ok(draft.tools().find(|tool| tool.tool().name().as_str() == name).unwrap().clone()),
        Err(DraftError::Content(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

fn terms(rule: &str, unless: &Value) -> ApprovalTerms {
    read_with(&json!({"rule": rule, "unless": unless})).unwrap().approval_terms().clone()
}

fn needed(terms: &ApprovalTerms, args: &Value) -> ApprovalRule {
    terms.of_call(&canonical(args), &[])
}

#[test]
fn amount_of_at_most_twenty_needs_no_approval() {
    let terms = terms("required", &json!([parsed(SMALL)]));
    for free in [json!(20), json!(0), json!(19.99), json!(-1), json!(2e1)] {
        assert_eq!(needed(&terms, &json!({"amount": free})), NotRequired, "{free}");
    }
    for asked in
        [json!(20.01), json!(21), json!("20"), json!([1]), json!([]), json!(null), json!({}), json!(true)]
    {
        assert_eq!(needed(&terms, &json!({"amount": asked})), Required, "{asked}");
    }
    for asked in [json!({}), json!({"Amount": 1}), json!({"amount": {"amount": 1}})] {
        assert_eq!(needed(&terms, &asked), Required, "{asked}");
    }
}

#[test]
fn recipient_in_our_domain_needs_no_approval() {
    let terms = terms(
        "each_call",
        &parsed(r#"[[{"kind": "email_domain", "at": "/to", "domains": ["our.example"]}]]"#),
    );
    for free in [json!("ada@our.example"), json!(["ada@our.example", "bob@our.example"])] {
        assert_eq!(needed(&terms, &json!({"to": free})), NotRequired, "{free}");
    }
    let other = json!(["ada@our.example", "eve@else.example"]);
    for asked in
        [other, json!("eve@else.example"), json!([]), json!(null), json!([["ada@our.example"]]), json!(7)]
    {
        assert_eq!(needed(&terms, &json!({"to": asked})), EachCall, "{asked}");
    }
    assert_eq!(needed(&terms, &json!({})), EachCall);
}

#[test]
fn event_without_attendees_needs_no_approval() {
    let terms = terms("required", &parsed(r#"[[{"kind": "empty_list", "at": "/event/attendees"}]]"#));
    for free in [json!({"attendees": []}), json!({}), json!({"title": "x"})] {
        assert_eq!(needed(&terms, &json!({"event": free})), NotRequired, "{free}");
    }
    assert_eq!(needed(&terms, &json!({})), NotRequired);
    for asked in [json!(["bob"]), json!(""), json!("bob"), json!(null), json!({}), json!(0)] {
        assert_eq!(needed(&terms, &json!({"event": {"attendees": asked}})), Required, "{asked}");
    }
    for hidden in [json!("{}"), json!([]), json!(3)] {
        assert_eq!(needed(&terms, &json!({"event": hidden})), Required, "{hidden}");
    }
}

#[test]
fn a_branch_needs_all_of_its_constraints() {
    let both = parsed(
        r#"[[{"kind": "number", "at": "/amount", "max": 20}, {"kind": "email_domain", "at": "/to", "domains": ["our.example"]}],
            [{"kind": "number", "at": "/amount", "min": 0, "max": 1}]]"#,
    );
    let terms = terms("required", &both);
    assert_eq!(needed(&terms, &json!({"amount": 20, "to": "ada@our.example"})), NotRequired);
    assert_eq!(needed(&terms, &json!({"amount": 20, "to": "ada@else.example"})), Required);
    assert_eq!(needed(&terms, &json!({"amount": 21, "to": "ada@our.example"})), Required);
    assert_eq!(needed(&terms, &json!({"amount": 1})), NotRequired, "another branch");
}

#[test]
fn an_open_argument_matches_no_branch() {
    let terms = terms("required", &json!([parsed(SMALL)]));
    let args = canonical(&json!({"amount": 1, "note": "x"}));
    let open = |place: &str| [ArgPlace::new(place).unwrap()];
    assert_eq!(terms.of_call(&args, &open("/note")), NotRequired);
    for place in ["/amount", "/amount/value"] {
        assert_eq!(terms.of_call(&args, &open(place)), Required, "{place}");
    }
}

#[test]
fn invalid_approval_rules_are_refused() {
    let code = |approval: Value| read_with(&approval).map(drop).map_err(|error| error.code());
    let with = |unless: Value| code(json!({"rule": "required", "unless": unless}));
    let branch = parsed(SMALL);
    assert_eq!(with(json!([branch])), Ok(()));
    assert_eq!(with(json!(vec![&branch; 16])), Ok(()));
    assert_eq!(with(json!(vec![&branch; 17])), Err("REGISTRY_TOO_MANY"));
    assert_eq!(with(json!([vec![&branch[0]; 16]])), Ok(()));
    assert_eq!(with(json!([vec![&branch[0]; 17]])), Err("REGISTRY_TOO_MANY"));
    assert_eq!(with(json!([[]])), Err("REGISTRY_APPROVAL"));
    assert_eq!(with(json!([branch, []])), Err("REGISTRY_APPROVAL"));
    assert_eq!(code(json!({"rule": "not_required", "unless": [branch]})), Err("REGISTRY_APPROVAL"));
    for bad in [
        json!({"rule": "required"}),
        json!({"rule": "required", "unless": []}),
        json!({"unless": [branch]}),
        json!({"rule": "sometimes", "unless": [branch]}),
        json!({"rule": "required", "unless": [branch], "more": 1}),
        json!({"rule": "required", "unless": branch}),
        json!({"rule": "required", "unless": null}),
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount"}]]}),
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "min": 2, "max": 1}]]}),
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "max": "20"}]]}),
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "max": null}]]}),
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "amount", "max": 1}]]}),
        json!({"rule": "required", "unless": [[{"kind": "empty_list", "at": "/a", "max": 1}]]}),
        json!({"rule": "required", "unless": [[{"kind": "absent", "at": "/a"}]]}),
        json!(["required"]),
        json!(null),
        json!("Required"),
    ] {
        assert_eq!(code(bad.clone()), Err("REGISTRY_CONTENT"), "{bad}");
    }
    let place = read_with(&json!({"rule": "required", "unless": [branch, []]})).unwrap_err();
    assert!(place.place().ends_with("/approval/unless/1"), "{place}");
}

#[test]
fn a_rule_without_branches_is_written_as_its_name() {
    for rule in ["required", "each_call", "not_required"] {
        let entry = read_with(&json!(rule)).unwrap();
        assert_eq!(json!(entry)["approval"], json!(rule));
        assert!(entry.approval_terms().unless().is_empty());
    }
    let object = json!({"rule": "required", "unless": [parsed(SMALL)]});
    let entry = read_with(&object).unwrap();
    let again: ToolEntry = serde_json::from_value(json!(entry)).unwrap();
    assert_eq!((json!(entry)["approval"]["rule"].clone(), &again), (json!("required"), &entry));
    assert_ne!(entry.fingerprint(), read_with(&json!("required")).unwrap().fingerprint());
}

#[test]
fn branches_are_explained_in_words() {
    let all = parsed(
        r#"[[{"kind": "number", "at": "/a", "max": 20}, {"kind": "email_domain", "at": "/to", "domains": ["a.test", "b.test"]}],
            [{"kind": "number", "at": "/a", "min": 1}], [{"kind": "number", "at": "/a", "min": 1, "max": 2.5}],
            [{"kind": "number", "at": "/a", "min": 3, "max": 3}], [{"kind": "empty_list", "at": "/b"}],
            [{"kind": "path_within", "at": "/p", "roots": ["/srv/docs"]}],
            [{"kind": "url", "at": "/u", "schemes": ["https"], "hosts": ["a.test"]}]]"#,
    );
    let words: Vec<_> = terms("required", &all).unless().iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "/a is at most 20 and /to has only addresses at a.test or b.test",
            "/a is at least 1",
            "/a is from 1 to 2.5",
            "/a is 3",
            "/b is missing or an empty list",
            "/p has only paths within /srv/docs",
            "/u has only https URLs at a.test",
        ]
    );
}

#[test]
fn a_changed_rule_is_called_looser_or_tighter() {
    let number = |max: u32| json!([{"kind": "number", "at": "/amount", "max": max}]);
    let plain = |rule: &str| read_with(&json!(rule)).unwrap().approval_terms().clone();
    let (one, wide) = (terms("required", &json!([number(20)])), terms("required", &json!([number(30)])));
    let two = terms("required", &json!([number(20), [{"kind": "empty_list", "at": "/to"}]]));
    let narrow = json!([[{"kind": "number", "at": "/amount", "min": 0, "max": 9}, {"kind": "empty_list", "at": "/to"}]]);
    for (old, new, change) in [
        (plain("required"), plain("required"), ApprovalChange::None),
        (plain("required"), plain("each_call"), ApprovalChange::Tightens),
        (plain("required"), plain("not_required"), ApprovalChange::Loosens),
        (plain("required"), one.clone(), ApprovalChange::Loosens),
        (one.clone(), plain("not_required"), ApprovalChange::Loosens),
        (one.clone(), wide.clone(), ApprovalChange::Loosens),
        (one.clone(), two.clone(), ApprovalChange::Loosens),
        (two, one.clone(), ApprovalChange::Tightens),
        (one.clone(), terms("required", &narrow), ApprovalChange::Tightens),
        (wide, terms("each_call", &json!([number(20)])), ApprovalChange::Tightens),
        (one.clone(), terms("required", &json!([number(20), number(10)])), ApprovalChange::None),
        (plain("required"), terms("each_call", &json!([number(20)])), ApprovalChange::Mixed),
        (one, terms("required", &json!([[{"kind": "empty_list", "at": "/to"}]])), ApprovalChange::Mixed),
    ] {
        assert_eq!(old.change_to(&new), change, "{old:?} -> {new:?}");
    }
}

fn lint_of(schema: &Value, constraints: &Value, unless: &Value) -> Vec<(&'static str, String)> {
    let mut value = desk(1);
    value["tools"][0] = json!({
        "server": "desk", "name": value["tools"][0]["name"], "impact": "money", "args_schema": schema,
        "constraints": constraints, "approval": {"rule": "required", "unless": unless},
    });
    let skipped = ["LINT_NOT_PINNED", "LINT_SCHEMA_OPEN", "LINT_UNUSED_TOOL", "LINT_AMOUNT_OPEN"];
    let findings = draft(&value).lint();
    let of_tool =
        findings.iter().filter(|it| it.message().contains(value["tools"][0]["name"].as_str().unwrap()));
    of_tool
        .filter(|it| !skipped.contains(&it.code()))
        .map(|it| (it.code(), it.message().to_owned()))
        .collect()
}

#[test]
fn lint_explains_each_branch() {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "number", "minimum": 0}}});
    let found = lint_of(&schema, &json!([]), &json!([parsed(SMALL)]));
    let words = "`desk:search` needs no approval if /amount is at most 20".to_owned();
    assert_eq!(found, [("LINT_APPROVAL_BRANCH", words)]);
}

#[test]
fn lint_warns_of_a_branch_that_never_matches() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["list"], "properties": {
        "amount": {"type": "number", "minimum": 50}, "to": {"type": "string"}, "list": {"type": "array", "minItems": 1},
    }});
    for branch in [
        json!([{"kind": "number", "at": "/amount", "max": 20}]),
        json!([{"kind": "number", "at": "/other", "max": 20}]),
        json!([{"kind": "number", "at": "/to", "max": 20}]),
        json!([{"kind": "empty_list", "at": "/list"}]),
        json!([{"kind": "number", "at": "/amount", "max": 60}, {"kind": "number", "at": "/amount", "min": 61}]),
        json!([{"kind": "email_domain", "at": "/to", "domains": ["a.test"]}, {"kind": "empty_list", "at": "/to"}]),
    ] {
        let codes: Vec<_> = lint_of(&schema, &json!([]), &json!([branch])).iter().map(|it| it.0).collect();
        assert_eq!(codes, ["LINT_APPROVAL_BRANCH", "LINT_BRANCH_NEVER"], "{branch}");
    }
}

#[test]
fn lint_warns_of_a_branch_that_always_matches() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["amount", "to"], "properties": {
        "amount": {"type": "number", "minimum": 0, "maximum": 20}, "to": {"type": "string"},
    }});
    let own = json!([{"kind": "email_domain", "at": "/to", "domains": ["a.test"]}]);
    for branch in [
        json!([{"kind": "number", "at": "/amount", "max": 20}]),
        json!([{"kind": "empty_list", "at": "/attendees"}]),
        json!([{"kind": "email_domain", "at": "/to", "domains": ["b.test", "a.test"]}]),
    ] {
        let codes: Vec<_> = lint_of(&schema, &own, &json!([branch])).iter().map(|it| it.0).collect();
        assert!(codes.contains(&"LINT_BRANCH_ALWAYS"), "{branch}: {codes:?}");
    }
    let sometimes = json!([{"kind": "number", "at": "/amount", "min": 0, "max": 19}]);
    assert_eq!(lint_of(&schema, &own, &json!([sometimes])).len(), 1);
}

#[test]
fn lint_warns_of_negative_numbers_or_a_redundant_branch() {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "number"}}});
    let codes = |unless: Value| -> Vec<_> {
        lint_of(&schema, &json!([]), &unless).into_iter().map(|it| it.0).collect()
    };
    assert_eq!(codes(json!([parsed(SMALL)])), ["LINT_APPROVAL_BRANCH", "LINT_BRANCH_NEGATIVE"]);
    let (wide, narrow) = (
        json!({"kind": "number", "at": "/amount", "min": 0, "max": 20}),
        json!({"kind": "number", "at": "/amount", "min": 1, "max": 2}),
    );
    assert_eq!(
        codes(json!([[wide], [narrow]])),
        ["LINT_APPROVAL_BRANCH", "LINT_APPROVAL_BRANCH", "LINT_BRANCH_REDUNDANT"]
    );
}

#[test]
fn invalid_approvers_are_refused() {
    let code = |rule: &str, approvers: Value| {
        let mut value = desk(1);
        (value["tools"][0]["approval"], value["tools"][0]["approvers"]) = (json!(rule), approvers);
        RegistryDraft::from_json(value.to_string().as_bytes()).map(drop).map_err(|error| error.code())
    };
    let of = |names: Value, needed: u32| json!({"names": names, "needed": needed});
    assert_eq!(code("required", of(json!(["ada", "bob", "cy"]), 2)), Ok(()));
    assert_eq!(code("each_call", of(json!(["ada"]), 1)), Ok(()));
    assert_eq!(code("not_required", of(json!(["ada"]), 1)), Err("REGISTRY_APPROVAL"));
    let many: Vec<_> = (0..33).map(|n| format!("person {n}")).collect();
    for bad in [
        of(json!([]), 1),
        of(json!(["ada"]), 0),
        of(json!(["ada"]), 2),
        of(json!(["a", "b", "c", "d", "e"]), 5),
        of(json!(["ada", "Ada"]), 1),
        of(json!(["ada", "\u{430}da"]), 1),
        of(json!(many), 1),
        of(json!(["x".repeat(65)]), 1),
        of(json!([""]), 1),
        of(json!("ada"), 1),
        json!({"names": ["ada"]}),
        json!({"names": ["ada"], "needed": 1, "more": 1}),
        json!(null),
    ] {
        assert_eq!(code("required", bad.clone()), Err("REGISTRY_CONTENT"), "{bad}");
    }
}

#[test]
fn lint_warns_of_an_approver_that_looks_like_an_agent() {
    let mut value = desk(1);
    value["tools"][0]["approval"] = json!("required");
    value["tools"][0]["approvers"] = json!({"names": ["ada", "Support-bot"], "needed": 1});
    let codes: Vec<_> = draft(&value).lint().iter().map(Finding::code).collect();
    assert!(codes.contains(&"LINT_APPROVER_AGENT"), "{codes:?}");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-30..30_i32).prop_map(Value::from),
        Just(json!("a@a.test")),
        Just(json!("b@b.test")),
        Just(json!("")),
        Just(json!([])),
        Just(json!({})),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn constraint() -> impl Strategy<Value = Value> {
    let at = prop_oneof![Just("/a"), Just("/b"), Just("/a/b"), Just("/a/0")];
    (at, 0_u8..5, -20..20_i32, 0..9_i32).prop_map(|(at, kind, from, width)| match kind {
        0 => json!({"kind": "number", "at": at, "max": from}),
        1 => json!({"kind": "number", "at": at, "min": from, "max": from.saturating_add(width)}),
        2 => json!({"kind": "empty_list", "at": at}),
        3 => json!({"kind": "email_domain", "at": at, "domains": ["a.test"]}),
        _ => json!({"kind": "email_domain", "at": at, "domains": ["b.test", "a.test"]}),
    })
}

fn unless() -> impl Strategy<Value = Value> {
    prop::collection::vec(prop::collection::vec(constraint(), 1..3), 1..4).prop_map(|all| json!(all))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_tightened_rule_frees_no_other_call(old in unless(), new in unless(), args in prop::collection::btree_map("[ab]", value(), 0..3)) {
        let (old, new) = (terms("required", &old), terms("required", &new));
        let free = |terms: &ApprovalTerms| needed(terms, &json!(args)) == NotRequired;
        match old.change_to(&new) {
            ApprovalChange::None => prop_assert_eq!(free(&old), free(&new)),
            ApprovalChange::Loosens => prop_assert!(free(&new) || !free(&old)),
            ApprovalChange::Tightens => prop_assert!(free(&old) || !free(&new)),
            ApprovalChange::Mixed => {}
        }
    }

    #[test]
    fn a_match_is_a_present_value_that_fits(one in constraint(), args in prop::collection::btree_map("[ab]", value(), 0..3)) {
        let constraint: Constraint = serde_json::from_value(one).unwrap();
        let args = canonical(&json!(args));
        if constraint.holds(args.value()) {
            prop_assert!(constraint.fits(args.value()));
            let is_there = args.value().pointer(constraint.at().as_str()).is_some();
            prop_assert!(is_there || constraint.kind() == "empty_list");
        }
    }
}
