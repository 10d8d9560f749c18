use serde_json::{Value, json};

use crate::bench::Bench;

fn look() -> Value {
    json!({
        "protocol": "PIC/1.0", "intent": "opening hours", "impact": "read", "provenance": [], "claims": [],
        "action": {"tool": "docs_search", "args": {"q": "hours"}},
    })
}

fn transfer() -> Value {
    json!({
        "protocol": "PIC/1.0", "intent": "pay", "impact": "money",
        "provenance": [{"id": "mail", "trust": "trusted"}],
        "claims": [{"text": "it is due", "evidence": ["mail"]}],
        "action": {"tool": "pay", "args": {}},
    })
}

/// Writes a suite of these vectors, each with its entry in the manifest.
fn suite(bench: &Bench, vectors: &[Value]) {
    std::fs::create_dir_all(bench.path("suite/v")).unwrap();
    std::fs::create_dir_all(bench.path("suite/artifacts/below")).unwrap();
    bench.write("suite/artifacts/below/a.txt", "a");
    let entry = |vector: &Value| {
        let id = vector["id"].as_str().unwrap();
        bench.write(&format!("suite/v/{id}.json"), vector.to_string());
        let mut entry = json!({
            "id": id, "file": format!("v/{id}.json"), "expected": vector["expected"],
            "mode": vector.get("mode").cloned().unwrap_or_else(|| json!("core")),
        });
        if let Some(code) = vector.get("expected_error_code") {
            entry["expected_error_code"] = code.clone();
        }
        entry
    };
    let entries: Vec<_> = vectors.iter().map(entry).collect();
    manifest(bench, &json!({"version": "conformance/v0.1", "vectors": entries}));
}

fn manifest(bench: &Bench, manifest: &Value) {
    std::fs::create_dir_all(bench.path("suite")).unwrap();
    bench.write("suite/manifest.json", manifest.to_string());
}

/// Runs the suite and returns the exit code and the envelope.
fn run(bench: &Bench, profile: &str, more: &str) -> (i32, Value) {
    let run = bench.run(&format!("proposal conformance suite --profile {profile} --json {more}"));
    assert_eq!(run.err, "", "{run:?}");
    (run.code, serde_json::from_str(&run.out).unwrap())
}

/// Runs one vector alone. Returns reason code, verdict and code.
fn one(profile: &str, vector: Value) -> (Value, Value, Value) {
    let bench = Bench::new();
    suite(&bench, &[vector]);
    let (_, report) = run(&bench, profile, "");
    let result = &report["results"][0];
    assert_eq!(result["passed"], result["reason_code"].is_null(), "{report}");
    (result["reason_code"].clone(), result["verdict"].clone(), result["code"].clone())
}

fn core(proposal: Value, expected: &str, code: Option<&str>) -> Value {
    let mut vector = json!({"id": "a", "expected": expected, "proposal": proposal});
    if let Some(code) = code {
        vector["expected_error_code"] = code.into();
    }
    vector
}

fn with(mut vector: Value, name: &str, value: Value) -> Value {
    vector[name] = value;
    vector
}

