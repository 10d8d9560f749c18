//! `check` on calls with an action proposal.

use serde_json::{Value, json};

use crate::audit_log::FIRST;
use crate::bench::{Bench, RECORD_OPTIONS};
use crate::desk;

const CHECK: &str =
    "check --registry reg.json --trust-root root.json --agent support-bot --principal alice --session s1";

/// Returns a desk whose `refund` needs no approval, with a finance officer's key in a keyring.
fn bench() -> Bench {
    let bench = desk::open();
    let mut draft = desk::draft();
    draft["tools"][1]["approval"] = json!("not_required");
    desk::sign(&bench, &draft, "reg.json");
    bench.ok("keys generate --kind ed25519 --out finance.key --public-out finance.pub");
    let finance = bench.run("keys show finance.pub --json").value();
    bench.ok("store init keyring.json.spent.sqlite");
    bench.ok("store init spent.sqlite");
    bench.write("keyring.json", json!({"finance-1": finance["public"]}).to_string());
    bench
}

fn args() -> Value {
    json!({"id": 7, "amount": 10})
}

fn proposal() -> Value {
    json!({
        "protocol": "PIC/1.0", "intent": "Pay back", "impact": "money",
        "provenance": [{"id": "finance", "trust": "trusted"}],
        "claims": [{"text": "Charged twice", "evidence": ["finance"]}],
        "action": {"tool": "refund", "args": args()}
    })
}

/// Signs the proposal for this call id and writes `attested.json`.
fn attest(bench: &Bench, call_id: &str) -> Value {
    bench.write("proposal.json", proposal().to_string());
    let _ = std::fs::remove_file(bench.path("attested.json"));
    let run = bench.run(&format!(
        "proposal attest --proposal proposal.json --key finance.key --key-id finance-1 --evidence-id finance \
         --audience check --server desk --call-id {call_id} --principal alice --agent support-bot --session s1 \
         --registry-version 1 --evidence-root . --yes --into attested.json"
    ));
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&bench.read("attested.json")).unwrap()
}

fn call(id: &str, args: Value) -> Value {
    json!({"call_id": id, "tool": "refund", "args": args})
}

