use serde_json::{Value, json};

use crate::bench::Bench;
use crate::desk;

const VERIFY: &str = "registry verify reg.json --trust-root root.json";

#[test]
fn a_signed_draft_verifies() {
    let bench = desk::open();
    let report = bench.run(&format!("{VERIFY} --json")).value();
    assert_eq!((report["version"].as_u64(), report["agents"].as_u64()), (Some(1), Some(2)));
    assert_eq!(report["expires"].as_u64().unwrap() - report["issued"].as_u64().unwrap(), 30 * 86_400_000);
    assert!(bench.ok(VERIFY).starts_with("registry version 1: 2 agents"));
}

#[test]
fn any_change_after_signing_is_refused() {
    let bench = desk::open();
    let signed: Value = serde_json::from_str(&bench.read("reg.json")).unwrap();
    let mut other = signed.clone();
    let payload = other["payload"].as_str().unwrap().to_owned();
    let flipped =
        if payload.starts_with("eyJh") { payload.replacen("eyJh", "eyJi", 1) } else { format!("A{payload}") };
    other["payload"] = json!(flipped);
    bench.write("reg.json", other.to_string());
    bench.fails(VERIFY, 3, "REGISTRY_SIGNATURES");
    let mut other = signed.clone();
    other["signatures"] = json!([]);
    bench.write("reg.json", other.to_string());
    bench.fails(VERIFY, 3, "REGISTRY_SIGNATURES");
    let mut other = signed.clone();
    other["extra"] = json!(1);
    bench.write("reg.json", other.to_string());
    bench.fails(VERIFY, 3, "REGISTRY_ENVELOPE");
    let mut other = signed;
    other["payloadType"] = json!("text/plain");
    bench.write("reg.json", other.to_string());
    bench.fails(VERIFY, 3, "REGISTRY_PAYLOAD_TYPE");
    bench.write("reg.json", "not json");
    bench.fails(VERIFY, 3, "REGISTRY_ENVELOPE");
}

#[test]
fn a_registry_of_an_untrusted_key_is_refused() {
    let bench = desk::open();
    bench.ok("keys generate --kind ed25519 --out eve.key --public-out eve.pub");
    bench.ok("registry sign draft.json --key eve.key --out reg.json --force");
    bench.fails(VERIFY, 3, "REGISTRY_SIGNATURES");
}

#[test]
fn threshold_counts_distinct_keys() {
    let bench = desk::open();
    bench.ok("keys generate --kind ed25519 --out bob.key --public-out bob.pub");
    bench.ok("keys trust --threshold 2 --out two.json op.pub bob.pub");
    let verify = "registry verify reg.json --trust-root two.json";
    bench.fails(verify, 3, "REGISTRY_SIGNATURES");
    bench.ok("registry cosign reg.json --key op.key --out same.json");
    bench.fails("registry verify same.json --trust-root two.json", 3, "REGISTRY_SIGNATURES");
    bench.ok("registry cosign reg.json --key bob.key --out reg.json --force");
    bench.ok(verify);
    bench.ok("registry sign draft.json --key op.key --key bob.key --out both.json");
    bench.ok("registry verify both.json --trust-root two.json");
    bench.fails("registry cosign draft.json --key bob.key --out x.json", 1, "ENVELOPE_MALFORMED");
}

#[test]
fn an_expired_or_too_old_registry_is_refused() {
    let bench = desk::open();
    bench.ok("registry sign draft.json --key op.key --ttl 1ms --out short.json");
    std::thread::sleep(std::time::Duration::from_millis(10));
    bench.fails("registry verify short.json --trust-root root.json", 3, "REGISTRY_STALE");
    bench.fails(&format!("{VERIFY} --max-age 1ms"), 3, "REGISTRY_STALE");
    bench.fails("registry sign draft.json --key op.key --ttl 0s --out x.json", 1, "REGISTRY_VALIDITY");
    bench.fails("registry sign draft.json --key op.key --ttl 104249991d --out x.json", 2, "USAGE");
}