#[test]
fn a_suite_gives_one_result_for_each_vector() {
    let bench = Bench::new();
    let vectors = [
        with(core(look(), "allow", None), "id", json!("good")),
        with(core(transfer(), "block", Some("PIC_VERIFIER_FAILED")), "id", json!("refused")),
        with(core(transfer(), "allow", None), "id", json!("wrong-verdict")),
        with(core(look(), "block", Some("PIC_VERIFIER_FAILED")), "id", json!("wrongly-blocked")),
        with(core(json!({}), "block", Some("PIC_VERIFIER_FAILED")), "id", json!("wrong-code")),
    ];
    suite(&bench, &vectors);
    let (code, report) = run(&bench, "pic-0.9", "");
    assert_eq!((code, &report["exit_code"]), (1, &json!(1)));
    assert_eq!(report["manifest_version"], "conformance/v0.1");
    assert_eq!(report["profile"], "pic-0.9");
    let selection = json!({"total_in_manifest": 5, "selected": 5, "filter_modes": [], "filter_ids": []});
    assert_eq!(report["selection"], selection);
    let summary = json!({"total": 5, "passed": 2, "failed": 3, "all_passed": false, "diagnostic": null, "message": null});
    assert_eq!(report["summary"], summary);
    let told: Vec<_> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            ["id", "reason_code", "message", "verdict", "code", "got"]
                .map(|name| one[name].as_str().unwrap_or("-"))
        })
        .collect();
    let failed = "PIC_VERIFIER_FAILED";
    assert_eq!(
        told,
        [
            ["good", "-", "-", "allow", "-", "allow"],
            ["refused", "-", "-", "block", failed, failed],
            [
                "wrong-verdict",
                "verdict_mismatch",
                "expected allow but got block (PIC_VERIFIER_FAILED)",
                "block",
                failed,
                failed
            ],
            [
                "wrongly-blocked",
                "verdict_mismatch",
                "expected block (PIC_VERIFIER_FAILED) but got allow",
                "allow",
                "-",
                "allow"
            ],
            [
                "wrong-code",
                "error_code_mismatch",
                "expected PIC_VERIFIER_FAILED but got PIC_SCHEMA_INVALID",
                "block",
                "PIC_SCHEMA_INVALID",
                "PIC_SCHEMA_INVALID"
            ],
        ]
    );
    assert_eq!(report["results"][1]["detail"], "/claims: one must cite an input that is trusted");
    let text = bench.run("proposal conformance suite --profile pic-0.9");
    assert_eq!((text.code, text.err.as_str()), (1, ""));
    assert_eq!((text.out.matches("PASS  ").count(), text.out.matches("FAIL  ").count()), (2, 3), "{text:?}");
    assert!(text.out.ends_with("2 of 5 passed under `pic-0.9`, 3 failed\n"), "{text:?}");
}