/// Runs `check` and returns one decision for each line.
fn check(bench: &Bench, options: &str, lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let record = if options.contains("--record ") { "" } else { "--no-record" };
    let run = bench.feed(&format!("{CHECK} {record} {options}"), &input);
    assert!(
        matches!(run.code, 0 | 3) && run.err.lines().all(|line| line.starts_with("warning WEAK_PROFILE: ")),
        "{run:?}"
    );
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn code(decision: &Value) -> &str {
    decision["code"].as_str().unwrap_or("accept")
}

#[test]
fn an_attested_call_is_accepted_once_in_whatever_process() {
    let bench = bench();
    attest(&bench, "c1");
    let options = &format!("--keyring keyring.json --proposal attested.json {RECORD_OPTIONS}");
    let decisions = check(
        &bench,
        options,
        &[
            call("c2", args()),
            call("c1", json!({"id": 7, "amount": 11})),
            call("c1", args()),
            call("c1", args()),
        ],
    );
    let codes: Vec<_> = decisions.iter().map(code).collect();
    assert_eq!(codes, ["PIC_EVIDENCE_FAILED", "PIC_ARG_BINDING_MISMATCH", "accept", "PIC_EVIDENCE_FAILED"]);
    assert!(decisions.iter().all(|decision| decision["profile"] == "strict"), "{decisions:?}");
    let accepted = &decisions[2];
    assert_eq!((&accepted["impact"], &accepted["evidence"][0]["id"]), (&json!("money"), &json!("finance")));
    assert_eq!(accepted["evidence"][0]["sha256"].as_str().unwrap().len(), 64, "{accepted}");
    assert_eq!(decisions[3].get("evidence"), None);
    assert_eq!(code(&check(&bench, options, &[call("c1", args())])[0]), "PIC_EVIDENCE_FAILED");
    let record = bench.read(FIRST);
    assert!(
        record.contains("\"profile\":\"strict\"") && record.contains("\"key\":\"finance-1\""),
        "{record}"
    );
}

#[test]
fn a_proposal_may_come_in_the_line_or_among_the_arguments() {
    let bench = bench();
    let keys = "--keyring keyring.json --spent spent.sqlite";
    let among = |proposal: &Value| {
        let mut args = args();
        args["__pic"] = proposal.clone();
        args
    };
    let with = |mut line: Value, proposal: &Value| {
        line["proposal"] = proposal.clone();
        line
    };
    let (first, second) = (attest(&bench, "c1"), attest(&bench, "c2"));
    // The proposal of the file is used for calls without their own.
    let decisions = check(
        &bench,
        &format!("{keys} --proposal proposal.json"),
        &[
            with(call("c1", among(&first)), &first),
            with(call("c1", args()), &first),
            call("c2", among(&second)),
            call("c3", args()),
            with(call("c4", args()), &json!("x")),
        ],
    );
    let codes: Vec<_> = decisions.iter().map(code).collect();
    assert_eq!(
        codes,
        ["MALFORMED_CALL", "accept", "accept", "PIC_EVIDENCE_REQUIRED", "PIC_INVALID_REQUEST"],
        "{decisions:?}"
    );
    // Every decision has the digest of the arguments that the tool would get.
    let digests: Vec<_> = decisions.iter().map(|decision| &decision["args_digest"]).collect();
    assert!(digests.iter().all(|digest| digest.is_string() && *digest == digests[3]), "{digests:?}");
}

#[test]
fn without_their_options_no_proposal_is_looked_at() {
    let bench = bench();
    let mut line = call("c1", args());
    line["proposal"] = json!({"not": "one"});
    let decisions = check(&bench, "", &[line, call("c2", args())]);
    assert_eq!((code(&decisions[0]), code(&decisions[1])), ("accept", "accept"));
    assert!(decisions.iter().all(|decision| decision.get("profile").is_none()), "{decisions:?}");
    for option in [
        "--profile strict",
        "--keyring keyring.json",
        "--high external",
        "--high write,read --high external",
        "--max-attestation-age 1h",
        "--evidence-root .",
    ] {
        let decisions = check(&bench, option, &[call("c1", args())]);
        assert_eq!(
            (code(&decisions[0]), &decisions[0]["profile"]),
            ("PIC_INVALID_REQUEST", &json!("strict"))
        );
    }
}

#[test]
fn claimed_trust_is_refused_in_every_profile() {
    let bench = bench();
    attest(&bench, "c1");
    let attested = "--keyring keyring.json --proposal attested.json";
    let line = call("c1", args());
    let decisions = check(&bench, &format!("{attested} --profile pic-0.9"), std::slice::from_ref(&line));
    assert_eq!(code(&decisions[0]), "accept", "{decisions:?}");
    assert_eq!(decisions[0]["profile"], "pic-0.9");
    for profile in ["strict", "pic-0.9", "pic-0.8"] {
        let claimed = format!("--keyring keyring.json --proposal proposal.json --profile {profile}");
        let decisions = check(&bench, &claimed, std::slice::from_ref(&line));
        let expected = if profile == "strict" { "PIC_EVIDENCE_REQUIRED" } else { "PIC_VERIFIER_FAILED" };
        assert_eq!(code(&decisions[0]), expected, "{profile}");
    }
    let search = json!({"call_id": "c1", "tool": "search", "args": {}});
    assert_eq!(code(&check(&bench, "--profile strict", std::slice::from_ref(&search))[0]), "accept");
    assert_eq!(code(&check(&bench, "--high compute,read", &[search])[0]), "PIC_INVALID_REQUEST");
}

#[test]
fn bad_proposal_options_create_no_file() {
    let bench = bench();
    let fails = |options: &str, exit: i32, code: &str| {
        bench.fails(&format!("{CHECK} {RECORD_OPTIONS} {options}"), exit, code);
    };
    fails("--profile lenient", 2, "USAGE");
    fails("--high everything", 2, "USAGE");
    fails("--spent s.sqlite", 2, "USAGE");
    fails("--proposal none.json", 1, "FILE_MISSING");
    fails("--keyring none.json", 1, "FILE_MISSING");
    fails("--keyring op.pub", 1, "KEY_MALFORMED");
    fails("--policy op.pub", 1, "POLICY_MALFORMED");
    fails("--endorsed reg.json", 1, "CONFIG_CONFLICT");
    #[cfg(unix)]
    {
        fails("--evidence-root nowhere", 1, "EVIDENCE_FOLDER");
        fails("--evidence-root . --endorsed reg.json", 3, "ENVELOPE_PAYLOAD_TYPE");
    }
}

#[test]
fn a_weaker_profile_is_warned_of_at_start() {
    let bench = bench();
    for (profile, expected) in [("strict", 0), ("pic-0.9", 1), ("pic-0.8", 1)] {
        let run = bench.feed(&format!("{CHECK} --no-record --keyring keyring.json --profile {profile}"), "");
        assert_eq!(run.err.matches("warning WEAK_PROFILE: ").count(), expected, "{run:?}");
        let files = run.err.contains("the hash of any evidence file");
        assert_eq!(files, profile == "pic-0.8", "{run:?}");
    }
}

#[test]
fn a_weaker_profile_keeps_an_attestation_to_its_call() {
    for profile in ["pic-0.9", "pic-0.8"] {
        let bench = bench();
        attest(&bench, "z1");
        let options =
            format!("--keyring keyring.json --proposal attested.json --profile {profile} {RECORD_OPTIONS}");
        let lines = [call("z2", args()), call("z1", args()), call("z1", args())];
        let decisions = check(&bench, &options, &lines);
        let codes: Vec<_> = decisions.iter().map(code).collect();
        assert_eq!(codes, ["PIC_EVIDENCE_FAILED", "accept", "PIC_EVIDENCE_FAILED"], "{profile}");
    }
}

#[test]
fn the_record_of_a_session_names_its_profile() {
    for (options, profile) in [
        ("--keyring keyring.json", Some("strict")),
        ("--keyring keyring.json --profile pic-0.9", Some("pic-0.9")),
        ("", None),
    ] {
        let bench = bench();
        bench.feed(&format!("{CHECK} {options} {RECORD_OPTIONS}"), "");
        let session = bench.entries().swap_remove(0);
        assert_eq!(session.get("profile").and_then(Value::as_str), profile, "{session}");
        let shown = bench.run("audit show log").out;
        let line = profile.map(|profile| format!("; proposals by profile {profile}"));
        assert_eq!(shown.contains("; proposals by profile"), line.is_some(), "{shown}");
        assert!(shown.contains(&line.unwrap_or_default()), "{shown}");
    }
}