#[test]
fn draft_refused_by_sign_is_refused_by_lint() {
    let bench = desk::open();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut draft = desk::draft();
        change(&mut draft);
        bench.write("bad.json", draft.to_string());
    };
    let fails = |code: &str| {
        bench.fails("registry lint bad.json", 3, code);
        bench.fails("registry sign bad.json --key op.key --out x.json", 1, code);
    };
    with(&|draft| draft["extra"] = json!(true));
    fails("REGISTRY_CONTENT");
    with(&|draft| draft["format"] = json!("countersign-registry-2"));
    fails("REGISTRY_FORMAT");
    with(&|draft| draft["version"] = json!(0));
    fails("REGISTRY_VERSION");
    with(&|draft| draft["tools"][0]["impact"] = json!("harmless"));
    fails("REGISTRY_CONTENT");
    with(&|draft| draft["agents"][0]["tools"] = json!([]));
    fails("REGISTRY_EMPTY_TOOLS");
    with(&|draft| draft["agents"][0]["tools"] = json!([{"server": "desk", "name": "nothing"}]));
    fails("REGISTRY_UNKNOWN_TOOL");
    with(&|draft| draft["tools"][1]["name"] = json!("search"));
    fails("REGISTRY_DUPLICATE");
    with(&|draft| {
        let mut twin = draft["tools"][0].clone();
        twin["name"] = json!("Search");
        draft["tools"].as_array_mut().unwrap().push(twin);
    });
    fails("REGISTRY_LOOKALIKE");
    with(&|draft| draft["tools"][0]["args_schema"] = json!({"type": 7}));
    fails("REGISTRY_SCHEMA");
    bench.write("bad.json", "{\"format\":1,\"format\":1}");
    fails("JSON_DUPLICATE_NAME");
    bench.fails("registry lint missing.json", 1, "FILE_MISSING");
    bench.fails("registry lint .", 1, "FILE_UNREADABLE");
}

#[test]
fn lint_warns_of_a_missing_approval() {
    let bench = desk::open();
    let mut draft = desk::draft();
    draft["tools"][1]["approval"] = json!("not_required");
    bench.write("loose.json", draft.to_string());
    let report = bench.run("registry lint loose.json --json").value();
    let codes: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"LINT_NO_APPROVAL"), "{codes:?}");
    assert!(bench.ok("registry lint loose.json").contains("warning LINT_NO_APPROVAL: "));
    assert_eq!(bench.run("registry lint loose.json --strict").code, 3);
}

#[test]
fn lint_closes_open_schemas() {
    let bench = desk::open();
    let mut draft = desk::draft();
    let schema = |draft: &Value, tool: usize| draft["tools"][tool]["args_schema"].clone();
    draft["tools"][0]["args_schema"]["additionalProperties"] = json!(true);
    draft["tools"][1]["args_schema"].as_object_mut().unwrap().remove("additionalProperties");
    draft["tools"][1]["args_schema"]["anyOf"] = json!([{"required": ["amount"]}, {"required": ["order"]}]);
    draft["tools"][1]["args_schema"]["properties"]["part"] =
        json!({"type": "number", "maximum": 31.245_270_191_439_438});
    bench.write("open.json", draft.to_string());
    let open = bench.read("open.json");
    bench.fails("registry lint open.json --fix", 1, "NOT_A_TERMINAL");
    assert_eq!(bench.read("open.json"), open, "without an answer");
    let shown = bench.ok("registry lint open.json --fix --yes");
    assert!(shown.contains("-   \"additionalProperties\": true"), "{shown}");
    assert!(shown.contains("+   \"unevaluatedProperties\": false"), "{shown}");
    assert!(!shown.contains("LINT_SCHEMA_OPEN"), "{shown}");
    let mut wanted = draft.clone();
    wanted["tools"][0]["args_schema"]["additionalProperties"] = json!(false);
    wanted["tools"][1]["args_schema"]["unevaluatedProperties"] = json!(false);
    let fixed: Value = serde_json::from_str(&bench.read("open.json")).unwrap();
    assert_eq!((schema(&fixed, 0), schema(&fixed, 1)), (schema(&wanted, 0), schema(&wanted, 1)));
    assert_eq!(fixed, wanted, "all else stays");
    let once = bench.read("open.json");
    let again = bench.run("registry lint open.json --fix --yes --json").value();
    assert_eq!((&again["closed"], bench.read("open.json")), (&json!([]), once));
    bench.ok("registry sign open.json --key op.key --out signed.json --force");
}