#[test]
fn filters_select_by_id_or_mode() {
    let bench = Bench::new();
    let form = json!({
        "id": "form", "mode": "canonicalization", "expected": "canonical_match", "input": {"b": 1.0, "a": "\u{e9}"},
        "expected_canonical_bytes_hex": "7b2261223a22c3a9222c2262223a317d",
        "expected_sha256_hex": sha256("{\"a\":\"\u{e9}\",\"b\":1}"),
    });
    let look = |id: &str| with(core(look(), "allow", None), "id", json!(id));
    suite(&bench, &[form, look("x"), look("y")]);
    let ids = |more: &str| {
        let (code, report) = run(&bench, "strict", more);
        assert_eq!(code, 0, "{report}");
        let ids: Vec<_> = report["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(report["selection"]["selected"], ids.len());
        ids
    };
    assert_eq!(ids(""), ["form", "x", "y"]);
    assert_eq!(ids("--filter-mode canonicalization"), ["form"]);
    assert_eq!(ids("--filter-id y --filter-mode canonicalization"), ["form", "y"]);
    assert_eq!(ids("--filter-mode core --filter-mode canonicalization"), ["form", "x", "y"]);
    for mode in ["other", "Core", "trust-sanitization", "core,evidence"] {
        let filter = format!("proposal conformance suite --profile strict --filter-mode {mode}");
        bench.fails(&filter, 2, "USAGE");
    }
    let (code, report) = run(&bench, "strict", "--filter-mode trust_sanitization");
    assert_eq!((code, &report["selection"]["filter_modes"]), (2, &json!(["trust_sanitization"])));
    let (code, report) = run(&bench, "strict", "--filter-id z");
    assert_eq!((code, &report["summary"]["diagnostic"]), (2, &json!("no_vectors_selected")));
    assert_eq!((&report["exit_code"], &report["summary"]["all_passed"]), (&json!(2), &json!(false)));
    let text = bench.run("proposal conformance suite --profile strict --filter-id z");
    assert!(text.code == 2 && text.err.starts_with("error NO_VECTORS_SELECTED: "), "{text:?}");
    manifest(&bench, &json!({"version": "v", "vectors": []}));
    assert_eq!(run(&bench, "strict", "").0, 2, "a suite of nothing shows nothing");
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_manifest_with_a_fault_is_no_suite() {
    let bench = Bench::new();
    let entry = json!({"id": "a", "file": "v/a.json", "mode": "core", "expected": "allow"});
    let refused = |text: &str| {
        std::fs::create_dir_all(bench.path("suite")).unwrap();
        bench.write("suite/manifest.json", text);
        let (code, report) = run(&bench, "strict", "");
        assert_eq!((code, &report["exit_code"], &report["results"]), (2, &json!(2), &json!([])), "{text}");
        assert_eq!(report["summary"]["diagnostic"], "manifest_invalid", "{text}");
        assert!(report["summary"]["message"].is_string(), "{text}");
        let text = bench.run("proposal conformance suite --profile strict");
        assert!(text.code == 2 && text.err.starts_with("error MANIFEST_INVALID: "), "{text:?}");
    };
    let of = |entries: Value| json!({"version": "v", "vectors": entries}).to_string();
    let changed = |name: &str, value: Value| of(json!([with(entry.clone(), name, value)]));
    for text in [
        "{".to_owned(),
        "[]".to_owned(),
        json!({"version": "", "vectors": []}).to_string(),
        json!({"vectors": []}).to_string(),
        json!({"version": "v", "vectors": [], "more": 1}).to_string(),
        of(json!([entry.clone(), entry.clone()])),
        of(json!([1])),
        changed("more", json!(1)),
        changed("mode", json!("other")),
        changed("expected", json!("block")),
        changed("expected", json!("canonical_match")),
        changed("expected_error_code", json!("PIC_VERIFIER_FAILED")),
        changed("matrix_id", json!("x")),
        changed("id", json!("")),
        changed("file", json!("")),
        changed("file", json!("/etc/passwd")),
        changed("file", json!("../a.json")),
        changed("file", json!("v/../../a.json")),
        changed("file", json!("v\\a.json")),
        of(
            json!([{"id": "a", "file": "v/a.json", "mode": "core", "expected": "block", "expected_error_code": "NO"}]),
        ),
    ] {
        refused(&text);
    }
}

#[test]
fn a_manifest_that_is_not_there_is_no_suite() {
    let bench = Bench::new();
    let (code, report) = run(&bench, "strict", "");
    assert_eq!((code, &report["summary"]["diagnostic"]), (2, &json!("manifest_invalid")));
}

#[test]
fn a_path_that_cannot_be_read_is_spelled_out_once() {
    let bench = Bench::new();
    let none = bench.run_args(&["proposal", "conformance", "a\u{202e}b", "--profile", "strict"], "");
    assert_eq!(none.code, 2);
    assert!(none.err.starts_with("error MANIFEST_INVALID: `a\\u{202e}b/manifest.json`: "), "{none:?}");
    let entry = json!({"id": "x", "file": "v/\u{202e}.json", "mode": "core", "expected": "allow"});
    manifest(&bench, &json!({"version": "v", "vectors": [entry]}));
    let run = bench.run("proposal conformance suite --profile strict");
    assert!(run.out.starts_with("FAIL  x  manifest_drift: `suite/v/\\u{202e}.json`: "), "{run:?}");
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_out_of_a_suite() {
    use std::os::unix::fs::symlink;
    let bench = Bench::new();
    let mut proposal = look();
    proposal["evidence"] = json!([{"id": "i", "type": "hash", "ref": "file://a.txt", "sha256": sha256("a")}]);
    let options = json!({"verify_evidence": true, "evidence_root_dir": "conformance/artifacts/below"});
    let vector = with(core(proposal, "allow", None), "mode", json!("evidence"));
    suite(&bench, &[with(vector, "options", options)]);
    let reason = || run(&bench, "strict", "").1["results"][0]["reason_code"].clone();
    assert_eq!(reason(), Value::Null);
    for inner in ["v/a.json", "v", "artifacts", "artifacts/below", "manifest.json"] {
        let (inside, outside) = (bench.path(&format!("suite/{inner}")), bench.path("outside"));
        std::fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        if inner == "manifest.json" {
            let (code, report) = run(&bench, "strict", "");
            assert_eq!((code, &report["summary"]["diagnostic"]), (2, &json!("manifest_invalid")));
        } else {
            assert_eq!(reason(), "vector_invalid", "{inner}");
        }
        std::fs::remove_file(&inside).unwrap();
        std::fs::rename(&outside, &inside).unwrap();
    }
    assert_eq!(reason(), Value::Null);
    // The suite itself may be reached through a symbolic link.
    symlink(bench.path("suite"), bench.path("other")).unwrap();
    assert_eq!(bench.run("proposal conformance other --profile strict").code, 0);
}

#[test]
fn a_vector_that_is_not_the_manifests_is_not_run() {
    let bench = Bench::new();
    suite(&bench, &[core(look(), "allow", None)]);
    let reason = |text: &str| {
        bench.write("suite/v/a.json", text);
        let (code, report) = run(&bench, "strict", "");
        assert_eq!(code, 1, "{report}");
        assert_eq!(report["results"][0]["verdict"], Value::Null);
        report["results"][0]["reason_code"].as_str().unwrap().to_owned()
    };
    let vector = core(look(), "allow", None);
    assert_eq!(reason(&with(vector.clone(), "id", json!("b")).to_string()), "manifest_drift");
    assert_eq!(reason(&with(vector.clone(), "mode", json!("evidence")).to_string()), "manifest_drift");
    assert_eq!(reason(&core(look(), "block", Some("PIC_SCHEMA_INVALID")).to_string()), "manifest_drift");
    assert_eq!(
        reason(&with(vector.clone(), "expected_error_code", json!("PIC_X")).to_string()),
        "manifest_drift"
    );
    assert_eq!(reason("[]"), "vector_invalid");
    assert_eq!(reason("{"), "vector_invalid");
    assert_eq!(reason(&json!({"id": "a", "expected": "allow"}).to_string()), "vector_invalid");
    assert_eq!(reason(&with(vector.clone(), "profile", json!("pic-0.9")).to_string()), "vector_invalid");
    assert_eq!(reason(&with(vector.clone(), "proposal_text", json!("{}")).to_string()), "vector_invalid");
    assert_eq!(reason(&format!("{vector}{}", " ".repeat(8 << 20))), "vector_invalid");
    for (name, value) in [
        ("strict_trust", json!("false")),
        ("key_resolver", json!(null)),
        ("proposal_base_dir", json!("/")),
        ("evidence_root_dir", json!("/etc")),
        ("evidence_root_dir", json!("conformance")),
        ("evidence_root_dir", json!("conformance/artifacts/..")),
        ("evidence_root_dir", json!("conformance/artifacts_of_another")),
        ("evidence_root_dir", json!(null)),
    ] {
        assert_eq!(
            reason(&with(vector.clone(), "options", json!({ name: value })).to_string()),
            "vector_invalid",
            "{name}"
        );
    }
    std::fs::remove_file(bench.path("suite/v/a.json")).unwrap();
    let (_, report) = run(&bench, "strict", "");
    assert_eq!(report["results"][0]["reason_code"], "manifest_drift");
}

#[test]
fn canonical_forms_are_compared_byte_by_byte() {
    let form = |input: &str, hex: &str, sha256: &str, expected: &str| {
        let text = format!(
            r#"{{"id":"a","mode":"canonicalization","expected":"{expected}","input":{input},
            "expected_canonical_bytes_hex":"{hex}","expected_sha256_hex":"{sha256}"}}"#
        );
        let bench = Bench::new();
        suite(&bench, &[json!({"id": "a", "mode": "canonicalization", "expected": expected})]);
        bench.write("suite/v/a.json", text);
        run(&bench, "pic-0.9", "").1["results"][0]["reason_code"].clone()
    };
    let good = sha256("[1]");
    assert_eq!(form("[1.0]", "5b315d", &good, "canonical_match"), Value::Null);
    assert_eq!(form("[2]", "5b315d", &good, "canonical_match"), "canonicalization_mismatch");
    assert_eq!(form("[1]", "5b315d", &sha256("[2]"), "canonical_match"), "canonicalization_mismatch");
    assert_eq!(form("[\"\\ud800\"]", "", "", "canonical_match"), "canonicalization_mismatch");
    assert_eq!(form("[\"\\ud800\"]", "", "", "canonical_reject"), Value::Null);
    assert_eq!(form("[9007199254740992]", "", "", "canonical_reject"), Value::Null);
    assert_eq!(form("[1]", "", "", "canonical_reject"), "canonicalization_mismatch");
}

#[test]
fn a_vector_cannot_weaken_the_strict_profile() {
    let weak = json!({"strict_trust": false, "verify_evidence": false});
    let vector = |expected: &str, code| with(core(transfer(), expected, code), "options", weak.clone());
    assert_eq!(one("pic-0.9", vector("allow", None)).0, Value::Null);
    assert_eq!(one("pic-0.8", vector("allow", None)).0, Value::Null);
    assert_eq!(one("strict", vector("block", Some("PIC_EVIDENCE_REQUIRED"))).0, Value::Null);
    // Without options, each profile follows its reference version.
    assert_eq!(one("pic-0.8", core(transfer(), "allow", None)).0, Value::Null);
    assert_eq!(one("pic-0.9", core(transfer(), "block", Some("PIC_VERIFIER_FAILED"))).0, Value::Null);
}

#[test]
fn unusable_keyring_or_policy_is_a_verdict_of_its_own() {
    let keyring = |expected: &str| with(core(look(), expected, None), "keyring_text", json!("{\"a\":\"b\"}"));
    assert_eq!(
        one("pic-0.9", keyring("keyring_refused")),
        (Value::Null, json!("keyring_refused"), json!("KEY_MALFORMED"))
    );
    assert_eq!(one("pic-0.9", keyring("allow")).0, "verdict_mismatch");
    let policy = |expected: &str| with(core(look(), expected, None), "options", json!({"policy": {"x": 1}}));
    assert_eq!(
        one("pic-0.9", policy("policy_refused")),
        (Value::Null, json!("policy_refused"), json!("POLICY_MALFORMED"))
    );
}

#[test]
fn live_calls_are_bound_and_may_need_a_proposal() {
    let policy = json!({"impact_by_tool": {"pay": "money"}});
    let options = json!({"policy": policy, "expected_tool": "pay", "tool_name": "pay", "limits": true});
    let vector = |expected: &str, code: Option<&str>| {
        let mut vector = with(core(json!(null), expected, code), "options", options.clone());
        vector.as_object_mut().unwrap().remove("proposal");
        with(vector, "live_args", json!({"a": 1, "__pic": {}, "__pic_request_id": "r"}))
    };
    let block = |code: &'static str| vector("block", Some(code));
    assert_eq!(one("pic-0.9", block("PIC_INVALID_REQUEST")).0, Value::Null);
    assert_eq!(one("pic-0.9", with(block("PIC_INVALID_REQUEST"), "proposal", json!(null))).0, Value::Null);
    assert_eq!(one("pic-0.9", with(block("PIC_INVALID_REQUEST"), "proposal", json!([]))).0, Value::Null);
    assert_eq!(
        one("pic-0.9", with(vector("allow", None), "options", json!({"expected_tool": "other"}))).0,
        Value::Null
    );
    let mut other = transfer();
    other["action"]["args"] = json!({"a": 2});
    assert_eq!(
        one("pic-0.9", with(block("PIC_ARG_BINDING_MISMATCH"), "proposal", other.clone())).0,
        Value::Null
    );
    other["action"]["args"] = json!({"a": 1.0});
    // The arguments match, so the next rule refuses the call.
    assert_eq!(one("pic-0.9", with(block("PIC_VERIFIER_FAILED"), "proposal", other.clone())).0, Value::Null);
    let mut unreadable = with(block("PIC_ARG_BINDING_MISMATCH"), "proposal", other);
    unreadable.as_object_mut().unwrap().remove("live_args");
    assert_eq!(
        one("pic-0.9", with(unreadable, "live_args_text", json!("{\"a\":9007199254740993}"))).0,
        Value::Null
    );
    let array = core(json!([]), "block", Some("PIC_SCHEMA_INVALID"));
    assert_eq!(one("pic-0.9", array).0, Value::Null, "without a call there is nothing that lacks a proposal");
}

#[test]
fn evidence_vectors_bring_everything_along() {
    let hash = json!({"id": "i", "type": "hash", "ref": "file://a.txt", "sha256": sha256("a")});
    let sig = json!({"id": "i", "type": "sig", "ref": "inline:x", "payload": "x", "alg": "ed25519", "signature": "", "key_id": "k"});
    let vector = |entry: &Value, options: Value, expected: &str, code: Option<&str>| {
        let mut proposal = look();
        proposal["evidence"] = json!([entry]);
        let vector = with(core(proposal, expected, code), "mode", json!("evidence"));
        with(vector, "options", options)
    };
    let below = json!({"verify_evidence": true, "evidence_root_dir": "conformance/artifacts/below"});
    let top = json!({"verify_evidence": true, "evidence_root_dir": "conformance/artifacts"});
    let failed = Some("PIC_EVIDENCE_FAILED");
    assert_eq!(one("pic-0.9", vector(&hash, below.clone(), "allow", None)).0, Value::Null);
    assert_eq!(one("strict", vector(&hash, below, "allow", None)).0, Value::Null);
    assert_eq!(one("pic-0.9", vector(&hash, top.clone(), "block", failed)).0, Value::Null);
    let nowhere = json!({"verify_evidence": true, "evidence_root_dir": "conformance/artifacts/nowhere"});
    assert_eq!(one("pic-0.9", vector(&hash, nowhere, "block", failed)).0, Value::Null);
    let invalid = |vector: Value| assert_eq!(one("pic-0.9", vector).0, "vector_invalid");
    invalid(vector(&hash, json!({"verify_evidence": true}), "allow", None));
    invalid(vector(&hash, json!({"evidence_root_dir": "conformance/artifacts"}), "allow", None));
    invalid(vector(&sig, top.clone(), "block", failed));
    let keyed = with(vector(&sig, top, "block", failed), "embedded_keyring", json!({"trusted_keys": {}}));
    assert_eq!(one("pic-0.9", keyed).0, Value::Null);
}

#[test]
fn limits_apply_only_if_the_vector_sets_them() {
    let mut long = look();
    long["provenance"] = (0..65).map(|n| json!({"id": format!("i{n}"), "trust": "untrusted"})).collect();
    assert_eq!(one("pic-0.9", core(long.clone(), "allow", None)).0, Value::Null);
    let limited = |limits: bool, expected: &str, code: Option<&str>| {
        one("pic-0.9", with(core(long.clone(), expected, code), "options", json!({"limits": limits})))
    };
    assert_eq!(limited(false, "allow", None).0, Value::Null);
    assert_eq!(limited(true, "block", Some("PIC_LIMIT_EXCEEDED")).0, Value::Null);
    let own =
        with(core(look(), "block", Some("PIC_LIMIT_EXCEEDED")), "limits", json!({"proposal_bytes": 20}));
    assert_eq!(one("pic-0.9", own).0, Value::Null);
    assert_eq!(
        one("pic-0.9", with(core(look(), "allow", None), "limits", json!({"bytes": 20}))).0,
        "vector_invalid"
    );
}

#[test]
fn trust_matrix_cell_must_match_its_name() {
    let options = json!({"strict_trust": false, "verify_evidence": true});
    let vector = json!({
        "id": "trust-base-strict-f-verify-t", "mode": "trust_sanitization", "expected": "allow",
        "proposal": transfer(), "options": options,
    });
    let reason = |vector: &Value, file: &str| {
        let bench = Bench::new();
        std::fs::create_dir_all(bench.path("suite/trust_sanitization")).unwrap();
        let file = format!("trust_sanitization/{file}.json");
        bench.write(&format!("suite/{file}"), vector.to_string());
        let entry = json!({
            "id": vector["id"], "file": file, "mode": "trust_sanitization", "expected": "allow", "matrix_id": "base",
        });
        manifest(&bench, &json!({"version": "v", "vectors": [entry]}));
        run(&bench, "pic-0.9", "").1["results"][0]["reason_code"].clone()
    };
    let file = "base__strict-f__verify-t";
    assert_eq!(reason(&vector, file), Value::Null);
    assert_eq!(reason(&vector, "base__strict-t__verify-t"), "vector_invalid");
    for (name, value) in [
        ("options", json!({"strict_trust": true, "verify_evidence": true})),
        ("options", json!({"verify_evidence": true})),
        ("options", Value::Null),
        ("embedded_keyring", json!({"trusted_keys": {}})),
        ("id", json!("trust-base-strict-f-verify-f")),
    ] {
        assert_eq!(reason(&with(vector.clone(), name, value), file), "vector_invalid", "{name}");
    }
    let mut signed = vector;
    signed["proposal"]["evidence"] = json!([{
        "id": "mail", "type": "sig", "ref": "x", "payload": "x", "alg": "ed25519", "signature": "", "key_id": "k",
    }]);
    assert_eq!(reason(&signed, file), "vector_invalid");
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn the_public_suites_pass() {
    let folder =
        std::env::var("COUNTERSIGN_VECTORS").expect("COUNTERSIGN_VECTORS names the folder of public suites");
    let bench = Bench::new();
    for (suite, profile, count) in
        [("upstream-0.8.2", "pic-0.8", 72), ("upstream-0.9-partial", "pic-0.9", 14)]
    {
        let path = format!("{folder}/pic-conformance/{suite}");
        let run = bench.run_args(&["proposal", "conformance", &path, "--profile", profile, "--json"], "");
        assert_eq!(run.code, 0, "{suite}: {run:?}");
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(
            (&report["summary"]["passed"], &report["summary"]["failed"]),
            (&json!(count), &json!(0)),
            "{suite}"
        );
    }
}
