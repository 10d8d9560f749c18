//! Endorsed evidence files, limited to the arguments and the number of uses that the operator set.

#![cfg(unix)]

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::bench::{Bench, RECORD_OPTIONS, Run};
use crate::desk;

const CHECK: &str = "check --registry reg.json --trust-root root.json --agent support-bot --principal alice --session s1 \
     --evidence-root evidence --endorsed endorsed.json";
const INVOICE: &str = "Invoice 77, Parts Ltd: 1200 EUR to DE02-PARTS\n";
const BOUND: &str = "--file evidence/invoice.txt --tool refund --server desk --impact money --arg /to=DE02-PARTS --max /amount=1200";
const PROFILES: [&str; 3] = ["strict", "pic-0.9", "pic-0.8"];

/// Returns a desk whose `refund` needs no approval, with the invoice and one store for each profile.
fn bench() -> Bench {
    let bench = desk::open();
    let mut draft = desk::draft();
    draft["tools"][1]["approval"] = json!("not_required");
    draft["tools"][1]["args_schema"]["properties"]["to"] = json!({"type": "string"});
    desk::sign(&bench, &draft, "reg.json");
    std::fs::create_dir(bench.path("evidence")).unwrap();
    bench.write("evidence/invoice.txt", INVOICE);
    for profile in PROFILES {
        bench.ok(&format!("store init {profile}.sqlite"));
    }
    bench
}

fn endorse(bench: &Bench, options: &str) {
    bench.write("endorsed.json", bench.endorse(&format!("{options} --expires 1d --key op.key")));
}

fn pay(id: &str, to: &str, amount: u32) -> Value {
    let args = json!({"to": to, "amount": amount});
    let sha256: String = Sha256::digest(INVOICE).iter().map(|byte| format!("{byte:02x}")).collect();
    let proposal = json!({
        "protocol": "PIC/1.0", "intent": "Pay invoice 77", "impact": "money",
        "provenance": [{"id": "invoice", "trust": "untrusted"}],
        "claims": [{"text": "due", "evidence": ["invoice"]}, {"text": "approved", "evidence": ["invoice"]}],
        "action": {"tool": "refund", "args": args},
        "evidence": [{"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": sha256}],
    });
    json!({"call_id": id, "tool": "refund", "args": args, "proposal": proposal})
}

/// Runs `check` in a process of its own and returns its codes.
fn check(bench: &Bench, options: &str, lines: &[Value]) -> (Vec<String>, Run) {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let record = if options.contains("--record ") { "" } else { "--no-record" };
    let run = bench.feed(&format!("{CHECK} {record} {options}"), &input);
    assert!(matches!(run.code, 0 | 3), "{run:?}");
    let decisions = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let codes = decisions.map(|decision| decision["code"].as_str().unwrap_or("accept").to_owned()).collect();
    (codes, run)
}

/// Returns the codes under a profile, with the store of that profile.
fn under(bench: &Bench, profile: &str, lines: &[Value]) -> Vec<String> {
    check(bench, &format!("--profile {profile} --spent {profile}.sqlite"), lines).0
}

#[test]
fn an_endorsed_invoice_pays_its_own_bill_once() {
    let bench = bench();
    endorse(&bench, BOUND);
    for profile in PROFILES {
        let lines = [
            pay("c1", "DE02-PARTS", 9_999_999),
            pay("c2", "MALLORY", 1_200),
            pay("c3", "DE02-PARTS", 1_200),
            pay("c4", "DE02-PARTS", 1_200),
            pay("c3", "DE02-PARTS", 1_200),
        ];
        let failed = "PIC_VERIFIER_FAILED";
        assert_eq!(under(&bench, profile, &lines), [failed, failed, "accept", failed, failed], "{profile}");
        // The use is also spent for another process.
        assert_eq!(under(&bench, profile, &[pay("c5", "DE02-PARTS", 1_200)]), [failed], "{profile}");
    }
}

#[test]
fn an_unbound_endorsement_backs_no_money() {
    let bench = bench();
    endorse(&bench, "--file evidence/invoice.txt --tool refund --impact money");
    for profile in PROFILES {
        let options = format!("--profile {profile} --spent {profile}.sqlite");
        let lines = ["c1", "c2", "c3"].map(|id| pay(id, "DE02-PARTS", 1_200));
        let (codes, run) = check(&bench, &options, &lines);
        assert_eq!(codes, ["PIC_VERIFIER_FAILED"; 3], "{profile}");
        let warnings = run.err.lines().filter(|line| line.starts_with("warning ENDORSEMENT_UNBOUND: "));
        assert_eq!(warnings.count(), 1, "{run:?}");
    }
}

#[test]
fn a_bound_endorsement_is_not_warned_of() {
    let bench = bench();
    for options in [BOUND, "--file evidence/invoice.txt --impact write --impact external"] {
        endorse(&bench, options);
        let (_, run) = check(&bench, "--spent strict.sqlite", &[]);
        assert_eq!(run.err, "", "{options}");
    }
}

