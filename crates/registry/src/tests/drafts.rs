use countersign_core::ImpactClass;
use countersign_core::{Digest, KeyId, Millis, OperatorId, SessionId};
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn capabilities(name: &str, tools: &[(&str, &str)]) -> Capabilities {
    Capabilities::new(agent(name), tools.iter().map(|(s, n)| tool(s, n)), Millis::from_secs(60))
}

fn ops() -> OperatorId {
    OperatorId::new("ops").unwrap()
}

#[test]
fn a_draft_is_written_as_it_was_read() {
    let draft = draft(&desk(7));
    let again = RegistryDraft::from_json(draft.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again, draft);
    assert_eq!(again.to_json(), draft.to_json());
}

#[test]
fn agents_and_tools_alone_are_a_draft() {
    let mut bare = desk(7);
    for member in ["format", "version", "revoked"] {
        bare.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(draft(&bare).version(), 1);
    let payload = draft(&bare).payload(at(ISSUED), at(ISSUED + 1)).unwrap();
    let mut signed: Value = serde_json::from_str(payload.as_str()).unwrap();
    assert_eq!((&signed["format"], &signed["version"]), (&json!(FORMAT), &json!(1)));
    for member in ["format", "version"] {
        let kept = signed.as_object_mut().unwrap().remove(member).unwrap();
        let error = RegistryDraft::from_payload(signed.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.code(), "REGISTRY_CONTENT", "a payload has both");
        signed[member] = kept;
    }
}

#[test]
fn a_registry_of_development_needs_no_operator() {
    let registry = CapabilityRegistry::dangerous_dev(&draft(&desk(7)), at(ISSUED)).unwrap();
    assert!(registry.is_dev());
    let request = NegotiationRequest::new(SessionId::new("s").unwrap(), agent("support-bot"));
    assert!(registry.negotiate(&request, at(ISSUED)).is_ok());
}

#[test]
fn list_order_does_not_change_the_payload() {
    let mut turned = desk(7);
    for list in ["agents", "tools"] {
        turned[list].as_array_mut().unwrap().reverse();
    }
    turned["agents"][1]["tools"].as_array_mut().unwrap().reverse();
    assert_eq!(sign(&turned), sign(&desk(7)));
}

#[test]
fn a_draft_with_a_name_twice_is_refused() {
    let text = desk(1).to_string().replacen('{', r#"{"version":9,"#, 1);
    assert_eq!(RegistryDraft::from_json(text.as_bytes()).unwrap_err().code(), "JSON_DUPLICATE_NAME");
}

#[test]
fn a_draft_does_not_set_its_own_times() {
    let mut value = desk(1);
    value["expires"] = json!(ISSUED);
    let error = RegistryDraft::from_json(value.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.code(), "REGISTRY_CONTENT");
    let backwards = draft(&desk(1)).sign(at(ISSUED), at(ISSUED), &[&key(1)]).unwrap_err();
    assert_eq!(backwards.code(), "REGISTRY_VALIDITY");
}

#[test]
fn a_signed_registry_without_its_times_is_refused() {
    for name in ["issued", "expires"] {
        let mut bent = payload(&desk(1));
        bent.as_object_mut().unwrap().remove(name);
        assert_eq!(refused(&sign_payload(&bent)), "REGISTRY_VALIDITY");
        let mut bent = payload(&desk(1));
        bent[name] = json!(null);
        assert_eq!(refused(&sign_payload(&bent)), "REGISTRY_VALIDITY");
    }
    let mut bent = payload(&desk(1));
    bent["expires"] = bent["issued"].clone();
    assert_eq!(refused(&sign_payload(&bent)), "REGISTRY_VALIDITY");
}

#[test]
fn signed_draft_can_be_loaded() {
    let mut draft = draft(&desk(1));
    let (again, issued, expires) =
        RegistryDraft::from_payload(draft.payload(at(ISSUED), at(ISSUED + 1)).unwrap().bytes()).unwrap();
    assert_eq!((&again, issued, expires), (&draft, at(ISSUED), at(ISSUED + 1)));
    for n in 0..16_385 {
        draft.revoke(&agent(&format!("bad-{n}")));
    }
    let refused = draft.payload(at(ISSUED), at(ISSUED + 1)).unwrap_err();
    assert_eq!(refused.code(), "REGISTRY_TOO_MANY");
    let mut draft = super::fixture::draft(&desk(1));
    for n in 0..60 {
        let large = json!({ "description": "x".repeat(220 << 10) });
        let tool = tool("s", &format!("t-{n}x"));
        let entry = ToolEntry::builder(&tool, ImpactClass::Read, ApprovalRule::Required, large);
        draft.add_tool(entry.build().unwrap()).unwrap();
    }
    assert_eq!(draft.payload(at(ISSUED), at(ISSUED + 1)).unwrap_err().code(), "REGISTRY_TOO_LARGE");
    let mut draft = super::fixture::draft(&desk(1));
    let deep = (0..70).fold(json!({}), |inner, _| json!({ "not": inner }));
    let entry = ToolEntry::builder(&tool("s", "t"), ImpactClass::Read, ApprovalRule::Required, deep);
    draft.add_tool(entry.build().unwrap()).unwrap();
    assert_eq!(draft.payload(at(ISSUED), at(ISSUED + 1)).unwrap_err().code(), "JSON_TOO_DEEP");
}

#[test]
fn an_agent_is_registered_over_a_lower_version_only() {
    let mut draft = draft(&desk(1));
    let more = || capabilities("support-bot", &[("mail", "send")]);
    let code = |result: Result<(), ContentError>| result.unwrap_err().code();
    assert_eq!(code(draft.register(more(), 1, ops())), "REGISTRY_ENTRY_VERSION");
    assert_eq!(code(draft.register(more(), 0, ops())), "REGISTRY_VERSION");
    assert_eq!(draft.register(more(), 2, ops()), Ok(()));
    assert!(draft.agents().any(|entry| entry.lists(&tool("mail", "send")) && entry.version() == 2));
    assert_eq!(code(draft.register(capabilities("x", &[]), 1, ops())), "REGISTRY_EMPTY_TOOLS");
    assert_eq!(code(draft.register(capabilities("x", &[("no", "no")]), 1, ops())), "REGISTRY_UNKNOWN_TOOL");
    let before = draft.clone();
    assert_eq!(
        code(draft.register(capabilities("Mailer", &[("mail", "send")]), 1, ops())),
        "REGISTRY_LOOKALIKE"
    );
    assert_eq!(draft, before, "a refused registration leaves the draft as it was");
    draft.revoke(&agent("support-bot"));
    assert_eq!(code(draft.register(more(), 3, ops())), "AGENT_REVOKED");
}

#[test]
fn a_tool_that_looks_like_another_is_not_added() {
    let mut draft = draft(&desk(1));
    let before = draft.clone();
    let named = |name: &str| {
        ToolEntry::builder(&tool("desk", name), ImpactClass::Read, ApprovalRule::NotRequired, json!({}))
            .build()
            .unwrap()
    };
    assert_eq!(draft.add_tool(named("Search")).unwrap_err().code(), "REGISTRY_LOOKALIKE");
    assert_eq!(draft, before);
    assert_eq!(draft.add_tool(named("close")), Ok(()));
    assert_eq!(draft.tools().count(), 4);
}

#[test]
fn revocations_are_signed() {
    let mut draft = draft(&desk(1));
    let snapshot = Digest::of(b"an older one");
    draft.revoke(&agent("mailer"));
    draft.revoke_key(&KeyId::new("gate-1").unwrap()).unwrap();
    draft.revoke_snapshot(&snapshot);
    assert_eq!(draft.revoke_key(&KeyId::new("ed25519:abc").unwrap()).unwrap_err().code(), "REGISTRY_KEY_ID");
    let bytes = draft.sign(at(ISSUED), at(ISSUED + 86_400_000), &[&key(1), &key(3)]).unwrap().to_json();
    let loaded = load_with(bytes.as_bytes(), marks()).unwrap().current();
    assert!(loaded.is_agent_revoked(&agent("mailer")));
    assert!(loaded.is_key_revoked(&KeyId::new("gate-1").unwrap()));
    assert!(loaded.is_snapshot_revoked(&snapshot));
    assert!(!loaded.is_snapshot_revoked(&loaded.digest()));
}

#[test]
fn every_entry_has_a_fingerprint_that_any_change_alters() {
    let before = load(&desk(1)).current();
    let fingerprint = |value: &Value| {
        let draft = draft(value);
        let agent = draft.agents().find(|entry| entry.agent() == &agent("support-bot")).unwrap().clone();
        let tool = draft.tools().find(|entry| entry.tool() == &tool("desk", "refund")).unwrap().clone();
        (agent_fingerprint(&agent), tool_fingerprint(&tool))
    };
    let (agent_before, tool_before) = fingerprint(&desk(1));
    assert_eq!(before.agent(&agent("support-bot")).unwrap().fingerprint(), agent_before);
    assert_eq!(before.tool(&tool("desk", "refund")).unwrap().entry().fingerprint(), tool_before);
    assert_eq!(
        fingerprint(&desk(2)),
        (agent_before, tool_before),
        "the registry's version is not the entry's"
    );
    for (member, changed) in [
        ("version", json!(2)),
        ("registered_by", json!("eve")),
        ("tools", json!([{"server": "desk", "name": "search"}])),
        ("output_tags", json!(["summary"])),
        ("max_session", json!("2h")),
        ("limits", json!({"max_calls": 101})),
    ] {
        let mut value = desk(1);
        value["agents"][0][member] = changed;
        assert_ne!(fingerprint(&value).0, agent_before, "{member}");
    }
    for (member, changed) in [
        ("impact", json!("read")),
        ("approval", json!("not_required")),
        ("ask", json!("not_required")),
        ("evidence", json!("required")),
        ("plan", json!("required")),
        ("definition", json!(Digest::of(b"x"))),
        ("args_schema", json!({"type": "object"})),
        ("constraints", json!([{"kind": "path_within", "at": "/x", "roots": ["/x"]}])),
        ("data_args", json!(["/note"])),
        ("limits", json!({"max_calls": 1})),
    ] {
        let mut value = desk(1);
        value["tools"][1][member] = changed;
        assert_ne!(fingerprint(&value).1, tool_before, "{member}");
    }
}

#[test]
fn lint_reports_probable_mistakes() {
    let codes = |value: &Value| -> Vec<_> { draft(value).lint().iter().map(Finding::code).collect() };
    let without_notes = |value: &Value| -> Vec<_> {
        let findings = draft(value).lint();
        findings.iter().filter(|f| f.severity() == Severity::Warning).map(Finding::code).collect()
    };
    assert_eq!(without_notes(&desk(1)), Vec::<&str>::new());
    let pins = codes(&desk(1)).into_iter().filter(|code| *code == "LINT_NOT_PINNED");
    assert_eq!(pins.count(), 3);
    let mut value = desk(1);
    value["tools"][0]["args_schema"] = json!({});
    value["tools"][1]["approval"] = json!("not_required");
    value["tools"][2]["constraints"] =
        json!([{"kind": "url", "at": "/link", "schemes": ["https"], "hosts": [".com"]}]);
    value["revoked"]["agents"] = json!(["mailer"]);
    assert_eq!(
        without_notes(&value),
        [
            "LINT_AMOUNT_OPEN",
            "LINT_NO_APPROVAL",
            "LINT_SCHEMA_TYPE",
            "LINT_SCHEMA_OPEN",
            "LINT_CONSTRAINT_PLACE",
            "LINT_WIDE_HOST",
            "LINT_REVOKED_AGENT"
        ]
    );
    let mut value = desk(1);
    let mut twin = value["tools"][0].clone();
    (twin["server"], twin["name"]) = (json!("a_"), json!("_b"));
    let mut other = twin.clone();
    (other["server"], other["name"]) = (json!("a"), json!("__b"));
    value["tools"].as_array_mut().unwrap().extend([twin, other]);
    assert!(codes(&value).contains(&"LINT_JOINED_NAMES"));
    assert!(codes(&value).contains(&"LINT_UNUSED_TOOL"));
}

/// Returns the warnings for the desk's draft with a change in its third tool.
fn warnings(change: impl FnOnce(&mut Value)) -> Vec<&'static str> {
    let mut value = desk(1);
    change(&mut value["tools"][2]);
    let findings = draft(&value).lint();
    findings.iter().filter(|f| f.severity() == Severity::Warning).map(Finding::code).collect()
}

#[test]
fn the_lint_has_nothing_against_a_rule_that_asks_for_more() {
    for rule in ["ask", "evidence", "plan"] {
        assert_eq!(warnings(|tool| tool[rule] = json!("required")), [""; 0], "{rule}");
    }
    assert_eq!(warnings(|tool| tool["approval"] = json!("each_call")), [""; 0]);
}

#[test]
fn an_approval_of_each_call_is_another_rule_than_an_approval() {
    let fingerprint = |rule: &str| {
        let mut value = desk(1);
        value["tools"][2]["approval"] = json!(rule);
        let draft = draft(&value);
        let entry = draft.tools().nth(2).unwrap();
        (entry.approval(), entry.fingerprint())
    };
    let [required, each, none] = ["required", "each_call", "not_required"].map(fingerprint);
    assert_eq!(
        [required.0, each.0, none.0],
        [ApprovalRule::Required, ApprovalRule::EachCall, ApprovalRule::NotRequired]
    );
    assert_eq!([required, each, none].map(|(rule, _)| rule.is_required()), [true, true, false]);
    assert!(required.1 != each.1 && each.1 != none.1);
}

#[test]
fn the_lint_warns_of_a_constraint_whose_place_cannot_exist() {
    let at = |place: &str, to: Value| {
        let place = place.to_owned();
        warnings(move |tool| {
            tool["constraints"][0]["at"] = json!(place);
            tool["args_schema"]["properties"]["to"] = to;
        })
    };
    let closed =
        || json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}});
    let warned = ["LINT_CONSTRAINT_PLACE"];
    assert_eq!(at("/to/a", closed()), [""; 0]);
    assert_eq!(at("/to/b", closed()), warned);
    assert_eq!(at("/to/a/b", closed()), warned);
    assert_eq!(at("/to/b", json!({"type": "string"})), warned);
    assert_eq!(at("/to/0", json!({"type": "string"})), warned);
    assert_eq!(at("/to/a", json!({"type": "array", "items": closed()})), warned, "a list has no names");
    assert_eq!(at("/to/0/a", json!({"type": "array", "maxItems": 1, "items": closed()})), [""; 0]);
    assert_eq!(at("/to/0/b", json!({"type": "array", "maxItems": 1, "items": closed()})), warned);
    // Places that cannot be decided are not reported.
    assert_eq!(at("/to/b", json!({"type": "object"})), [""; 0]);
    assert_eq!(at("/to/b", json!({"$ref": "#"})), [""; 0]);
    assert_eq!(at("/to/b", json!({"anyOf": [closed(), {"type": "object"}]})), [""; 0]);
    let pattern = json!({"type": "object", "patternProperties": {"^b": {}}, "additionalProperties": false});
    assert_eq!(at("/to/b", pattern), [""; 0]);
}

