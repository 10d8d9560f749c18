use serde_json::Value;

use crate::bench::Bench;

fn pin(bench: &Bench, ttl: &str) -> Value {
    let args = ["ask", "pin", "--session", "s1", "--ttl", ttl, "--goal", "Summarise ticket 7"];
    let text = bench.run_args(&args, "").done();
    bench.write("pin.json", &text);
    serde_json::from_str(&text).unwrap()
}

fn verify(bench: &Bench, goal: &str) -> crate::bench::Run {
    bench.run_args(&["ask", "verify", "pin.json", "--goal", goal], "")
}

#[test]
fn a_pin_is_a_json_object_without_the_goal() {
    let bench = Bench::new();
    let pin = pin(&bench, "60s");
    assert_eq!(pin["recipe"], "ask-1");
    assert_eq!(pin["session"], "s1");
    assert_eq!(pin["digest"].as_str().unwrap().len(), 64);
    assert_eq!(pin["expires"].as_u64().unwrap() - pin["issued"].as_u64().unwrap(), 60_000);
    assert!(!bench.read("pin.json").to_lowercase().contains("ticket"));
}

#[test]
fn the_same_goal_passes_and_another_is_drift() {
    let bench = Bench::new();
    pin(&bench, "60s");
    assert_eq!(verify(&bench, "  summarise\tTICKET 7 ").code, 0);
    let report =
        bench.run_args(&["ask", "verify", "pin.json", "--json", "--goal", "summarise ticket 7"], "").value();
    assert_eq!(report["ok"], true);
    for other in ["Delete ticket 7", "Summarise ticket\u{200b} 7", "Summ\u{430}rise ticket 7", ""] {
        let run = verify(&bench, other);
        assert_eq!(run.code, 3, "{other}: {run:?}");
        assert!(run.err.starts_with("error ASK_DRIFT: "), "{run:?}");
    }
}

#[test]
fn a_goal_can_come_from_standard_input() {
    let bench = Bench::new();
    let text = bench.feed("ask pin --session s1 --ttl 60s --goal -", "Summarise ticket 7\n").done();
    bench.write("pin.json", text);
    assert_eq!(bench.feed("ask verify pin.json --goal -", "summarise ticket 7").code, 0);
    assert_eq!(bench.feed("ask verify pin.json", "summarise ticket 8").code, 3);
}

#[test]
fn a_goal_may_begin_with_a_dash() {
    let bench = Bench::new();
    let text =
        bench.run_args(&["ask", "pin", "--session", "s1", "--ttl", "60s", "--goal", "-5 degrees"], "").done();
    bench.write("pin.json", text);
    assert_eq!(verify(&bench, "-5 DEGREES").code, 0);
    assert_eq!(verify(&bench, "5 degrees").code, 3);
}

#[test]
fn a_pin_of_another_session_or_past_its_time_is_refused() {
    let bench = Bench::new();
    pin(&bench, "60s");
    let goal = "summarise ticket 7";
    bench.fails_with(
        &["ask", "verify", "pin.json", "--goal", goal, "--session", "s2"],
        "",
        3,
        "ASK_OTHER_SESSION",
    );
    assert_eq!(bench.run_args(&["ask", "verify", "pin.json", "--goal", goal, "--session", "s1"], "").code, 0);
    pin(&bench, "1ms");
    std::thread::sleep(std::time::Duration::from_millis(5));
    bench.fails_with(&["ask", "verify", "pin.json", "--goal", goal], "", 3, "ASK_EXPIRED");
}

#[test]
fn goals_and_times_that_cannot_be_pinned_are_refused() {
    let bench = Bench::new();
    let pin = |ttl: &str, goal: &str, exit: i32, code: &str| {
        bench.fails_with(&["ask", "pin", "--session", "s", "--ttl", ttl, "--goal", goal], "", exit, code);
    };
    pin("60s", " \t ", 1, "ASK_EMPTY");
    pin("60s", &"x".repeat(100_000), 1, "ASK_TOO_LONG");
    pin("0s", "goal", 1, "ASK_TTL");
    pin("104249991d", "goal", 1, "ASK_TTL");
    pin("60", "goal", 2, "USAGE");
    pin("-5s", "goal", 2, "USAGE");
    bench.fails_with(&["ask", "pin", "--session", "", "--ttl", "1s", "--goal", "g"], "", 2, "USAGE");
    bench.fails_with(
        &["ask", "pin", "--session", "s", "--ttl", "1s"],
        &"x".repeat(2 << 20),
        1,
        "FILE_TOO_LARGE",
    );
}

#[test]
fn files_that_are_no_pins_are_refused() {
    let bench = Bench::new();
    pin(&bench, "60s");
    let good = bench.read("pin.json");
    let verify = |text: &str, code: &str| {
        bench.write("pin.json", text);
        bench.fails("ask verify pin.json --goal x", 1, code);
    };
    verify("", "JSON_UNEXPECTED_END");
    verify("{}", "ASK_PIN_MALFORMED");
    verify(&good.replace("ask-1", "ask-2"), "ASK_PIN_MALFORMED");
    verify(&good.replace("{", "{\"extra\":1,"), "ASK_PIN_MALFORMED");
    verify(&good.replacen("{", "{\"session\":\"s1\",", 1), "JSON_DUPLICATE_NAME");
    bench.fails("ask verify missing.json --goal x", 1, "FILE_MISSING");
}