#[test]
fn the_schema_is_json_and_names_the_format() {
    let bench = Bench::new();
    let schema = bench.run("registry schema").value();
    assert!(schema.to_string().contains("countersign-registry-1"));
    assert_eq!(bench.run("registry schema --json").value(), schema);
}

#[test]
fn show_reads_drafts_and_signed_registries_and_believes_neither() {
    let bench = desk::open();
    let draft = bench.ok("registry show draft.json");
    assert!(draft.starts_with("registry version 1, a draft"), "{draft}");
    assert!(
        draft.contains("agent support-bot") && draft.contains("tool desk:refund (money): needs an approval")
    );
    let signed = bench.ok("registry show reg.json");
    assert!(signed.contains("not verified here") && signed.contains("\nexpires "), "{signed}");
    let report = bench.run("registry show reg.json --json").value();
    assert_eq!((report["verified"].as_bool(), report["signed"].as_bool()), (Some(false), Some(true)));
    assert_eq!(report["registry"]["agents"].as_array().unwrap().len(), 2);
    bench.write("noise", "[");
    bench.fails("registry show noise", 1, "JSON_UNEXPECTED_END");
    bench.write("noise", "{\"payload\":\"x\"}");
    bench.fails("registry show noise", 1, "ENVELOPE_MALFORMED");
}

#[test]
fn diff_lists_every_change() {
    let bench = desk::open();
    let mut next = desk::draft();
    next["version"] = json!(2);
    next["tools"][1]["approval"] = json!("not_required");
    next["agents"].as_array_mut().unwrap().pop();
    next["revoked"] = json!({"agents": ["reader"]});
    bench.write("next.json", next.to_string());
    let text = bench.ok("registry diff reg.json next.json");
    for line in [
        "version 1 -> 2",
        "- agent reader",
        "~ tool desk:refund",
        "    approval: \"required\" -> \"not_required\" (loosens)",
        "+ revoked agent reader",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    assert_eq!(text.lines().count(), 5, "{text}");
    let report = bench.run("registry diff reg.json next.json --json").value();
    assert_eq!(report["changes"].as_array().unwrap().len(), 3);
    assert!(bench.ok("registry diff reg.json draft.json").contains("no other change"));
}

#[test]
fn revoke_writes_and_signs_the_next_version() {
    let bench = desk::open();
    bench.ok("registry revoke reg.json --agent reader --key op.key --ttl 1d --out next.json");
    let report = bench.run("registry verify next.json --trust-root root.json --json").value();
    assert_eq!(report["version"], 2);
    assert!(bench.ok("registry diff reg.json next.json").contains("+ revoked agent reader"));
    bench.fails("registry revoke reg.json --agent reader --key op.key --out next.json", 1, "FILE_EXISTS");
    bench.fails(
        "registry revoke reg.json --agent nobody --key op.key --out x.json",
        1,
        "AGENT_NOT_REGISTERED",
    );
    bench.fails("registry revoke reg.json --key op.key --out x.json", 2, "USAGE");
    bench.ok("registry revoke reg.json --revoke-key gate-1 --key op.key --out keyless.json");
    assert!(bench.ok("registry show keyless.json").contains("revoked key gate-1"));
}

#[test]
fn revoke_signs_nothing_that_its_signer_did_not_sign_before() {
    let bench = desk::open();
    bench.ok("keys generate --kind ed25519 --out eve.key --public-out eve.pub");
    bench.ok("registry sign draft.json --key eve.key --out forged.json");
    bench.fails(
        "registry revoke forged.json --agent reader --key op.key --out x.json",
        3,
        "ENVELOPE_THRESHOLD",
    );
    bench.fails(
        "registry revoke forged.json --agent reader --key eve.key --trust-root root.json --out x.json",
        3,
        "ENVELOPE_THRESHOLD",
    );
}

#[test]
fn sign_needs_a_fit_key_and_a_free_file() {
    let bench = desk::open();
    bench.fails("registry sign draft.json --key op.key --out reg.json", 1, "FILE_EXISTS");
    bench.fails("registry sign draft.json --key gate.key --out x.json", 1, "KEY_FILE_KIND");
    bench.fails("registry sign draft.json --key op.pub --out x.json", 1, "KEY_FILE_KIND");
    bench.fails("registry sign draft.json --key none.key --out x.json", 1, "KEY_FILE_MISSING");
    bench.fails("registry sign draft.json --out x.json", 2, "USAGE");
    bench.fails("registry sign draft.json --key op.key --out no/such/x.json", 1, "FILE_UNWRITABLE");
    #[cfg(unix)]
    {
        bench.mode("op.key", 0o640);
        bench.fails("registry sign draft.json --key op.key --out x.json", 1, "KEY_FILE_TOO_OPEN");
    }
}

#[test]
fn verify_needs_a_fit_trust_root_and_mark() {
    let bench = desk::open();
    bench.fails("registry verify missing.json --trust-root root.json", 1, "FILE_MISSING");
    bench.fails("registry verify reg.json --trust-root missing.json", 1, "FILE_MISSING");
    bench.fails("registry verify reg.json --trust-root reg.json", 1, "ROOT_MALFORMED");
    bench.ok(&format!("{VERIFY} --state none.state"));
    assert!(!bench.path("none.state").exists());
    bench.write("bad.state", "{}");
    bench.fails(&format!("{VERIFY} --state bad.state"), 1, "REGISTRY_MARK_CORRUPT");
    let large = std::fs::File::create(bench.path("large.json")).unwrap();
    large.set_len(65 << 20).unwrap();
    bench.fails("registry verify reg.json --trust-root root.json --max-age 5", 2, "USAGE");
    let run = bench.run("registry verify large.json --trust-root root.json");
    assert_eq!((run.code, run.err.starts_with("error FILE_TOO_LARGE: ")), (1, true), "{run:?}");
}

/// The desk's draft, with a refund that needs no approval up to this amount.
fn branched(most: u32) -> Value {
    let mut draft = desk::draft();
    draft["tools"][1]["approval"] =
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "min": 0, "max": most}]]});
    draft
}