#[test]
fn the_lint_warns_of_a_schema_that_branches_back() {
    let branches = |schema: Value| {
        let warned = warnings(move |tool| tool["args_schema"] = schema);
        warned.contains(&"LINT_SCHEMA_BRANCHES")
    };
    let way = json!({"properties": {"a": {"$ref": "#"}}});
    assert!(branches(json!({"allOf": [way, way]})));
    assert!(branches(json!({"properties": {"a": {"$ref": "#"}}, "not": way})));
    assert!(branches(json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})));
    assert!(branches(json!({"$ref": "#/$defs/x", "$defs": {"x": {"oneOf": [
        {"properties": {"and": {"items": {"$ref": "#/$defs/x"}}}}, {"properties": {"not": {"$ref": "#/$defs/x"}}}]}}})));
    // Only one way back applies to each value.
    assert!(!branches(json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})));
    assert!(!branches(json!({"anyOf": [{"type": "object"}, {"required": ["a"]}]})));
    assert!(!branches(
        json!({"anyOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"a": {"$ref": "#"}}}}})
    ));
}

#[test]
fn the_lint_warns_of_a_format_that_is_not_checked() {
    let format =
        |name: &str| warnings(|tool| tool["args_schema"]["properties"]["to"]["format"] = json!(name));
    for checked in ["date", "date-time", "email", "uri", "uuid", "hostname", "ipv4", "regex", "duration"] {
        assert_eq!(format(checked), [""; 0], "{checked}");
    }
    for unchecked in ["idn-email", "idn-hostname", "int64", "phone", "Date", ""] {
        assert_eq!(format(unchecked), ["LINT_FORMAT_NOT_CHECKED"], "{unchecked}");
    }
    let old = warnings(|tool| {
        tool["args_schema"]["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        tool["args_schema"]["properties"]["to"]["format"] = json!("uuid");
    });
    assert_eq!(old, ["LINT_FORMAT_NOT_CHECKED"], "a format that came with a later draft");
    let argument = warnings(|tool| {
        tool["args_schema"]["properties"]["format"] = json!({"type": "string", "enum": ["idn-email"]});
    });
    assert_eq!(argument, [""; 0], "an argument of that name");
}

/// Codes of the findings about arguments, for a tool with these arguments and rules.
fn gaps(impact: &str, properties: &Value, rules: &Value) -> Vec<(&'static str, Severity)> {
    let mut value = desk(1);
    let tool = &mut value["tools"][2];
    tool["impact"] = json!(impact);
    tool["args_schema"] = json!({"type": "object", "properties": properties, "additionalProperties": false});
    tool["data_args"] = json!([]);
    for member in ["approval", "constraints"] {
        tool[member] = rules.get(member).cloned().unwrap_or_else(|| json!([]));
    }
    let findings = draft(&value).lint();
    let about = findings.iter().filter(|found| found.message().contains("`mail:send`"));
    let gaps = about.filter(|found| {
        found.code().ends_with("_OPEN") && found.code() != "LINT_SCHEMA_OPEN"
            || found.code() == "LINT_ONE_ELEMENT"
    });
    gaps.map(|found| (found.code(), found.severity())).collect()
}

fn free(constraints: &Value) -> Value {
    json!({"approval": "not_required", "constraints": constraints})
}

#[test]
fn lint_warns_of_free_paths_and_addresses() {
    let text = || json!({"type": "string"});
    for (name, code) in [
        ("path", "LINT_PATH_OPEN"),
        ("sourceFile", "LINT_PATH_OPEN"),
        ("output-dir", "LINT_PATH_OPEN"),
        ("url", "LINT_URL_OPEN"),
        ("callback_url", "LINT_URL_OPEN"),
    ] {
        let warned = [(code, Severity::Warning)];
        assert_eq!(gaps("read", &json!({name: text()}), &free(&json!([]))), warned, "{name}");
        assert_eq!(
            gaps("read", &json!({name: {"type": "array", "items": text()}}), &free(&json!([]))),
            warned
        );
        assert_eq!(
            gaps("read", &json!({"in": {"type": "object", "properties": {name: text()}}}), &free(&json!([]))),
            warned
        );
        let person = json!({"approval": "required"});
        assert_eq!(
            gaps("read", &json!({name: text()}), &person),
            [(code, Severity::Note)],
            "a person sees it"
        );
        assert_eq!(gaps("read", &json!({name: {"enum": ["a", "b"]}}), &free(&json!([]))), [], "{name}");
        assert_eq!(gaps("read", &json!({name: {"type": "integer"}}), &free(&json!([]))), [], "{name}");
    }
    let within = json!([{"kind": "path_within", "at": "/path", "roots": ["/srv"]}]);
    assert_eq!(gaps("read", &json!({"path": text()}), &free(&within)), []);
    assert_eq!(gaps("read", &json!({"profile": text(), "curl": text()}), &free(&json!([]))), []);
}

#[test]
fn lint_warns_of_money_without_a_maximum() {
    let amount = |schema: Value| json!({"amount": schema});
    let open = [("LINT_AMOUNT_OPEN", Severity::Warning)];
    assert_eq!(gaps("money", &amount(json!({"type": "integer", "minimum": 1})), &free(&json!([]))), open);
    assert_eq!(gaps("money", &amount(json!({"type": "number", "maximum": 20})), &free(&json!([]))), []);
    assert_eq!(gaps("write", &amount(json!({"type": "number"})), &free(&json!([]))), []);
    let range = |max: Option<u64>| {
        let mut rule = json!({"kind": "number", "at": "/amount", "min": 0});
        rule.as_object_mut().unwrap().extend(max.map(|max| ("max".to_owned(), json!(max))));
        rule
    };
    assert_eq!(gaps("money", &amount(json!({"type": "number"})), &free(&json!([range(Some(9))]))), []);
    assert_eq!(gaps("money", &amount(json!({"type": "number"})), &free(&json!([range(None)]))), open);
    let unless = |rule: Value| json!({"approval": {"rule": "required", "unless": [[rule]]}});
    assert_eq!(gaps("money", &amount(json!({"type": "number"})), &unless(range(Some(9)))), []);
    assert_eq!(gaps("money", &amount(json!({"type": "number"})), &unless(range(None))), open);
}

#[test]
fn lint_warns_of_recipients_beside_a_constrained_one() {
    let people = json!({"to": {"type": "string"}, "cc": {"type": "string"}, "subject": {"type": "string"}});
    let domain = |at: &str| json!({"kind": "email_domain", "at": at, "domains": ["example.com"]});
    let open = [("LINT_RECIPIENT_OPEN", Severity::Warning)];
    assert_eq!(gaps("external", &people, &free(&json!([domain("/to")]))), open);
    assert_eq!(gaps("external", &people, &free(&json!([domain("/to"), domain("/cc")]))), []);
    let branch = json!({"approval": {"rule": "required", "unless": [[domain("/to")], [domain("/cc")]]}});
    assert_eq!(gaps("external", &people, &branch).len(), 2, "each branch leaves another one open");
}

#[test]
fn lint_warns_of_a_rule_for_one_element() {
    let domain = |at: &str| free(&json!([{"kind": "email_domain", "at": at, "domains": ["example.com"]}]));
    let list = |longest: Option<u64>| {
        let mut to = json!({"type": "array", "items": {"type": "string"}});
        to.as_object_mut().unwrap().extend(longest.map(|most| ("maxItems".to_owned(), json!(most))));
        json!({"to": to})
    };
    let one = [("LINT_ONE_ELEMENT", Severity::Warning)];
    assert_eq!(gaps("external", &list(None), &domain("/to/0")), one);
    assert_eq!(gaps("external", &list(Some(2)), &domain("/to/0")), one);
    assert_eq!(gaps("external", &list(Some(1)), &domain("/to/0")), []);
    assert_eq!(gaps("external", &list(None), &domain("/to")), []);
}

/// Findings about a tool `files:list` with this listed definition, beside `mail:send_mail` and `mail:search`.
fn mentions(listed: &Value) -> Vec<String> {
    let tool = |server: &str, name: &str| json!({"server": server, "name": name, "impact": "read", "approval": "not_required", "args_schema": {"type": "object"}});
    let mut list = tool("files", "list");
    list["as_listed"] = listed.clone();
    let mut value = desk(1);
    value["agents"] = json!([]);
    value["tools"] =
        json!([list, tool("files", "read_file"), tool("mail", "send_mail"), tool("mail", "search")]);
    let found = draft(&value).lint();
    let of = found.iter().filter(|found| found.code() == "LINT_OTHER_SERVER");
    of.map(|found| found.message().to_owned()).collect()
}

#[test]
fn lint_warns_of_a_tool_that_speaks_of_another_server() {
    let said = "the description of `files:list` speaks of `mail:send_mail`, a tool of another server";
    for text in ["Before use, call send_mail.", "see mail/send_mail", "(mail.send_mail)", "`send_mail`"] {
        assert_eq!(mentions(&json!({"description": text})), [said], "{text}");
        assert_eq!(mentions(&json!({"title": text})), [said], "{text}");
        let deep = json!({"inputSchema": {"properties": {"a": {"items": [{"description": text}]}}}});
        assert_eq!(mentions(&deep), [said], "{text}");
    }
    assert_eq!(mentions(&json!({"description": "finds it by search in mail"})).len(), 1);
    for text in ["Lists files, see read_file", "a search for files", "send mail", "resend_mail", "send_mails"]
    {
        assert_eq!(mentions(&json!({"description": text})), [""; 0], "{text}");
    }
    assert_eq!(
        mentions(&json!({"inputSchema": {"properties": {"send_mail": {"default": "send_mail"}}}})),
        [""; 0]
    );
}

/// Returns a draft of `count` tools, most of them under one server, with no look-alike names.
fn with_tools(count: usize) -> RegistryDraft {
    let mut value = desk(1);
    let tools = value["tools"].as_array_mut().unwrap();
    for n in tools.len()..count {
        let entry = json!({"server": "many", "name": format!("t{n}"), "impact": "read", "approval": "required", "args_schema": {}});
        tools.push(entry);
    }
    draft(&value)
}

#[test]
fn full_draft_accepts_a_replacement() {
    let mut draft = with_tools(10_000);
    let named = |server: &str, name: &str| {
        let tool = tool(server, name);
        ToolEntry::builder(&tool, ImpactClass::Money, ApprovalRule::Required, json!({})).build().unwrap()
    };
    assert_eq!(draft.tools().count(), 10_000);
    assert_eq!(draft.add_tool(named("many", "more")).unwrap_err().code(), "REGISTRY_TOO_MANY");
    assert_eq!(draft.add_tool(named("desk", "search")), Ok(()));
    assert_eq!(draft.tools().count(), 10_000);
    assert!(
        draft
            .tools()
            .any(|entry| entry.tool().name().as_str() == "search" && entry.impact() == ImpactClass::Money)
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures its own run time")]
fn adding_an_entry_takes_one_look_up() {
    let mut draft = with_tools(3_000);
    let started = std::time::Instant::now();
    for n in 0..500 {
        draft.register(capabilities(&format!("b{n}x"), &[("desk", "search")]), 1, ops()).unwrap();
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn limits_outside_of_their_bounds_are_refused() {
    for bad in [
        json!({"max_calls": 0}),
        json!({"max_calls": 100_001}),
        json!({"max_calls": null}),
        json!({"rate": {"calls": 0, "per": "1m"}}),
        json!({"rate": {"calls": 1, "per": "0s"}}),
        json!({"rate": {"calls": 1, "per": "86401s"}}),
        json!({"rate": {"calls": 1, "per": 60_000}}),
        json!({"rate": {"calls": 1}}),
        json!({"per_day": 1}),
        json!(null),
    ] {
        let mut value = desk(1);
        value["agents"][0]["limits"] = bad.clone();
        let error = RegistryDraft::from_json(value.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.code(), "REGISTRY_CONTENT", "{bad}");
    }
    let limits = Limits::new(Some(3), Rate::new(1, Millis::from_secs(1)).ok()).unwrap();
    assert_eq!(limits.max_calls(), Some(3));
    assert_eq!(limits.rate().map(|rate| (rate.calls(), rate.per().as_millis())), Some((1, 1_000)));
    assert_eq!(Limits::new(Some(0), None), Err(LimitError::Calls));
    assert_eq!(Rate::new(1, Millis::ZERO), Err(LimitError::Per));
}

#[test]
fn json_schema_agrees_with_the_reader() {
    let schema: Value = serde_json::from_str(draft_schema()).unwrap();
    let validator = jsonschema::options().offline().build(&schema).unwrap();
    assert!(validator.is_valid(&desk(1)));
    let number = json!({"kind": "number", "at": "/amount", "max": 20});
    // The JSON Schema and the reader must refuse the same changes and accept the same changes.
    let changes: [(&str, Value, bool); 60] = [
        ("/format", json!("countersign-registry-2"), false),
        ("/version", json!(0), false),
        ("/version", json!((1u64 << 53) - 1), true),
        ("/version", json!("7"), false),
        ("/more", json!(1), false),
        ("/agents", json!([]), true),
        ("/agents", json!(null), false),
        ("/agents/0/agent", json!(""), false),
        ("/agents/0/agent", json!("*"), false),
        ("/agents/0/agent", json!("a\u{7f}"), false),
        ("/agents/0/agent", json!(" a"), false),
        ("/agents/0/agent", json!("Zo\u{eb} 7"), true),
        ("/agents/0/version", json!(0), false),
        ("/agents/0/tools", json!([]), false),
        ("/agents/0/tools/0/name", json!("a b"), false),
        ("/agents/0/tools/0/more", json!("x"), false),
        ("/agents/0/output_tags", json!(["a", "a"]), false),
        ("/agents/0/output_tags", json!([]), true),
        ("/agents/0/max_session", json!(3_600_000), false),
        ("/agents/0/max_session", json!("1w"), false),
        ("/agents/0/max_session", json!("90m"), true),
        ("/agents/0/limits", json!({"rate": {"calls": 1, "per": "1s"}}), true),
        ("/agents/0/limits", json!({"calls": 1}), false),
        ("/tools/0/impact", json!("Read"), false),
        ("/tools/0/impact", json!("compute"), true),
        ("/tools/0/approval", json!(true), false),
        ("/tools/0/approval", json!({"rule": "each_call", "unless": [[number]]}), true),
        (
            "/tools/0/approval",
            json!({"rule": "required", "unless": [[number, {"kind": "empty_list", "at": "/b"}]]}),
            true,
        ),
        ("/tools/0/approval", json!({"rule": "not_required", "unless": [[number]]}), false),
        ("/tools/0/approval", json!({"rule": "required", "unless": []}), false),
        ("/tools/0/approval", json!({"rule": "required", "unless": [[]]}), false),
        ("/tools/0/approval", json!({"rule": "required", "unless": [[number]], "more": 1}), false),
        ("/tools/0/approval", json!({"rule": "required"}), false),
        ("/tools/0/constraints", json!([{"kind": "number", "at": "/q"}]), false),
        ("/tools/0/constraints", json!([{"kind": "number", "at": "/q", "min": -1.5}]), true),
        ("/tools/0/constraints", json!([{"kind": "empty_list", "at": "/q", "max": 1}]), false),
        ("/tools/1/approvers", json!({"names": ["ada", "bob"], "needed": 2}), true),
        ("/tools/1/approvers", json!({"names": ["ada"], "needed": 1}), true),
        ("/tools/1/approvers", json!({"names": [], "needed": 1}), false),
        ("/tools/1/approvers", json!({"names": ["ada", "ada"], "needed": 1}), false),
        ("/tools/1/approvers", json!({"names": ["ada"], "needed": 0}), false),
        ("/tools/1/approvers", json!({"names": ["ada", "b", "c", "d", "e"], "needed": 5}), false),
        ("/tools/1/approvers", json!({"names": ["x".repeat(65)], "needed": 1}), false),
        ("/tools/1/approvers", json!(null), false),
        ("/tools/0/ask", json!("required"), true),
        ("/tools/0/evidence", json!("maybe"), false),
        ("/tools/0/definition", json!(null), false),
        ("/tools/0/definition", json!("ABCD"), false),
        ("/tools/0/definition", json!("0".repeat(64)), true),
        ("/tools/0/args_schema", json!(true), false),
        ("/tools/0/data_args", json!(["query"]), false),
        ("/tools/0/data_args", json!(["/query"]), true),
        ("/tools/0/constraints", json!([{"kind": "regex", "at": "/query"}]), false),
        ("/tools/0/constraints", json!([{"kind": "url", "at": "/query", "hosts": ["a.test"]}]), false),
        (
            "/tools/0/constraints",
            json!([{"kind": "url", "at": "/q", "schemes": ["https"], "hosts": ["A.test"]}]),
            false,
        ),
        (
            "/tools/0/constraints",
            json!([{"kind": "path_within", "at": "/q", "roots": ["/a"], "x": 1}]),
            false,
        ),
        ("/tools/0/constraints", json!([{"kind": "path_within", "at": "/q", "roots": ["/a"]}]), true),
        ("/revoked/keys", json!(["ed25519:xyz"]), false),
        ("/revoked/keys", json!(["gate-1"]), true),
        ("/revoked/people", json!([]), false),
    ];
    for (place, changed, good) in changes {
        let mut value = desk(1);
        let (parent, name) = place.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[name] = changed.clone();
        assert_eq!(validator.is_valid(&value), good, "schema: {place} {changed}");
        let read = RegistryDraft::from_json(value.to_string().as_bytes());
        assert_eq!(read.is_ok(), good, "reader: {place} {changed} {read:?}");
    }
    for place in [
        "/agents",
        "/tools",
        "/agents/0/agent",
        "/agents/0/version",
        "/agents/0/registered_by",
        "/agents/0/tools",
        "/agents/0/max_session",
        "/tools/0/server",
        "/tools/0/name",
        "/tools/0/impact",
        "/tools/0/approval",
        "/tools/0/args_schema",
    ] {
        let mut value = desk(1);
        let (parent, name) = place.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        assert!(!validator.is_valid(&value), "schema: {place} left out");
        assert!(RegistryDraft::from_json(value.to_string().as_bytes()).is_err(), "reader: {place} left out");
    }
    for place in [
        "/format",
        "/version",
        "/revoked",
        "/agents/0/output_tags",
        "/agents/0/limits",
        "/tools/1/ask",
        "/tools/2/constraints",
        "/tools/2/data_args",
        "/tools/2/limits",
        "/revoked/keys",
    ] {
        let mut value = desk(1);
        let (parent, name) = place.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        assert!(validator.is_valid(&value), "schema: {place} left out");
        assert!(RegistryDraft::from_json(value.to_string().as_bytes()).is_ok(), "reader: {place} left out");
    }
}

#[test]
fn rounded_numbers_have_no_definition_digest() {
    use countersign_canonical_json::{Limits as JsonLimits, Recipe, read};
    let text = br#"{"name":"t","inputSchema":{"maximum":9007199254740993}}"#;
    let rounded = read(text, Recipe::Rfc8785, &JsonLimits::default()).unwrap();
    assert_eq!(definition_digest(rounded.value()), Err(DefinitionError::Inexact));
    for bad in [json!([]), json!({}), json!({"name": 1}), json!("t")] {
        assert_eq!(definition_digest(canonical(&bad).value()), Err(DefinitionError::Shape));
    }
}

#[test]
fn listed_definition_must_be_the_pinned_one() {
    let listed = json!({"description": "Finds tickets.", "inputSchema": {"type": "object"}, "annotations": {"a": 1.0}});
    let pinned = |name: &str, description: &str| {
        let mut tool = listed.clone();
        tool["name"] = json!(name);
        tool["description"] = json!(description);
        let text = tool.to_string();
        let read = countersign_canonical_json::read(
            text.as_bytes(),
            countersign_canonical_json::Recipe::Jcs1,
            &countersign_canonical_json::Limits::default(),
        );
        definition_digest(read.unwrap().value()).unwrap()
    };
    let code = |definition: Value, listed: &Value| {
        let mut value = desk(1);
        let tool = &mut value["tools"][0];
        tool["definition"] = definition;
        tool["as_listed"] = listed.clone();
        RegistryDraft::from_json(value.to_string().as_bytes()).map(drop).map_err(|error| error.code())
    };
    let name = desk(1)["tools"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(code(json!(pinned(&name, "Finds tickets.")), &listed), Ok(()));
    assert_eq!(code(json!(pinned(&name, "Finds all.")), &listed), Err("REGISTRY_DEFINITION"));
    assert_eq!(code(json!(pinned("other", "Finds tickets.")), &listed), Err("REGISTRY_DEFINITION"));
    assert_eq!(code(json!(pinned(&name, "Finds tickets.")), &json!({"_meta": {}})), Err("REGISTRY_CONTENT"));
    assert_eq!(code(json!(pinned(&name, "Finds tickets.")), &json!(null)), Err("REGISTRY_CONTENT"));
}

#[test]
fn a_server_is_described_once_in_bounds() {
    let code = |servers: Value| {
        let mut value = desk(1);
        value["servers"] = servers;
        RegistryDraft::from_json(value.to_string().as_bytes()).map(drop).map_err(|error| error.code())
    };
    let entry = json!({"server": "desk", "instructions": "Be kind.", "info": {"name": "desk"}});
    assert_eq!(code(json!([entry])), Ok(()));
    assert_eq!(code(json!([entry, entry])), Err("REGISTRY_DUPLICATE"));
    assert_eq!(code(json!([{"server": "desk", "info": "desk"}])), Err("REGISTRY_CONTENT"));
    assert_eq!(code(json!([{"server": "desk", "more": 1}])), Err("REGISTRY_CONTENT"));
    let long = "x".repeat((64 << 10) + 1);
    assert_eq!(code(json!([{"server": "desk", "instructions": long}])), Err("REGISTRY_TOO_MANY"));
}

#[test]
fn a_snapshot_has_the_servers_that_were_signed() {
    let mut value = desk(1);
    value["servers"] = json!([{"server": "desk", "instructions": "Be kind."}]);
    let draft = draft(&value);
    assert_eq!(RegistryDraft::from_json(draft.to_json().unwrap().as_bytes()).unwrap(), draft);
    let (again, ..) =
        RegistryDraft::from_payload(draft.payload(at(ISSUED), at(ISSUED + 1)).unwrap().bytes()).unwrap();
    assert_eq!(again.servers().next().unwrap().instructions(), Some("Be kind."));
}

#[test]
fn fingerprint_covers_the_canonical_entry() {
    let listed =
        json!({"title": "a \u{1F600} \"title\"\n", "inputSchema": {"type": "object", "b": 1e3, "a": null}});
    let schema =
        json!({"type": "object", "properties": {"z": {"maximum": 2.50}, "a\u{e9}": {"const": "\u{1}"}}});
    let edits: [(&str, &str, Value); 11] = [
        ("agents", "limits", json!({"rate": {"per": "1m", "calls": 3}, "max_calls": 101})),
        ("agents", "output_tags", json!(["summary", "\u{e9}\"quoted\""])),
        (
            "agents",
            "tools",
            json!([{"server": "desk", "name": "search"}, {"server": "desk", "name": "refund"}]),
        ),
        ("tools", "as_listed", listed),
        ("tools", "args_schema", schema),
        ("tools", "constraints", json!([{"roots": ["/x"], "kind": "path_within", "at": "/x"}])),
        ("tools", "data_args", json!(["/b~1", "/a"])),
        ("tools", "limits", json!({"max_calls": 1})),
        ("tools", "approval", json!("each_call")),
        ("tools", "approvers", json!({"needed": 1, "names": ["zoe", "ada"]})),
        (
            "tools",
            "approval",
            json!({"unless": [[{"max": 2.50, "kind": "number", "at": "/x"}]], "rule": "required"}),
        ),
    ];
    for (list, member, changed) in edits {
        let mut value = desk(1);
        for entry in value[list].as_array_mut().unwrap() {
            entry[member] = changed.clone();
            if member == "approvers" {
                entry["approval"] = json!("required");
            }
            if list == "tools" {
                entry.as_object_mut().unwrap().remove("definition");
            }
        }
        let draft = draft(&value);
        for entry in draft.agents() {
            assert_eq!(entry.fingerprint(), framed("countersign/agent-entry-1", &json!(entry)), "{member}");
        }
        for entry in draft.tools() {
            assert_eq!(entry.fingerprint(), framed("countersign/tool-entry-1", &json!(entry)), "{member}");
        }
    }
}

fn framed(label: &str, entry: &Value) -> Digest {
    Digest::framed(label).field(canonical(entry).bytes()).finish()
}

#[test]
fn loaded_entries_are_in_the_order_of_their_ids() {
    let mut reversed = payload(&desk(1));
    reversed["tools"].as_array_mut().unwrap().reverse();
    reversed["agents"].as_array_mut().unwrap().reverse();
    let unsorted = load_with(&sign_payload(&reversed), marks()).unwrap().current();
    let sorted = load(&desk(1)).current();
    assert!(unsorted.agents().eq(sorted.agents()) && unsorted.tools().eq(sorted.tools()));
    for rules in sorted.tools() {
        assert_eq!(unsorted.tool(rules.entry().tool()), Some(rules));
    }
    for entry in sorted.agents() {
        assert_eq!(unsorted.agent(entry.agent()), Some(entry));
    }
}