#[test]
fn endorsement_of_exact_arguments_counts_its_uses() {
    let bench = bench();
    bench.write("args.json", r#"{"amount": 1.2e3, "to": "DE02-PARTS", "__pic_request_id": "r"}"#);
    endorse(&bench, "--file evidence/invoice.txt --tool refund --args args.json --uses 3");
    let first = ["c1", "c2"].map(|id| pay(id, "DE02-PARTS", 1_200));
    assert_eq!(under(&bench, "strict", &first), ["accept", "accept"]);
    let other = pay("c3", "DE02-PARTS", 1_199);
    let more = [other, pay("c4", "DE02-PARTS", 1_200), pay("c5", "DE02-PARTS", 1_200)];
    assert_eq!(under(&bench, "strict", &more), ["PIC_VERIFIER_FAILED", "accept", "PIC_VERIFIER_FAILED"]);
}

#[test]
fn a_list_that_is_extended_gives_no_use_back() {
    let bench = bench();
    endorse(&bench, BOUND);
    let paid = [pay("c1", "DE02-PARTS", 1_200)];
    assert_eq!(under(&bench, "strict", &paid), ["accept"]);
    let more =
        "--file evidence/invoice.txt --tool refund --arg /to=ACME --max /amount=5 --with endorsed.json";
    endorse(&bench, more);
    let lines = [pay("c2", "DE02-PARTS", 1_200), pay("c3", "ACME", 5)];
    assert_eq!(under(&bench, "strict", &lines), ["PIC_VERIFIER_FAILED", "accept"]);
    bench.ok("keys generate --kind ed25519 --out mallory.key --public-out mallory.pub");
    bench.write("endorsed.json", bench.endorse(&format!("{BOUND} --key mallory.key")));
    bench.fails(&format!("proposal endorse {more} --key op.key"), 3, "ENVELOPE_THRESHOLD");
}

#[test]
fn endorsement_use_is_recorded() {
    let bench = bench();
    endorse(&bench, BOUND);
    let options = format!("--spent strict.sqlite {RECORD_OPTIONS}");
    let (codes, run) = check(&bench, &options, &[pay("c1", "DE02-PARTS", 1_200), pay("c2", "DE02-PARTS", 1)]);
    assert_eq!(codes, ["accept", "PIC_VERIFIER_FAILED"]);
    let first: Value = serde_json::from_str(run.out.lines().next().unwrap()).unwrap();
    let evidence = &first["evidence"][0];
    assert_eq!(evidence["endorsement_use"], 1, "{run:?}");
    let id = evidence["endorsement"].as_str().unwrap();
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!("evidence \"invoice\" by use 1 of endorsement {id}")), "{shown}");
    assert_eq!(shown.matches("of endorsement").count(), 1, "{shown}");
}

#[test]
fn endorsements_are_spent_beside_the_list_without_another_store() {
    let bench = bench();
    endorse(&bench, BOUND);
    let line = || [pay("c1", "DE02-PARTS", 1_200)];
    // The store is younger than the endorsement: an earlier store may have counted its uses.
    let (codes, run) = check(&bench, "", &line());
    assert_eq!(codes, ["STORE_TOO_NEW"]);
    assert!(run.err.starts_with("warning ENDORSEMENT_TOO_OLD: "), "{run:?}");
    endorse(&bench, BOUND);
    assert_eq!(check(&bench, "", &line()).0, ["accept"]);
    assert_eq!(check(&bench, "", &line()).0, ["PIC_VERIFIER_FAILED"]);
    assert!(bench.path("endorsed.json.spent.sqlite").exists());
}

#[test]
fn endorsement_shows_its_signed_bounds() {
    let bench = bench();
    let shown = |options: &str| {
        let run = bench.run(&format!("proposal endorse --file evidence/invoice.txt {options} --key op.key"));
        assert_eq!(run.code, 0, "{run:?}");
        run.err
    };
    let bound =
        shown("--tool refund --arg /to=0042 --arg /n=42 --arg /t=\"42\" --min /amount=1 --max /amount=1.5e3");
    for line in [
        "tools      \"refund\"",
        "servers    any",
        "arguments  /to is \"0042\"",
        "arguments  /n is 42",
        "arguments  /t is \"42\"",
        "arguments  /amount is at least 1",
        "arguments  /amount is at most 1500",
        "all others are the agent's to choose",
        "uses       1",
    ] {
        assert!(bound.lines().any(|shown| shown.trim_start() == line), "{line}: {bound}");
    }
    assert!(!bound.contains("warning"), "{bound}");
    bench.write("args.json", r#"{"to": "DE02\u202e", "amount": 1}"#);
    let exact = shown("--args args.json --uses 2");
    assert!(exact.contains("arguments  exactly {") && exact.contains(r#""DE02\u202e""#), "{exact}");
    let unbound = shown("");
    assert!(unbound.contains("warning ENDORSEMENT_UNBOUND: ") && unbound.contains("uses       any number"));
    assert!(!shown("--impact write").contains("warning"));
}

#[test]
fn options_that_bind_nothing_clear_are_refused() {
    let bench = bench();
    bench.write("args.json", "{}");
    bench.write("list.json", "[]");
    let fails = |options: &str, exit: i32, code: &str| {
        bench.fails(
            &format!("proposal endorse --file evidence/invoice.txt --key op.key {options}"),
            exit,
            code,
        );
    };
    for options in [
        "--arg /to",
        "--arg to=DE02",
        "--arg /to=\"DE02",
        "--arg /to={",
        "--arg /to=1 --arg /to=2",
        "--min /amount=few",
        "--max /amount=\"1\"",
        "--max /amount=9007199254740993",
        "--args args.json --arg /to=1",
        "--args args.json --max /amount=1",
        "--uses few",
    ] {
        fails(options, 2, "USAGE");
    }
    fails("--arg /to=1 --min /to=1", 2, "ENDORSEMENT_BOUNDS");
    fails("--min /amount=2 --max /amount=1", 2, "ENDORSEMENT_BOUNDS");
    fails("--arg /a~2=1", 2, "ENDORSEMENT_BOUNDS");
    fails("--args args.json --uses 0", 2, "ENDORSEMENT_USES");
    fails("--uses 101", 2, "ENDORSEMENT_USES");
    fails("--args list.json", 1, "ARGS_NOT_OBJECT");
    fails("--args none.json", 1, "FILE_MISSING");
}
