use crate::bench::Bench;

#[test]
fn the_demo_ends_as_expected_and_leaves_a_record_that_verifies() {
    let bench = Bench::new();
    let told = bench.run("--json demo --record record.jsonl").value();
    assert_eq!(told["ok"], true, "{told}");
    let verdicts: Vec<&str> =
        told["steps"].as_array().unwrap().iter().map(|step| step["verdict"].as_str().unwrap()).collect();
    for code in
        ["accept", "UNDISCLOSED_TOOL", "ASK_DRIFT", "APPROVAL_REQUIRED", "ARGS_CONSTRAINT", "AGENT_REVOKED"]
    {
        assert!(verdicts.contains(&code), "{code} is missing from {verdicts:?}");
    }
    assert_eq!(told["side_effects"], serde_json::json!(["refund of 49 EUR on T-1001"]));
    bench.ok("audit verify record.jsonl");
    assert_eq!(bench.read("record.jsonl").matches("\"type\":\"decision\"").count(), 12);
}

#[test]
fn the_demo_prints_a_line_for_each_thing_done() {
    let bench = Bench::new();
    let run = bench.run("demo --record record.jsonl");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("15 of 15 verdicts as expected."), "{}", run.out);
    assert!(run.out.contains("record.jsonl"), "{}", run.out);
}

#[test]
fn the_demo_can_go_on_in_a_record_that_is_there() {
    let bench = Bench::new();
    bench.ok("demo --record record.jsonl");
    let told = bench.run("--json demo --record record.jsonl").value();
    assert_eq!((&told["ok"], &told["decisions_on_record"]), (&true.into(), &12.into()), "{told}");
}

#[test]
fn a_demo_without_a_folder_for_its_files_says_which() {
    let bench = Bench::new();
    let run = bench.command(&["demo"]).env("TMPDIR", "/no/such/folder").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("error DEMO_FAILED: `/no/such/folder/"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_demo_whose_record_cannot_be_written_fails() {
    let bench = Bench::new();
    let run = bench.run("demo --record no/such/folder/record.jsonl");
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.err.lines().count(), 2, "what the gateway says and what the demo says: {run:?}");
}
