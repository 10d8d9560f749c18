//! The public vectors of the library crates, run through the command line.

use std::path::Path;

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Returns the vectors of one folder, with their names.
fn vectors(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(folder);
    let mut found: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (path.display().to_string(), vector)
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Returns a text that is written out, or given as `repeat` and `times`.
fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    let times = usize::try_from(value["times"].as_u64().unwrap()).unwrap();
    value["repeat"].as_str().unwrap().repeat(times)
}

/// Writes a vector's input to `input.json` and returns the command that reads it under the vector's recipe.
fn put_input(bench: &Bench, vector: &Value) -> Vec<String> {
    let bytes = match vector.get("input_base64") {
        Some(base64) => Base64::decode_vec(base64.as_str().unwrap()).unwrap(),
        None => vector["input"].as_str().unwrap().as_bytes().to_vec(),
    };
    bench.write("input.json", bytes);
    let recipe = vector["recipe"].as_str().unwrap();
    ["json", "canonicalize", "input.json", "--recipe", recipe].map(str::to_owned).into()
}

#[test]
fn accepted_json_is_written_in_canonical_form() {
    let bench = Bench::new();
    for (name, vector) in vectors("canonical-json/accept") {
        let mut args = put_input(&bench, &vector);
        let run = bench.run_args(&args, "");
        assert_eq!((run.code, run.out.as_str()), (0, vector["canonical"].as_str().unwrap()), "{name}");
        args[1] = "digest".to_owned();
        assert_eq!(bench.run_args(&args, "").out.trim_end(), vector["sha256"], "{name}");
    }
}

#[test]
fn refused_json_is_reported_with_code_and_place() {
    let bench = Bench::new();
    for (name, vector) in vectors("canonical-json/reject") {
        let args = put_input(&bench, &vector);
        let run = bench.run_args(&args, "");
        let expected = format!("error {}: at byte {}: ", vector["code"].as_str().unwrap(), vector["offset"]);
        assert!(run.code == 1 && run.out.is_empty() && run.err.starts_with(&expected), "{name}: {run:?}");
    }
}

#[test]
fn goals_are_pinned_or_refused_per_vector() {
    let bench = Bench::new();
    // why: the command line pins at the current time. The library's tests cover vectors that need another time.
    let of_time = ["ASK_EXPIRED", "ASK_NOT_YET", "ASK_TTL"];
    let mut refused = 0;
    for (name, vector) in vectors("pinned-ask/accept").into_iter().chain(vectors("pinned-ask/reject")) {
        let code = vector["code"].as_str();
        if code.is_some_and(|code| of_time.contains(&code)) {
            continue;
        }
        let session = vector["session"].as_str().unwrap();
        let pin = bench.run_args(
            &["ask", "pin", "--session", session, "--ttl", "60s", "--goal", "-"],
            &text(&vector["goal"]),
        );
        refused += u32::from(code.is_some());
        if let Some(code @ ("ASK_EMPTY" | "ASK_TOO_LONG")) = code {
            assert!(pin.err.starts_with(&format!("error {code}: ")), "{name}: {pin:?}");
            continue;
        }
        bench.write("pin.json", &pin.out);
        if let Some(digest) = vector.get("digest") {
            assert_eq!(&serde_json::from_str::<Value>(&pin.out).unwrap()["digest"], digest, "{name}");
        }
        let session = vector["restated_session"].as_str().unwrap();
        let verified = bench.run_args(
            &["ask", "verify", "pin.json", "--session", session, "--goal", "-"],
            &text(&vector["restated"]),
        );
        match code {
            None => assert_eq!(verified.code, 0, "{name}: {verified:?}"),
            Some(code) => {
                assert_eq!(verified.code, 3, "{name}: {verified:?}");
                assert!(verified.err.starts_with(&format!("error {code}: ")), "{name}: {verified:?}");
            }
        }
    }
    assert!(refused >= 30, "{refused} refusals");
}

#[test]
fn drafts_are_signed_or_refused_per_vector() {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out op.key");
    for (name, vector) in vectors("registry/accept").into_iter().chain(vectors("registry/reject")) {
        let Some(draft) = vector.get("draft") else { continue };
        bench.write("draft.json", draft.to_string());
        let run = bench.run("registry sign draft.json --key op.key --ttl 1d --out registry.json --force");
        match vector["code"].as_str() {
            None => assert_eq!(run.code, 0, "{name}: {run:?}"),
            Some(code) => {
                assert_ne!(run.code, 0, "{name}: {run:?}");
                assert!(run.err.starts_with(&format!("error {code}: ")), "{name}: {run:?}");
            }
        }
    }
}