#[test]
fn branches_are_shown_in_words() {
    let bench = desk::open();
    bench.write("branched.json", branched(20).to_string());
    let words = "no approval if /amount is from 0 to 20";
    assert!(bench.ok("registry show branched.json").contains(&format!("\n  {words}\n")));
    let line = "note LINT_APPROVAL_BRANCH: `desk:refund` needs no approval if /amount is from 0 to 20";
    let lint = bench.ok("registry lint branched.json --strict");
    assert!(lint.lines().any(|shown| shown == line), "{lint}");
    let mut never = branched(20);
    never["tools"][1]["approval"]["unless"][0][0]["at"] = json!("/sum");
    bench.write("never.json", never.to_string());
    let run = bench.run("registry lint never.json --strict");
    assert!(
        run.code == 3 && run.out.contains("\nwarning LINT_BRANCH_NEVER: branch 1 of `desk:refund`"),
        "{run:?}"
    );
}

#[test]
fn diff_tells_a_looser_rule_from_a_tighter_one() {
    let bench = desk::open();
    bench.write("small.json", branched(20).to_string());
    bench.write("large.json", branched(50).to_string());
    let diff = |old: &str, new: &str| bench.ok(&format!("registry diff {old} {new}"));
    let text = diff("draft.json", "small.json");
    let shown = "    approval: \"required\" -> \"required\" (loosens)\n      + no approval if /amount is from 0 to 20";
    assert!(text.contains(shown), "{text}");
    assert!(diff("small.json", "large.json").contains("(loosens)"));
    let text = diff("large.json", "small.json");
    assert!(
        text.contains("(tightens)") && text.contains("      - no approval if /amount is from 0 to 50"),
        "{text}"
    );
    let report = bench.run("registry diff small.json draft.json --json").value();
    assert_eq!(report["changes"][0]["members"]["approval"]["effect"], "tightens");
}
