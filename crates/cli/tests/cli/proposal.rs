use serde_json::{Value, json};

use crate::bench::{Bench, Run};

/// A signer, a keyring with the signer's key, and a transfer that needs the signature.
struct Desk {
    bench: Bench,
}

/// The gate's facts of the call, beside its tool and arguments.
const BOUND: [(&str, &str); 6] = [
    ("--server", "bank"),
    ("--call-id", "c1"),
    ("--principal", "alice"),
    ("--agent", "pay-bot"),
    ("--session", "s1"),
    ("--registry-version", "7"),
];

/// The refusal of evidence without `--debug`, which would show the place and the rule.
const WITHHELD: &str =
    "error PIC_EVIDENCE_FAILED: evidence does not verify: --debug says where, and by which rule\n";

fn transfer() -> Value {
    json!({
        "protocol": "PIC/1.0",
        "intent": "pay the invoice of March",
        "impact": "money",
        "provenance": [
            {"id": "invoice", "trust": "untrusted", "source": "finance"},
            {"id": "mail", "trust": "untrusted"},
        ],
        "claims": [{"text": "the invoice is due", "evidence": ["invoice"]}],
        "action": {"tool": "payments_send", "args": {"amount": 500, "to": "acme-4711"}},
    })
}

fn look() -> Value {
    json!({
        "protocol": "PIC/1.0", "intent": "opening hours", "impact": "read", "provenance": [], "claims": [],
        "action": {"tool": "docs_search", "args": {"q": "hours"}},
    })
}

impl Desk {
    fn new() -> Self {
        let bench = Bench::new();
        bench.ok("keys generate --kind ed25519 --out cfo.key --public-out cfo.pub");
        bench.ok("keys generate --kind ed25519 --out op.key --public-out op.pub");
        bench.ok("keys trust --threshold 1 --out root.json op.pub");
        let desk = Self { bench };
        let keyring = json!({"trusted_keys": {"cfo-1": desk.public("cfo.pub")}});
        desk.bench.write("keyring.json", keyring.to_string());
        desk.bench.write("proposal.json", transfer().to_string());
        desk.bench.write("look.json", look().to_string());
        desk.bench.write("args.json", "{\"to\": \"acme-4711\", \"amount\": 5e2}");
        desk.bench.write("invoice.txt", "invoice 42: 500 EUR to acme\n");
        desk
    }

    fn public(&self, file: &str) -> Value {
        self.bench.run(&format!("keys show {file} --json")).value()["public"].clone()
    }

    /// Signs for the transfer and returns the run.
    fn attest(&self, changed: &[(&str, &str)]) -> Run {
        let fixed = [
            ("--proposal", "proposal.json"),
            ("--key", "cfo.key"),
            ("--key-id", "cfo-1"),
            ("--evidence-id", "invoice"),
            ("--audience", "gate-1"),
            ("--evidence-root", "."),
            ("--yes", ""),
        ];
        self.run("attest", &[], &fixed, changed)
    }

    /// Writes the signed transfer to `signed.json`.
    fn signed(&self) {
        let run = self.attest(&[("--into", "signed.json")]);
        assert_eq!(run.code, 0, "{run:?}");
    }

    fn verify(&self, file: &str, changed: &[(&str, &str)]) -> Run {
        let fixed = [
            ("--keyring", "keyring.json"),
            ("--audience", "gate-1"),
            ("--tool", "payments_send"),
            ("--args", "args.json"),
        ];
        self.run("verify", &[file], &fixed, changed)
    }

    /// Runs a verb with its fixed options, some of them changed. `LEFT OUT` omits an option; an empty value makes it a flag.
    fn run(&self, verb: &str, first: &[&str], fixed: &[(&str, &str)], changed: &[(&str, &str)]) -> Run {
        let mut args = vec!["proposal", verb];
        args.extend(first);
        let others =
            fixed.iter().chain(&BOUND).filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        for (name, value) in others.chain(changed) {
            match *value {
                "LEFT OUT" => {}
                "" => args.push(name),
                value => args.extend([*name, value]),
            }
        }
        self.bench.run_args(&args, "")
    }
}

#[track_caller]
fn refused(run: &Run, exit: i32, code: &str) {
    assert_eq!(run.code, exit, "{run:?}");
    assert!(run.err.starts_with(&format!("error {code}: ")), "{run:?}");
    assert_eq!((run.err.lines().count(), run.out.as_str()), (1, ""), "{run:?}");
}

