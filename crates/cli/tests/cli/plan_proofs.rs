use serde_json::{Value, json};

use crate::plan::{REGISTRY, committed};

#[test]
fn a_proof_holds_for_its_root_and_for_no_other() {
    let (bench, root) = committed();
    let verify = format!("plan verify --root {root}");
    for step in [1, 2] {
        let proof = bench.ok(&format!("plan prove plan.json --step {step}"));
        assert_eq!(proof, bench.ok(&format!("plan prove plan.json --step {step} --json")));
        let told = bench.feed(&format!("{verify} --json"), &proof).value();
        assert_eq!((&told["index"], &told["steps"], &told["root"]), (&json!(step), &json!(2), &json!(root)));
        assert_eq!(told["call_fits"], Value::Null);
        let other = format!("plan verify --root {}", "0".repeat(64));
        bench.fails_with(&other.split_whitespace().collect::<Vec<_>>(), &proof, 3, "PLAN_STEP_MISMATCH");
        // Another index, another number of steps, or another step.
        for changed in [
            proof.replace(&format!("\"index\":{step}"), &format!("\"index\":{}", 3 - step)),
            proof.replace("\"steps\":2", "\"steps\":3"),
            proof.replace("\"max_calls\":1", "\"max_calls\":2"),
        ] {
            assert_ne!(changed, proof);
            bench.fails_with(
                &verify.split_whitespace().collect::<Vec<_>>(),
                &changed,
                3,
                "PLAN_STEP_MISMATCH",
            );
        }
    }
    for step in ["0", "3", "18446744073709551615"] {
        bench.fails(&format!("plan prove plan.json --step {step}"), 1, "PLAN_NO_SUCH_STEP");
    }
    let header = bench.ok("plan prove plan.json --header");
    let told = bench.feed(&format!("{verify} --json"), &header).value();
    assert_eq!(
        (&told["steps"], &told["session"], &told["registry_version"]),
        (&json!(2), &json!("s1"), &json!(1))
    );
    let changed = header.replace("\"session\":\"s1\"", "\"session\":\"s2\"");
    bench.fails_with(&verify.split_whitespace().collect::<Vec<_>>(), &changed, 3, "PLAN_HEADER_UNPROVED");
}

#[test]
fn a_call_is_held_against_the_proven_step() {
    let (bench, root) = committed();
    bench.write("proof.json", bench.ok("plan prove plan.json --step 2"));
    let line = format!("plan verify --root {root} --proof proof.json --args - --call");
    let run = |tool: &str, args: &str| bench.feed(&format!("{line} {tool} --json"), args);
    let call = r#"{"to":"ada@customers.example","body":"hello"}"#;
    assert_eq!(run("desk:mail", call).value()["call_fits"], true);
    for (tool, args) in [
        ("desk:search", call),
        ("mail:mail", call),
        ("desk:mail", r#"{"to":"eve@customers.example","body":"hello"}"#),
        ("desk:mail", r#"{"to":"ada@customers.example"}"#),
        ("desk:mail", r#"{"to":"ada@customers.example","body":"<DYNAMIC>"}"#),
        ("desk:mail", r#"{"to":"ada@customers.example","body":"x","tags":[]}"#),
        ("desk:mail", "[]"),
    ] {
        let refused = run(tool, args);
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.out.contains("PLAN_STEP_MISMATCH"), "{refused:?}");
    }
    assert_eq!(run("desk:mail", r#"{"to":1,"to":2}"#).code, 1);
    assert_eq!(run("mail", call).code, 2);
    bench.fails(&format!("plan verify --root {root} --proof proof.json --call desk:mail"), 2, "USAGE");
    bench.fails(&format!("plan verify --root {root} --call desk:mail --args -"), 2, "USAGE");
    bench.write("header.json", bench.ok("plan prove plan.json --header"));
    bench.fails(
        &format!("plan verify --root {root} --proof header.json --call desk:mail --args -"),
        2,
        "USAGE",
    );
}

#[test]
fn malformed_plan_proof_is_an_input_error() {
    let (bench, root) = committed();
    let args = ["plan", "verify", "--root", &root];
    let proof = bench.ok("plan prove plan.json --step 1");
    let header = bench.ok("plan prove plan.json --header");
    for (text, code) in [
        (String::new(), "PLAN_JSON"),
        ("{}".to_owned(), "PLAN_SHAPE"),
        ("x".repeat(10 << 20), "PLAN_LIMIT"),
        (proof.replacen('{', r#"{"index":1,"#, 1), "PLAN_JSON"),
        (proof.replacen('{', r#"{"extra":1,"#, 1), "PLAN_SHAPE"),
        (proof.replace("\"index\":1", "\"index\":0"), "PLAN_SHAPE"),
        (proof.replace("\"index\":1", "\"index\":3"), "PLAN_SHAPE"),
        (header.replace("\"path\":[", "\"path\":[7,"), "PLAN_SHAPE"),
        (header.replace("\"steps\":2", "\"steps\":0"), "PLAN_EMPTY"),
        (bench.read("plan.json"), "PLAN_SHAPE"),
    ] {
        bench.fails_with(&args, &text, 1, code);
    }
    bench.fails("plan verify", 2, "USAGE");
    bench.fails("plan verify --root 12", 2, "USAGE");
    bench.fails(&format!("plan verify --root {root} --proof nowhere.json"), 1, "FILE_MISSING");
}

#[test]
fn a_sealed_root_opens_for_its_session_and_key_alone() {
    let (bench, root) = committed();
    let told = bench.run(&format!("plan commit plan.json {REGISTRY} --seal gate.key --json")).value();
    bench.write("sealed", told["sealed"].as_str().unwrap());
    let sealed = bench.read("sealed");
    bench.write("proof.json", bench.ok("plan prove plan.json --step 1"));
    let line = |more: &str| format!("plan verify --proof proof.json --sealed {sealed} {more}");
    let opened = bench.run(&line("--key-file gate.key --session s1 --json")).value();
    assert_eq!(opened["root"], root);
    bench.ok("keys generate --kind hmac --out other.key");
    for more in [
        "--key-file gate.key --session s2",
        "--key-file other.key --session s1",
        "--key-file gate.key --session s1 --run r2",
    ] {
        bench.fails(&line(more), 3, "PLAN_SEAL_INVALID");
    }
    bench.fails(&line(""), 2, "USAGE");
    bench.fails(&format!("plan commit plan.json {REGISTRY} --seal op.key"), 1, "KEY_FILE_KIND");
}
