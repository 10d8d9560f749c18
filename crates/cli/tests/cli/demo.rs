use serde_json::{Value, json};

use crate::bench::Bench;

fn decisions(bench: &Bench) -> Vec<Value> {
    bench.entries().into_iter().filter(|entry| entry["type"] == "decision").collect()
}

#[test]
fn the_demo_ends_as_expected_and_leaves_a_record_that_verifies() {
    let bench = Bench::new();
    let told = bench.run("--json demo --record log").value();
    assert_eq!(told["ok"], true, "{told}");
    let verdicts: Vec<&str> =
        told["steps"].as_array().unwrap().iter().map(|step| step["verdict"].as_str().unwrap()).collect();
    for code in [
        "accept",
        "UNDISCLOSED_TOOL",
        "ASK_DRIFT",
        "APPROVAL_REQUIRED",
        "ARGS_CONSTRAINT",
        "AGENT_REVOKED",
        "PIC_EVIDENCE_REQUIRED",
        "PIC_EVIDENCE_FAILED",
        "PLAN_REQUIRED",
        "PLAN_CONTROL_OPEN",
        "PLAN_STEP_MISMATCH",
        "PLAN_HALTED",
    ] {
        assert!(verdicts.contains(&code), "{code} is missing from {verdicts:?}");
    }
    assert_eq!(
        told["side_effects"],
        serde_json::json!([
            "refund of 49 EUR on T-1001",
            "wire of 1200 EUR to DE02-PARTS",
            "refund of 12 EUR on T-1003"
        ])
    );
    assert_eq!((&told["decisions_on_record"], decisions(&bench).len()), (&json!(25), 25), "{told}");
    let verify = format!("audit verify log --key {}", told["record_key"].as_str().unwrap());
    assert!(bench.ok(&verify).contains(" entries of countersign.demo/log verified"));
}

#[test]
fn demo_transfer_is_recorded_with_its_evidence() {
    let bench = Bench::new();
    bench.ok("demo --record log");
    let mut wires = decisions(&bench);
    wires.retain(|decision| decision["tool"]["name"] == "wire_transfer");
    let told: Vec<_> = wires.iter().map(|wire| (&wire["verdict"], &wire["code"])).collect();
    assert_eq!(
        serde_json::json!(told),
        serde_json::json!([
            ["reject", "PIC_EVIDENCE_REQUIRED"],
            ["reject", "PIC_EVIDENCE_FAILED"],
            ["accept", null],
            ["reject", "PIC_EVIDENCE_FAILED"],
        ])
    );
    assert_eq!(wires[2]["proposal"]["profile"], "strict", "{}", wires[2]);
    assert_eq!(wires[2]["proposal"]["evidence"].as_array().unwrap().len(), 2, "{}", wires[2]);
    let reasons = [&wires[1]["reason"], &wires[3]["reason"]].map(|reason| reason.as_str().unwrap());
    assert!(reasons[0].starts_with("/evidence/0"), "the file that is not there: {reasons:?}");
    assert!(reasons[1].starts_with("attestation: "), "the attestation that is used up: {reasons:?}");
}

#[test]
fn the_demo_prints_a_line_for_each_thing_done() {
    let bench = Bench::new();
    let run = bench.run("demo --record log");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("32 of 32 verdicts as expected."), "{}", run.out);
    let verified = run.out.lines().find(|line| line.contains(" entries of countersign.demo/log verified"));
    let key = verified.and_then(|line| line.split_once("Its public key: ")).unwrap().1;
    bench.ok(&format!("audit verify log --key {key}"));
}

#[test]
fn the_demos_log_is_a_new_one() {
    let bench = Bench::new();
    bench.ok("demo --record log");
    bench.fails("demo --record log", 1, "FILE_EXISTS");
}

#[test]
fn demo_names_the_folder_that_is_missing() {
    let bench = Bench::new();
    let run = bench.command(&["demo"]).env("TMPDIR", "/no/such/folder").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("error DEMO_FAILED: `/no/such/folder/"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_demo_whose_record_cannot_be_written_fails() {
    let bench = Bench::new();
    let run = bench.run("demo --record no/such/folder/log");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.err.lines().count(), 2, "what the gateway says and what the demo says: {run:?}");
}