#[test]
fn a_look_at_something_needs_no_ceremony() {
    let desk = Desk::new();
    assert!(desk.bench.ok("proposal verify look.json").starts_with("allowed by `strict`: impact read"));
    let report = desk.bench.run("proposal verify look.json --tool docs_search --own-args --json").value();
    assert_eq!(report["ok"], true);
    assert_eq!((&report["profile"], &report["impact"]), (&json!("strict"), &json!("read")));
    assert_eq!((&report["error"], &report["evidence"]), (&Value::Null, &json!([])));
    assert!(report["eval_ms"].is_u64(), "{report}");
    let text = std::fs::read_to_string(desk.bench.path("look.json")).unwrap();
    assert_eq!(desk.bench.feed("proposal verify -", &text).code, 0);
}

#[test]
fn unsigned_transfer_is_refused() {
    let desk = Desk::new();
    refused(&desk.verify("proposal.json", &[]), 4, "PIC_EVIDENCE_REQUIRED");
    let mut claimed = transfer();
    claimed["provenance"][0]["trust"] = "trusted".into();
    desk.bench.write("claimed.json", claimed.to_string());
    refused(&desk.verify("claimed.json", &[]), 4, "PIC_EVIDENCE_REQUIRED");
    let pic = "proposal verify claimed.json --profile pic-0.9";
    refused(&desk.bench.run(pic), 3, "PIC_VERIFIER_FAILED");
    desk.bench.ok(&format!("{pic} --legacy-trust"));
    desk.bench.ok("proposal verify claimed.json --profile pic-0.8");
    refused(
        &desk.bench.run("proposal verify claimed.json --profile pic-0.8 --sanitize-trust"),
        3,
        "PIC_VERIFIER_FAILED",
    );
}

