//! The public vectors of the crates below, through the command line.

use std::path::Path;

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};

use crate::bench::Bench;

/// The vectors of one folder, with their names.
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

/// A text, written out or as so many times another.
fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    let times = usize::try_from(value["times"].as_u64().unwrap()).unwrap();
    value["repeat"].as_str().unwrap().repeat(times)
}

/// Where a vector's input, put into `input.json`, is read as its recipe says.
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
fn what_strict_json_accepts_is_written_in_canonical_form() {
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
fn what_strict_json_refuses_is_refused_with_its_code_and_place() {
    let bench = Bench::new();
    for (name, vector) in vectors("canonical-json/reject") {
        let args = put_input(&bench, &vector);
        let run = bench.run_args(&args, "");
        let expected = format!("error {}: at byte {}: ", vector["code"].as_str().unwrap(), vector["offset"]);
        assert!(run.code == 1 && run.out.is_empty() && run.err.starts_with(&expected), "{name}: {run:?}");
    }
}

#[test]
fn goals_are_pinned_and_held_against_the_pin_as_their_vectors_say() {
    let bench = Bench::new();
    // The command line pins at the time it is: what needs another time is left to the library.
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
fn drafts_are_signed_or_refused_as_their_vectors_say() {
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
fn constraints_hold_at_the_gate_as_their_vectors_say() {
    let bench = Bench::new();
    let cases: Vec<(String, Value)> = vectors("registry/accept")
        .into_iter()
        .chain(vectors("registry/reject"))
        .filter(|(_, vector)| vector.get("constraint").is_some())
        // The others are constraints that no registry can have; the library's own test reads those.
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
    let args = ["check", "--registry", "registry.json", "--trust-root", "root.json", "--agent", "bot"];
    let decisions = bench.run_args(&args, &lines).out;
    assert_eq!(decisions.lines().count(), cases.len());
    for (line, (name, vector)) in decisions.lines().zip(&cases) {
        let decision: Value = serde_json::from_str(line).unwrap();
        assert_eq!(decision.get("code"), vector.get("code"), "{name}: {line}");
    }
}