#[test]
fn constraints_hold_at_the_gate_per_vector() {
    let bench = Bench::new();
    let cases: Vec<(String, Value)> = vectors("registry/accept")
        .into_iter()
        .chain(vectors("registry/reject"))
        .filter(|(_, vector)| vector.get("constraint").is_some())
        // The other constraints cannot be in a registry; the library's test covers them.
        .filter(|(_, vector)| vector.get("code").is_none_or(|code| code == "ARGS_CONSTRAINT"))
        .collect();
    let name = |number: usize| format!("tool_{number:03}");
    let tools: Vec<Value> = cases
        .iter()
        .enumerate()
        .map(|(number, (_, vector))| {
            json!({
                "server": "s", "name": name(number), "impact": "read", "approval": "not_required",
                "args_schema": { "type": "object" }, "constraints": [vector["constraint"]],
            })
        })
        .collect();
    let listed: Vec<Value> =
        (0..cases.len()).map(|number| json!({ "server": "s", "name": name(number) })).collect();
    let draft = json!({
        "format": "countersign-registry-1", "version": 1,
        "agents": [{
            "agent": "bot", "version": 1, "registered_by": "ops", "tools": listed, "output_tags": [],
            "max_session": "1h",
        }],
        "tools": tools,
        "revoked": { "agents": [], "keys": [], "snapshots": [] },
    });
    bench.write("draft.json", draft.to_string());
    bench.ok("keys generate --kind ed25519 --out op.key --public-out op.pub");
    bench.ok("keys trust --threshold 1 --out root.json op.pub");
    bench.ok("registry sign draft.json --key op.key --ttl 1d --out registry.json");
    let mut lines = String::new();
    for (number, (_, vector)) in cases.iter().enumerate() {
        let call = json!({
            "call_id": format!("c{number}"), "tool": name(number), "args": { "a": vector["argument"] },
        });
        lines.push_str(&format!("{call}\n"));
    }
    let args = [
        "check",
        "--registry",
        "registry.json",
        "--trust-root",
        "root.json",
        "--agent",
        "bot",
        "--no-record",
    ];
    let decisions = bench.run_args(&args, &lines).out;
    assert_eq!(decisions.lines().count(), cases.len());
    for (line, (name, vector)) in decisions.lines().zip(&cases) {
        let decision: Value = serde_json::from_str(line).unwrap();
        assert_eq!(decision.get("code"), vector.get("code"), "{name}: {line}");
    }
}

/// Writes a vector's files and returns the arguments of `proposal verify`, or `None` if files and options cannot express the
/// vector. `proposal conformance` covers vectors with limits or files that no operator can set.
fn put_proposal(bench: &Bench, vector: &Value) -> Option<Vec<String>> {
    let text = |value: &Value, name: &str| match value.get(format!("{name}_text")) {
        Some(text) => Some(text.as_str().unwrap().to_owned()),
        None => value.get(name).map(Value::to_string),
    };
    let mut args: Vec<String> =
        ["proposal", "verify", "proposal.json", "--json", "--debug"].map(str::to_owned).into();
    let mut add = |name: &str, value: &str| args.extend([format!("--{name}"), value.to_owned()]);
    bench.write("proposal.json", text(vector, "proposal")?);
    if vector.get("limits").is_some() {
        return None;
    }
    add("profile", vector["profile"].as_str().unwrap());
    add("now", vector["now"].as_str().unwrap());
    for (name, file, value) in [
        ("keyring", "keyring.json", text(vector, "keyring").or_else(|| text(vector, "embedded_keyring"))),
        ("policy", "policy.json", text(vector, "policy").or_else(|| text(&vector["options"], "policy"))),
        ("endorsed", "endorsed.json", text(vector, "endorsed")),
        ("trust-root", "trust_root.json", text(vector, "trust_root")),
        ("args", "args.json", text(&vector["call"], "args").or_else(|| text(vector, "live_args"))),
    ] {
        if let Some(value) = value {
            bench.write(file, value);
            add(name, file);
        }
    }
    if vector["options"].get("evidence_root_dir").is_some() {
        add("evidence-root", "artifacts");
    }
    for impact in vector.get("high").into_iter().flat_map(|high| high.as_array().unwrap()) {
        add("high", impact.as_str().unwrap());
    }
    if let Some(audience) = vector["audience"].as_str() {
        add("audience", audience);
    }
    for name in [
        "tool",
        "impact",
        "server",
        "call_id",
        "principal",
        "agent",
        "session",
        "registry_version",
        "ask",
        "plan",
    ] {
        let value = match &vector["call"][name] {
            Value::Null => continue,
            Value::String(value) => value.clone(),
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                value.to_string()
            }
        };
        add(&name.replace('_', "-"), &value);
    }
    if vector["options"]["verify_evidence"] == false {
        args.push("--no-verify-evidence".to_owned());
    }
    if vector["options"]["strict_trust"] == false {
        args.push("--legacy-trust".to_owned());
    }
    Some(args)
}