#[test]
fn attestation_is_valid_only_for_the_signed_call() {
    let desk = Desk::new();
    desk.signed();
    let text = desk.verify("signed.json", &[]).done();
    assert!(
        text.contains("impact money") && text.contains("invoice  sig by `cfo-1`, raises trust, once"),
        "{text}"
    );
    let report = desk.verify("signed.json", &[("--json", "")]).value();
    let entry = &report["evidence"][0];
    assert_eq!(
        (&entry["id"], &entry["ok"], &entry["kind"]),
        (&json!("invoice"), &json!(true), &json!("sig"))
    );
    assert_eq!((&entry["key_id"], &entry["raises_trust"]), (&json!("cfo-1"), &json!(true)));

    desk.bench.write("more.json", r#"{"amount": 501, "to": "acme-4711"}"#);
    refused(&desk.verify("signed.json", &[("--args", "more.json")]), 3, "PIC_ARG_BINDING_MISMATCH");
    refused(&desk.verify("signed.json", &[("--args", "LEFT OUT")]), 3, "PIC_ARG_BINDING_MISMATCH");
    refused(&desk.verify("signed.json", &[("--tool", "payments_cancel")]), 3, "PIC_TOOL_BINDING_MISMATCH");
    refused(&desk.verify("signed.json", &[("--impact", "irreversible")]), 3, "IMPACT_UNDERSTATED");
    for (name, other) in [
        ("--audience", "gate-2"),
        ("--server", "shop"),
        ("--call-id", "c2"),
        ("--principal", "mallory"),
        ("--agent", "bot-2"),
        ("--session", "s2"),
        ("--registry-version", "8"),
        ("--ask", &"0".repeat(64)),
        ("--plan", &"0".repeat(64)),
        ("--now", "2020-01-01T00:00:00Z"),
        ("--now", "2199-01-01T00:00:00+01:00"),
        ("--max-attestation-age", "0ms"),
    ] {
        if name == "--max-attestation-age" {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        refused(&desk.verify("signed.json", &[(name, other)]), 4, "PIC_EVIDENCE_FAILED");
    }
    for (name, _) in BOUND {
        refused(&desk.verify("signed.json", &[(name, "LEFT OUT")]), 4, "PIC_EVIDENCE_FAILED");
    }
    refused(&desk.verify("signed.json", &[("--keyring", "LEFT OUT")]), 4, "PIC_EVIDENCE_FAILED");
}

#[test]
fn attestation_binds_every_stated_fact() {
    let desk = Desk::new();
    let digest = "ab".repeat(32);
    let said = [("--ask", digest.as_str()), ("--plan", &digest)];
    let run = desk.attest(&[said[0], said[1], ("--into", "signed.json")]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(desk.verify("signed.json", &said).code, 0);
    refused(&desk.verify("signed.json", &said[..1]), 4, "PIC_EVIDENCE_FAILED");

    let terms = [("--issued", "2026-01-31T12:00:00Z"), ("--nonce", "0123456789abcdef"), ("--ttl", "1h")];
    let entry = desk.attest(&terms).out;
    assert_eq!(entry, desk.attest(&terms).out, "the same terms give the same entry");
    let payload = serde_json::from_str::<Value>(&entry).unwrap()["payload"].clone();
    let payload: Value = serde_json::from_str(payload.as_str().unwrap()).unwrap();
    assert_eq!(payload["expires_at"], "2026-01-31T13:00:00.000Z");
    assert_eq!((&payload["x_nonce"], &payload["x_ask"]), (&json!("0123456789abcdef"), &Value::Null));
    assert_ne!(desk.attest(&[]).out, desk.attest(&[]).out, "a nonce of its own each time");
}

#[test]
fn attest_shows_the_signed_content() {
    let desk = Desk::new();
    let mut odd = transfer();
    odd["intent"] = "pay\u{202e}yap\n".into();
    odd["action"]["args"]["to"] = "acme\u{200b}-4711          x".into();
    desk.bench.write("proposal.json", odd.to_string());
    let run = desk.attest(&[]);
    assert_eq!(run.code, 0, "{run:?}");
    for part in [
        "tool       \"payments_send\"\n",
        "impact     money\n",
        "intent     \"pay\\u202eyap\\n\"\n",
        "claim      \"the invoice is due\" by \"invoice\"\n",
        "\"amount\": 500,\n",
        "\"acme\\u200b-4711        \\u0020\\u0020x\"\n",
        "\"x_principal\": \"alice\",\n",
    ] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    assert!(!run.err.contains('\u{202e}') && !run.err.contains('\u{200b}'));
    assert!(!run.err.contains("strict"), "{}", run.err);
    let until = run.err.lines().find(|line| line.starts_with("until      ")).unwrap();
    assert!(until.contains("Z, and no longer than session \""), "{until}");
    let less = desk.attest(&[("--unbound", ""), ("--audience", "LEFT OUT"), ("--session", "LEFT OUT")]);
    assert!(less.err.contains("It does not bind the audience, the session"), "{}", less.err);
}

#[test]
fn an_attestation_that_could_not_verify_is_not_made() {
    let desk = Desk::new();
    refused(&desk.attest(&[("--evidence-id", "order")]), 1, "ATTEST_EVIDENCE_ID");
    refused(&desk.attest(&[("--key-id", " cfo")]), 1, "ATTEST_KEY_ID");
    refused(&desk.attest(&[("--nonce", "short")]), 1, "ATTEST_NONCE");
    refused(&desk.attest(&[("--ttl", "0s")]), 1, "ATTEST_TIMES");
    refused(&desk.attest(&[("--ttl", "soon")]), 2, "USAGE");
    refused(&desk.attest(&[("--issued", "yesterday")]), 2, "USAGE");
    refused(&desk.attest(&[("--key", "cfo.pub")]), 1, "KEY_FILE_KIND");
    refused(&desk.attest(&[("--key", "no.key")]), 1, "KEY_FILE_MISSING");
    refused(&desk.attest(&[("--proposal", "no.json")]), 1, "FILE_MISSING");
    refused(&desk.attest(&[("--into", "look.json")]), 1, "FILE_EXISTS");
    desk.signed();
    refused(&desk.attest(&[("--proposal", "signed.json")]), 1, "EVIDENCE_ID_TAKEN");
    desk.bench.write("proposal.json", "{}");
    refused(&desk.attest(&[]), 2, "PIC_SCHEMA_INVALID");
}

#[test]
fn the_entry_goes_where_it_is_asked_for() {
    let desk = Desk::new();
    let entry: Value = serde_json::from_str(&desk.attest(&[]).out).unwrap();
    assert_eq!(
        (&entry["id"], &entry["type"], &entry["alg"]),
        (&json!("invoice"), &json!("sig"), &json!("ed25519"))
    );
    let whole = desk.attest(&[("--into", "-")]).out;
    desk.bench.write("whole.json", &whole);
    assert_eq!(desk.verify("whole.json", &[]).code, 0);
    let report: Value = serde_json::from_str(&desk.attest(&[("--json", "")]).out).unwrap();
    assert_eq!((&report["ok"], &report["entry"]["key_id"]), (&json!(true), &json!("cfo-1")));
    let name = "a\u{202e}b\u{1b}[1m.json";
    assert_eq!(desk.attest(&[("--into", name)]).out, "in a\\u{202e}b\\u{1b}[1m.json\n");
    assert!(desk.bench.path(name).exists());

    // A number with several decimal spellings keeps its canonical form.
    let text = desk.bench.read("proposal.json").replace("500", "0.30000000000000004");
    desk.bench.write("proposal.json", text);
    desk.bench.write("args.json", r#"{"amount":0.30000000000000004,"to":"acme-4711"}"#);
    desk.signed();
    assert_eq!(desk.verify("signed.json", &[]).code, 0);
}

#[test]
fn the_exit_codes_are_those_of_the_reference() {
    let desk = Desk::new();
    let bench = &desk.bench;
    desk.signed();
    bench.write("broken.json", "{\"protocol\":");
    bench.write("array.json", "[]");
    bench.write("twice.json", look().to_string().replacen('{', "{\"intent\":\"x\",", 1));
    bench.write("long.json", format!("{}{}", look(), " ".repeat(64_000)));
    let mut other = transfer();
    other["impact"] = "huge".into();
    bench.write("impact.json", other.to_string());
    let mut other: Value = serde_json::from_str(&bench.read("signed.json")).unwrap();
    other["provenance"][1]["id"] = "invoice".into();
    bench.write("same.json", other.to_string());
    bench.write("bad_ring.json", "{\"trusted_keys\":{\"a\":\"AAAA\"}}");
    bench.write("bad_policy.json", "{\"impact_by_tool\":{\"a\":\"b\"}}");

    bench.fails("proposal verify no.json", 1, "FILE_MISSING");
    bench.fails("proposal verify broken.json", 1, "JSON_UNEXPECTED_END");
    for file in ["array", "twice", "impact"] {
        bench.fails(&format!("proposal verify {file}.json"), 2, "PIC_SCHEMA_INVALID");
        bench.fails(&format!("proposal schema {file}.json"), 2, "PIC_SCHEMA_INVALID");
    }
    bench.fails("proposal schema broken.json", 1, "JSON_UNEXPECTED_END");
    bench.fails("proposal verify long.json", 3, "PIC_LIMIT_EXCEEDED");
    bench.fails("proposal verify same.json", 3, "PIC_DUPLICATE_ID");
    bench.fails("proposal verify look.json --tool other --own-args", 3, "PIC_TOOL_BINDING_MISMATCH");
    bench.fails("proposal verify proposal.json", 4, "PIC_EVIDENCE_REQUIRED");
    bench.fails("proposal verify signed.json", 4, "PIC_EVIDENCE_FAILED");
    bench.fails("proposal verify look.json --keyring bad_ring.json", 6, "KEY_MALFORMED");
    bench.fails("proposal verify look.json --keyring no.json", 6, "FILE_MISSING");
    bench.fails("proposal verify look.json --policy bad_policy.json", 1, "POLICY_IMPACT");
    bench.fails("proposal verify look.json --evidence-root no_such_folder", 1, "EVIDENCE_FOLDER");
    bench.fails("proposal verify look.json --profile pic-1.0", 2, "USAGE");
    bench.fails("proposal verify look.json --endorsed e.json", 2, "USAGE");
    bench.fails("proposal verify look.json --now today", 2, "USAGE");
    bench.fails("proposal verify look.json --no-verify-evidence", 2, "VERIFIER_SKIPS_EVIDENCE");
    bench.fails("proposal verify look.json --legacy-trust", 2, "VERIFIER_TRUSTS_CLAIMS");
    bench.fails("proposal verify - --tool t --args -", 2, "USAGE");
}

#[test]
fn a_policy_and_the_operators_own_list_of_high_impacts_count() {
    let desk = Desk::new();
    let bench = &desk.bench;
    bench.write("policy.json", r#"{"impact_by_tool":{"docs_search":"privacy"}}"#);
    bench.fails("proposal verify look.json --policy policy.json", 3, "IMPACT_UNDERSTATED");
    bench.write("policy.json", r#"{"impact_by_tool":{"other":"read"}}"#);
    bench.fails("proposal verify look.json --policy policy.json", 3, "PIC_POLICY_VIOLATION");
    for high in ["--high write --high read", "--high write,read"] {
        bench.fails(&format!("proposal verify look.json {high}"), 4, "PIC_EVIDENCE_REQUIRED");
    }
}

#[test]
fn refusal_places_are_shown_only_with_debug() {
    let desk = Desk::new();
    desk.signed();
    let wrong = [("--call-id", "call-of-another")];
    let quiet = desk.verify("signed.json", &wrong);
    assert_eq!(quiet.err, WITHHELD);
    let loud = desk.verify("signed.json", &[wrong[0], ("--debug", "")]);
    assert!(loud.err.contains("/evidence/0/payload/x_call_id: "), "{loud:?}");
    let told = |more: &[(&str, &str)]| {
        let run = desk.verify("signed.json", &[&[wrong[0], ("--json", "")], more].concat());
        assert_eq!(run.code, 4, "{run:?}");
        serde_json::from_str::<Value>(&run.out).unwrap()
    };
    assert_eq!(
        told(&[])["error"],
        json!({"code": "PIC_EVIDENCE_FAILED", "message": "evidence does not verify"})
    );
    let details = told(&[("--debug", "")])["error"]["details"].clone();
    assert_eq!(details["place"], "/evidence/0/payload/x_call_id");
    assert_eq!(told(&[])["evidence"], json!([{"id": "invoice", "kind": "sig", "ok": false}]));

    let signed: Value = serde_json::from_str(&desk.bench.read("signed.json")).unwrap();
    let secret = [
        "acme-4711",
        "pay the invoice",
        "the invoice is due",
        "call-of-another",
        signed["evidence"][0]["signature"].as_str().unwrap(),
    ];
    for run in [
        loud,
        desk.verify("signed.json", &[("--tool", "x"), ("--debug", "")]),
        desk.bench.run("proposal verify signed.json --debug --json"),
        desk.bench.run("proposal evidence signed.json"),
        desk.bench.run("proposal evidence signed.json --json"),
        desk.bench.run("proposal schema signed.json --json"),
    ] {
        for value in secret {
            assert!(!run.out.contains(value) && !run.err.contains(value), "{value}: {run:?}");
        }
    }
}

#[test]
fn evidence_is_reported_entry_by_entry() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let sha256 = serde_json::from_str::<Value>(&bench.endorse("--file invoice.txt --key op.key --json"))
        .unwrap()["digests"][0]
        .clone();
    let file =
        |id: &str, reference: &str| json!({"id": id, "type": "hash", "ref": reference, "sha256": sha256});
    let attest = |files: Value, into: &str| {
        let mut filed = transfer();
        filed["evidence"] = files;
        bench.write("filed.json", filed.to_string());
        desk.attest(&[("--proposal", "filed.json"), ("--into", into)])
    };
    let (mail, gone) = (file("mail", "file://invoice.txt"), file("gone", "file://gone.txt"));

    // The signed object names the file entries beside it. With all entries present the signature passes, though one file is gone.
    bench.write("gone.txt", bench.read("invoice.txt"));
    let shown = attest(json!([mail, gone]), "all.json");
    std::fs::remove_file(bench.path("gone.txt")).unwrap();
    assert!(shown.err.contains("file       \"mail\" \"file://invoice.txt\""), "{shown:?}");

    // Profiles of the reference read evidence files beside the proposal; the strict profile needs `--evidence-root`.
    let evidence = |file: &str, changed: &[(&str, &str)]| {
        let fixed = [("--keyring", "keyring.json"), ("--audience", "gate-1"), ("--profile", "pic-0.9")];
        desk.run("evidence", &[file], &fixed, changed)
    };
    let run = evidence("all.json", &[]);
    assert_eq!((run.code, run.err.as_str()), (4, "error PIC_EVIDENCE_FAILED: evidence does not verify\n"));
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!((lines[0], lines[2]), ("PASS  mail  hash", "PASS  invoice  sig"));
    assert!(lines[1].starts_with("FAIL  gone  hash  ref: ") && lines.len() == 3, "{run:?}");
    let report: Value = serde_json::from_str(&evidence("all.json", &[("--json", "")]).out).unwrap();
    assert_eq!(
        (report["ok"].clone(), report["evidence"][1]["place"].clone()),
        (json!(false), json!("/evidence/1/ref"))
    );
    let run = bench.run("proposal evidence all.json --keyring keyring.json");
    assert_eq!((run.code, run.out.matches("FAIL").count()), (4, 3), "{run:?}");

    let looked = |file: &str| {
        let fixed = [
            ("--keyring", "keyring.json"),
            ("--audience", "gate-1"),
            ("--tool", "payments_send"),
            ("--args", "args.json"),
            ("--evidence-root", "."),
        ];
        let run = desk.run("evidence", &[file], &fixed, &[]);
        (run.code, run.out.lines().map(|line| line[..4].to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(looked("all.json"), (4, ["PASS", "FAIL", "PASS"].map(str::to_owned).to_vec()));
    let mut fewer: Value = serde_json::from_str(&bench.read("all.json")).unwrap();
    fewer["evidence"].as_array_mut().unwrap().remove(1);
    bench.write("fewer.json", fewer.to_string());
    assert_eq!(looked("fewer.json"), (4, ["PASS", "FAIL"].map(str::to_owned).to_vec()));

    attest(json!([mail]), "two.json");
    assert_eq!(evidence("two.json", &[]).done(), "PASS  mail  hash\nPASS  invoice  sig\n");
    // The verb does not check that evidence backs a claim.
    let mut other: Value = serde_json::from_str(&bench.read("two.json")).unwrap();
    other["evidence"].as_array_mut().unwrap().pop();
    bench.write("other.json", other.to_string());
    bench.ok("proposal evidence other.json --profile pic-0.9");
    bench.fails("proposal verify other.json --profile pic-0.9 --verify-evidence", 3, "PIC_VERIFIER_FAILED");
    bench.fails("proposal evidence proposal.json", 4, "PIC_EVIDENCE_REQUIRED");
    bench.fails("proposal evidence look.json --tool x --own-args", 4, "PIC_EVIDENCE_REQUIRED");
    bench.fails("proposal evidence two.json --tool x --own-args", 3, "PIC_TOOL_BINDING_MISMATCH");
}

#[test]
fn a_file_raises_trust_where_an_operator_vouches_for_it() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let signed =
        bench.endorse("--file invoice.txt --tool payments_send --impact money --args args.json --key op.key");
    bench.write("endorsed.json", &signed);
    let sha256 = serde_json::from_str::<Value>(&bench.endorse("--file invoice.txt --key op.key --json"))
        .unwrap()["digests"][0]
        .clone();
    let mut proposal = transfer();
    proposal["evidence"] =
        json!([{"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": sha256}]);
    bench.write("filed.json", proposal.to_string());
    let root = ("--evidence-root", ".");
    let vouched = [root, ("--endorsed", "endorsed.json"), ("--trust-root", "root.json")];
    refused(&desk.verify("filed.json", &[]), 4, "PIC_EVIDENCE_FAILED");
    refused(&desk.verify("filed.json", &[root]), 3, "PIC_VERIFIER_FAILED");
    let allowed = desk.verify("filed.json", &vouched).done();
    assert!(allowed.contains("invoice  hash, raises trust, takes one use of its endorsement"), "{allowed}");
    bench.write("endorsed.json", bench.endorse("--file invoice.txt --key op.key"));
    refused(&desk.verify("filed.json", &vouched), 3, "PIC_VERIFIER_FAILED");
    let why = desk.verify("filed.json", &[vouched[0], vouched[1], vouched[2], ("--debug", "")]);
    assert!(why.err.contains("the endorsement of the file binds no arguments"), "{why:?}");

    for narrow in ["--tool other", "--server other", "--impact write", "--principal bob", "--sha256 00"] {
        let narrow = narrow.replace("00", &"0".repeat(64));
        let file = if narrow.starts_with("--sha") { "" } else { "--file invoice.txt " };
        bench
            .write("endorsed.json", bench.endorse(&format!("{file}{narrow} --max /amount=500 --key op.key")));
        refused(&desk.verify("filed.json", &vouched), 3, "PIC_VERIFIER_FAILED");
    }
    bench.write("endorsed.json", bench.endorse("--file invoice.txt --key cfo.key"));
    refused(&desk.verify("filed.json", &vouched), 3, "ENVELOPE_THRESHOLD");
    bench.write("endorsed.json", bench.endorse("--file invoice.txt --key op.key --expires 1m"));
    let later = [vouched[0], vouched[1], vouched[2], ("--now", "2199-01-01T00:00:00Z")];
    refused(&desk.verify("filed.json", &later), 3, "ENDORSEMENT_EXPIRED");
    let report = bench.endorse("--file invoice.txt --key op.key --expires 2199-01-01T00:00:00Z --json");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["expires"], 7_226_582_400_000_u64);

    bench.fails("proposal endorse --key op.key", 2, "USAGE");
    bench.fails("proposal endorse --file no.txt --key op.key", 1, "FILE_MISSING");
    bench.fails(
        "proposal endorse --file invoice.txt --key op.key --expires 2001-01-01T00:00:00Z",
        1,
        "ENDORSEMENT_TIMES",
    );
    bench.fails("proposal endorse --file invoice.txt --key op.key --tool *", 1, "ENDORSEMENT_SCOPE");
    bench.fails("proposal endorse --file invoice.txt --key op.key --expires never", 2, "USAGE");
}

#[test]
fn nothing_is_taken_from_the_environment() {
    let desk = Desk::new();
    desk.signed();
    let keyring = desk.bench.read("keyring.json");
    desk.bench.write("pic_keys.json", &keyring);
    desk.bench.write("pic_policy.json", r#"{"impact_by_tool":{"docs_search":"money"}}"#);
    let mut args = vec!["proposal", "verify", "signed.json", "--profile", "pic-0.9", "--verify-evidence"];
    args.extend(["--audience", "gate-1"]);
    args.extend(BOUND.iter().flat_map(|(name, value)| [name, value]));
    let run = |args: &[&str]| {
        desk.bench
            .command(args)
            .env("PIC_KEYS_PATH", desk.bench.path("keyring.json"))
            .env("PIC_POLICY_PATH", desk.bench.path("pic_policy.json"))
            .env("PIC_DEBUG", "1")
            .output()
            .unwrap()
    };
    let output = run(&args);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), WITHHELD);
    assert_eq!(run(&["proposal", "verify", "look.json"]).status.code(), Some(0));
    assert_eq!(run(&[&args[..], &["--keyring", "keyring.json"]].concat()).status.code(), Some(0));
}

#[test]
fn pic_profile_verifies_evidence_only_on_request() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let mut proposal = look();
    proposal["evidence"] =
        json!([{"id": "i", "type": "hash", "ref": "file://gone.txt", "sha256": "0".repeat(64)}]);
    bench.write("bad.json", proposal.to_string());
    let pic = "proposal verify bad.json --profile pic-0.9";
    bench.ok(pic);
    for asked in ["--verify-evidence", "--keyring keyring.json", "--evidence-root ."] {
        bench.fails(&format!("{pic} {asked}"), 4, "PIC_EVIDENCE_FAILED");
    }
    bench.ok(&format!("{pic} --keyring keyring.json --no-verify-evidence"));
    bench.fails("proposal verify bad.json --evidence-root .", 4, "PIC_EVIDENCE_FAILED");
    bench.fails("proposal verify bad.json", 4, "PIC_EVIDENCE_FAILED");
}

#[test]
fn semi_trusted_is_read_by_pic_0_8_alone() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let mut proposal = look();
    proposal["provenance"] = json!([{"id": "i", "trust": "semi_trusted"}]);
    bench.write("semi.json", proposal.to_string());
    bench.ok("proposal verify semi.json --profile pic-0.8");
    bench.fails("proposal verify semi.json --profile pic-0.9", 2, "PIC_SCHEMA_INVALID");
    bench.fails("proposal verify semi.json", 2, "PIC_SCHEMA_INVALID");
    let mut claimed = transfer();
    claimed["provenance"][0]["trust"] = "semi_trusted".into();
    bench.write("claimed.json", claimed.to_string());
    bench.fails("proposal verify claimed.json --profile pic-0.8", 3, "PIC_VERIFIER_FAILED");
}

#[test]
fn schema_verb_reports_digests_or_the_faulty_place() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let report = bench.run("proposal schema proposal.json --json").value();
    assert_eq!(
        (&report["impact"], &report["provenance"], &report["evidence"]),
        (&json!("money"), &json!(2), &json!(0))
    );
    bench.write("args.json", transfer()["action"]["args"].to_string());
    assert_eq!(bench.ok("json digest args.json --recipe pic-cjson-1").trim_end(), report["args_digest"]);
    let mut wrong = transfer();
    wrong["provenance"][1]["trust"] = "semi_trusted".into();
    bench.write("wrong.json", wrong.to_string());
    let run = bench.run("proposal schema wrong.json");
    assert!(run.err.contains("/provenance/1/trust: must be"), "{run:?}");
}

#[test]
fn keyring_is_reported_key_by_key() {
    let desk = Desk::new();
    let bench = &desk.bench;
    let example = bench.ok("keys keyring --write-example");
    bench.write("example.json", &example);
    bench.fails("keys keyring example.json", 6, "KEY_MALFORMED");
    // The public keys of RFC 8032, section 7.1, tests 1 and 2. Their secrets are public.
    let example = example
        .replace(
            "PUBLIC KEY: base64, 64 hexadecimal digits, or PEM",
            "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        )
        .replace("PUBLIC KEY", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");
    bench.write("example.json", &example);
    let text = bench.ok("keys keyring example.json --now 2027-01-01T00:00:00Z");
    for part in ["2 keys, 2 active", "cfo-1  ok  ", "tools       payments_send", "until       2030-01-01"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    bench.fails("keys keyring example.json --now 2030-01-01T00:00:00Z", 6, "KEYRING_THRESHOLD");
    bench.write("one.json", example.replace(": 2}", ": 1}"));
    let report = bench.run("keys keyring one.json --json --now 2030-01-01T00:00:00Z").value();
    assert_eq!((&report["active"], &report["thresholds"]), (&json!(1), &json!({"irreversible": 1})));
    let cfo = &report["keys"][1];
    assert_eq!(
        (&cfo["id"], &cfo["status"], &cfo["impacts"]),
        (&json!("cfo-1"), &json!("expired"), &json!(["money"]))
    );
    assert_eq!(report["keys"][0]["tools"], Value::Null);

    let refused = |text: &str, code: &str, place: &str| {
        bench.write("bad.json", text);
        bench.fails("keys keyring bad.json", 6, code);
        let run = bench.run("keys keyring bad.json");
        assert!(run.err.contains(&format!("bad.json{place}`")), "{place}: {run:?}");
    };
    refused("{", "JSON_UNEXPECTED_END", "");
    refused("[]", "KEYRING_MALFORMED", "");
    refused(&example.replace("cfo-0", " cfo-0"), "KEYRING_KEY_ID", ", /revoked_keys/0");
    refused(&example.replace("[\"payments_send\"]", "[]"), "KEYRING_SCOPE", ", /trusted_keys/cfo-1");
    refused(&example.replace("2030-01-01", "2030-02-30"), "KEYRING_TIME", ", /trusted_keys/cfo-1/expires_at");
    refused(&example.replace(": 2}", ": 3}"), "KEYRING_THRESHOLD", ", /thresholds/irreversible");
    refused(
        &example.replace("\"assistant-1\": \"11qY", "\"assistant-1\": \""),
        "KEY_MALFORMED",
        ", /trusted_keys/assistant-1",
    );
    bench.fails("keys keyring no.json", 6, "FILE_MISSING");
    bench.fails("keys keyring", 2, "USAGE");
    bench.fails("keys keyring example.json --write-example", 2, "USAGE");
}

#[test]
fn a_keyring_is_made_from_public_key_files() {
    let desk = Desk::new();
    let bench = &desk.bench;
    bench.ok("keys generate --kind ed25519 --out cto.key --public-out cto.pub");
    bench.write("one.json", bench.ok("keys keyring --add cfo-1=cfo.pub"));
    bench.write("two.json", bench.ok("keys keyring one.json --add cto-1=cto.pub"));
    assert!(bench.ok("keys keyring one.json").starts_with("1 key, 1 active"));
    assert!(bench.ok("keys keyring two.json").starts_with("2 keys, 2 active"));
    bench.fails("keys keyring two.json --add cfo-1=cto.pub", 6, "KEYRING_KEY_ID");
    bench.fails("keys keyring two.json --add cfo-2=cfo.pub", 6, "KEYRING_DUPLICATE_KEY");
    bench.fails("keys keyring --add cfo-1=no.pub", 1, "KEY_FILE_MISSING");
    bench.fails("keys keyring --add cto.pub", 2, "USAGE");
}

#[test]
fn a_refusal_without_debug_names_it() {
    let desk = Desk::new();
    let told = desk.verify("proposal.json", &[]).err;
    assert!(told.contains("--debug") && !told.contains("/evidence"), "{told}");
    let told = desk.verify("proposal.json", &[("--debug", "")]).err;
    assert!(!told.contains("--debug") && told.contains("/evidence"), "{told}");
}

#[test]
fn an_attestation_is_not_signed_unasked() {
    let desk = Desk::new();
    let run = desk.attest(&[("--yes", "LEFT OUT"), ("--into", "signed.json")]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.contains("error NOT_A_TERMINAL: "), "{run:?}");
    assert!(!desk.bench.path("signed.json").exists());
}

#[test]
fn an_unbound_attestation_is_refused() {
    let desk = Desk::new();
    let names = BOUND.iter().map(|(name, _)| *name).chain(["--audience"]);
    for name in names {
        refused(&desk.attest(&[(name, "LEFT OUT")]), 1, "ATTEST_UNBOUND");
        assert_eq!(desk.attest(&[(name, "LEFT OUT"), ("--unbound", "")]).code, 0, "{name}");
    }
}

#[test]
fn the_evidence_files_are_opened_and_shown() {
    let desk = Desk::new();
    desk.bench.write("odd.txt", "pay\u{202e}me\nsecond\n3\n4\n5\nsixth\n");
    let digest = countersign_core::Digest::of(desk.bench.read("odd.txt").as_bytes()).to_string();
    let mut filed = transfer();
    filed["evidence"] = json!([{"id": "mail", "type": "hash", "ref": "file://odd.txt", "sha256": digest}]);
    desk.bench.write("filed.json", filed.to_string());
    let of = |more: &[(&str, &str)]| desk.attest(&[&[("--proposal", "filed.json")], more].concat());
    let shown = of(&[]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [" bytes\n", "| \"pay\\u202eme\"\n", "| \"5\"\n", "| (more)\n"] {
        assert!(shown.err.contains(part), "{part}: {}", shown.err);
    }
    assert!(!shown.err.contains("sixth"), "{}", shown.err);
    refused(&of(&[("--evidence-root", "LEFT OUT")]), 1, "EVIDENCE_ROOT_MISSING");
    desk.bench.write("odd.txt", "exchanged");
    refused(&of(&[]), 4, "PIC_EVIDENCE_FAILED");
}