#[test]
fn proposals_are_allowed_or_refused_per_vector() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("artifacts")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/action-proposal/artifacts");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, bench.path("artifacts").join(path.file_name().unwrap())).unwrap();
    }
    let (mut told, mut refused) = (0, 0);
    for (name, vector) in
        vectors("action-proposal/accept").into_iter().chain(vectors("action-proposal/reject"))
    {
        let Some(args) = put_proposal(&bench, &vector) else { continue };
        let run = bench.run_args(&args, "");
        let report: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{name}: {run:?}"));
        told += 1;
        let code = vector.get("expected_error_code").and_then(Value::as_str);
        let exit = match (vector["expected"].as_str().unwrap(), code) {
            ("allow", _) => 0,
            ("keyring_refused", _) => 6,
            ("policy_refused", _) => 1,
            (_, Some("PIC_SCHEMA_INVALID" | "PIC_INVALID_REQUEST")) => 2,
            (_, Some("PIC_EVIDENCE_FAILED" | "PIC_EVIDENCE_REQUIRED")) => 4,
            _ => 3,
        };
        refused += u32::from(exit != 0);
        if run.code == 1 && exit != 1 {
            // Malformed JSON is a file that cannot be read.
            let came = report["error"]["code"].as_str().unwrap();
            assert!(came.starts_with("JSON_"), "{name}: {run:?}");
            continue;
        }
        assert_eq!(run.code, exit, "{name}: {run:?}");
        // A proposal in a file has no request that could be invalid.
        let code = code.map(|code| code.replace("PIC_INVALID_REQUEST", "PIC_SCHEMA_INVALID"));
        assert_eq!(report["error"]["code"].as_str(), code.as_deref(), "{name}: {run:?}");
        if let Some(place) = vector.get("place") {
            assert_eq!(&report["error"]["details"]["place"], place, "{name}: {run:?}");
        }
    }
    assert!(told >= 220 && refused * 10 >= told * 7, "{told} of them, {refused} refused");
}

#[test]
fn proposals_pass_as_a_conformance_suite_as_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/action-proposal");
    let bench = Bench::new();
    for part in ["accept", "artifacts", "reject"] {
        std::fs::create_dir(bench.path(part)).unwrap();
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = file.unwrap().path();
            std::fs::copy(&path, bench.path(part).join(path.file_name().unwrap())).unwrap();
        }
    }
    let all: Vec<_> =
        vectors("action-proposal/accept").into_iter().chain(vectors("action-proposal/reject")).collect();
    let mut count = 0;
    for profile in ["strict", "pic-0.9", "pic-0.8"] {
        let of_profile: Vec<_> = all.iter().filter(|(_, vector)| vector["profile"] == profile).collect();
        let entry = |(name, vector): &&(String, Value)| {
            let file: Vec<_> = name.rsplit('/').take(2).collect();
            let mut entry = json!({
                "id": vector["id"], "file": format!("{}/{}", file[1], file[0]), "mode": vector["mode"],
                "expected": vector["expected"],
            });
            if let Some(code) = vector.get("expected_error_code") {
                entry["expected_error_code"] = code.clone();
            }
            entry
        };
        let entries: Vec<_> = of_profile.iter().map(entry).collect();
        bench.write("manifest.json", json!({"version": "1", "vectors": entries}).to_string());
        let report = bench.run(&format!("proposal conformance . --profile {profile} --json")).value();
        count += report["results"].as_array().unwrap().len();
        for (result, (name, vector)) in report["results"].as_array().unwrap().iter().zip(of_profile) {
            assert_eq!(result["passed"], true, "{name}: {result}");
            let place = vector.get("place").map(|place| format!("{}: ", place.as_str().unwrap()));
            let detail = result["detail"].as_str().unwrap_or_default();
            assert!(place.is_none_or(|place| detail.starts_with(&place)), "{name}: {result}");
        }
    }
    assert_eq!(count, all.len());
}
