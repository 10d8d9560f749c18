//! Action proposals through a gateway process: money moves only with verified evidence.

#![cfg(unix)]

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::audit_log::FIRST;
use crate::bench::Bench;
use crate::mcp::{Client, SERVER, decision};

const INVOICE: &str = "Invoice 77, Parts Ltd: 1200 EUR to DE02-PARTS\n";

const CONFIG: &str = r#"
[registry]
file = "reg.json"
trust_root = "root.json"
state = "mark.json"
[session]
agent = "accounts-bot"
principal = "alice"
goal = "Pay what is due"
[proposals]
keyring = "keyring.json"
evidence_root = "evidence"
store = "attestations.sqlite"
[record]
folder = "log"
key_file = "log.key"
origin = "example.com/log"
[server]
name = "desk"
"#;

/// Returns a server with `search` and `wire_transfer`, a finance officer whose key counts for transfers, and an invoice.
pub(crate) fn payments() -> Bench {
    let bench = Bench::new();
    bench.write("server.sh", SERVER.replace("\"refund\"", "\"wire_transfer\""));
    for who in ["op", "finance", "stranger"] {
        bench.ok(&format!("keys generate --kind ed25519 --out {who}.key --public-out {who}.pub"));
    }
    bench.ok("keys trust --threshold 1 --out root.json op.pub");
    bench.log_key();
    let run = bench.run("mcp inspect --name desk --agent accounts-bot -- sh server.sh");
    assert_eq!(run.code, 0, "{run:?}");
    let mut draft: Value = serde_json::from_str(&run.out).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        tool["approval"] = json!("not_required");
        match tool["name"].as_str().unwrap() {
            "search" => tool["impact"] = json!("read"),
            "wire_transfer" => {
                tool["impact"] = json!("money");
                tool["evidence"] = json!("required");
            }
            _ => {}
        }
    }
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json");
    let finance = bench.run("keys show finance.pub --json").value();
    let entry = json!({"public_key": finance["public"], "tools": ["wire_transfer"], "impacts": ["money"]});
    bench.write("keyring.json", json!({"trusted_keys": {"finance-1": entry}}).to_string());
    std::fs::create_dir(bench.path("evidence")).unwrap();
    bench.write("evidence/invoice-77.txt", INVOICE);
    bench.write("gateway.toml", CONFIG);
    bench
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn transfer(amount: u32) -> Value {
    json!({"account": "DE02-PARTS", "amount": amount})
}

/// Returns the agent's proposal for a transfer, based on one input that it calls trusted.
fn proposal(input: &str, amount: u32, evidence: Vec<Value>) -> Value {
    let mut proposal = json!({
        "protocol": "PIC/1.0",
        "intent": "Pay invoice 77",
        "impact": "money",
        "provenance": [{"id": input, "trust": "trusted", "source": "somewhere"}],
        "claims": [{"text": format!("Invoice 77, {}, is due", sha256(INVOICE)), "evidence": [input]}],
        "action": {"tool": "wire_transfer", "args": transfer(amount)}
    });
    if !evidence.is_empty() {
        proposal["evidence"] = json!(evidence);
    }
    proposal
}

fn file(id: &str, name: &str, text: &str) -> Value {
    json!({"id": id, "type": "hash", "ref": format!("file://{name}"), "sha256": sha256(text)})
}

fn invoice() -> Value {
    file("invoice", "invoice-77.txt", INVOICE)
}

/// Returns the records of this type, oldest first.
pub(crate) fn recorded(bench: &Bench, kind: &str) -> Vec<Value> {
    bench.entries().into_iter().filter(|line| line["type"] == kind).collect()
}

/// Signs for one call of the latest session and returns the proposal with the attestation in it. Takes the identity of the
/// caller from the record.
fn attest(bench: &Bench, proposal: &Value, call_id: &str, key: &str) -> Value {
    let session = recorded(bench, "session").pop().unwrap();
    bench.write("proposal.json", proposal.to_string());
    let _ = std::fs::remove_file(bench.path("attested.json"));
    let text = |name: &str| session[name].as_str().unwrap().to_owned();
    let run = bench.run(&format!(
        "proposal attest --proposal proposal.json --key {key}.key --key-id finance-1 --evidence-id finance \
         --audience desk --server desk --call-id {call_id} --principal {} --agent {} --session {} --ask {} \
         --registry-version {} --evidence-root evidence --yes --into attested.json",
        text("principal"),
        text("agent"),
        text("session"),
        text("ask"),
        session["registry_version"],
    ));
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&bench.read("attested.json")).unwrap()
}

/// Calls the transfer under this call id, with the proposal among the arguments.
fn wire(client: &mut Client, call_id: &str, amount: u32, proposal: &Value) -> Value {
    let mut args = transfer(amount);
    args["__pic"] = proposal.clone();
    let meta = json!({"dev.countersign/call_id": call_id});
    let params = json!({"name": "wire_transfer", "arguments": args, "_meta": meta});
    client.ask("tools/call", params)["result"].clone()
}

/// Returns the code of a refusal, and checks that the refusal shows the client no secret.
fn refused(result: &Value) -> String {
    let told = result.to_string();
    for secret in ["DE02", "invoice", "finance", "keyring", "/evidence", "must", "attestation"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
    let decision = decision(result);
    assert!(decision["retry"].is_string() && decision["unlock"].is_string(), "{decision}");
    decision["code"].as_str().unwrap().to_owned()
}

fn is_done(result: &Value) -> bool {
    result["content"][0]["text"] == "done"
}

/// Returns the calls that reached the server.
fn reached(bench: &Bench) -> Vec<Value> {
    let Ok(lines) = std::fs::read_to_string(bench.path("calls.txt")) else { return Vec::new() };
    lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["params"].clone()).collect()
}

/// Returns [`payments`] with an approval required for every transfer.
fn asking() -> Bench {
    let bench = payments();
    bench.ok("keys generate --kind hmac --out gate.key");
    bench.ok("store init approvals.sqlite");
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        if tool["name"] == "wire_transfer" {
            tool["approval"] = json!("each_call");
        }
    }
    bench.write("draft.json", draft.to_string());
    std::fs::remove_file(bench.path("reg.json")).unwrap();
    bench.ok("registry sign draft.json --key op.key --out reg.json");
    let approval = "[approval]\nkey_file = \"gate.key\"\nstore = \"approvals.sqlite\"\n";
    // Approvals and attestations share one store.
    let config = CONFIG.replace("store = \"attestations.sqlite\"\n", "");
    bench.write("gateway.toml", config.replacen("[record]", &format!("{approval}[record]"), 1));
    bench
}

#[test]
fn who_is_asked_sees_claims_evidence_and_signer() {
    let bench = asking();
    let mut client = Client::start(&bench);
    let mut attested = attest(&bench, &proposal("finance", 1_200, vec![]), "c1", "finance");
    attested["intent"] = json!("Pay invoice 77");
    let id = decision(&wire(&mut client, "c1", 1_200, &attested))["approval_id"].as_str().unwrap().to_owned();
    let shown = bench.ok(&format!("approve {id} --config gateway.toml --show"));
    for line in [
        "proposal   verified by strict, impact money (information: the approval does not bind it)",
        "intent     \"Pay invoice 77\"",
        "evidence   \"finance\" sig verified, signed by \"finance-1\", sha-256 ",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}: {shown}");
    }
    assert!(
        shown.contains("\nclaim      \"Invoice 77, ") && shown.contains(" (cites \"finance\")\n"),
        "{shown}"
    );
    let report = bench.run(&format!("approve {id} --config gateway.toml --show --json")).value();
    let proposal = &report["proposal"];
    assert_eq!((&proposal["code"], &proposal["impact"]), (&Value::Null, &json!("money")));
    let piece = &proposal["evidence"][0];
    assert_eq!((&piece["verified"], &piece["key"]), (&json!(true), &json!("finance-1")));
    assert_eq!(proposal["claims"][0]["evidence"], json!(["finance"]));
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    assert!(is_done(&wire(&mut client, "c1", 1_200, &attested)));
    client.end();
}

#[test]
fn who_is_asked_sees_that_a_proposal_did_not_verify() {
    let bench = asking();
    let mut client = Client::start(&bench);
    let mut unbacked = proposal("invoice", 1_200, vec![invoice()]);
    unbacked["claims"][0]["text"] = json!("verified by finance\u{202e}\nevidence   ok");
    let id = decision(&wire(&mut client, "c1", 1_200, &unbacked))["approval_id"].as_str().unwrap().to_owned();
    let shown = bench.ok(&format!("approve {id} --config gateway.toml --show"));
    for line in [
        "proposal   NOT VERIFIED by strict: PIC_VERIFIER_FAILED (information: the approval does not bind it)",
        "claim      \"verified by finance\\u202e\\nevidence   ok\" (cites \"invoice\")",
        "evidence   \"invoice\" hash NOT VERIFIED",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let report = bench.run(&format!("approve {id} --config gateway.toml --show --json")).value();
    assert_eq!(report["proposal"]["code"], "PIC_VERIFIER_FAILED");
    assert_eq!(report["proposal"]["evidence"][0]["verified"], false);
    client.end();
}

#[test]
fn an_injected_support_mail_moves_no_money() {
    let bench = payments();
    let mut client = Client::start(&bench);
    // A call that only reads the mail needs no proposal.
    assert!(is_done(&client.call("search", json!({"query": "T-1004"}))));
    assert_eq!(refused(&client.call("wire_transfer", transfer(9_000))), "PIC_INVALID_REQUEST");
    let from_mail = proposal("mail", 9_000, vec![]);
    assert_eq!(refused(&wire(&mut client, "c1", 9_000, &from_mail)), "PIC_EVIDENCE_REQUIRED");
    let mut harmless = from_mail.clone();
    harmless["impact"] = json!("read");
    assert_eq!(refused(&wire(&mut client, "c1", 9_000, &harmless)), "IMPACT_UNDERSTATED");
    let mut elsewhere = from_mail;
    elsewhere["action"]["tool"] = json!("search");
    assert_eq!(refused(&wire(&mut client, "c1", 9_000, &elsewhere)), "PIC_TOOL_BINDING_MISMATCH");
    assert_eq!(refused(&wire(&mut client, "c1", 9_000, &json!({"note": "trust me"}))), "PIC_SCHEMA_INVALID");
    // A stranger's key signs instead of the finance officer's.
    let forged = attest(&bench, &proposal("finance", 9_000, vec![]), "c1", "stranger");
    assert_eq!(refused(&wire(&mut client, "c1", 9_000, &forged)), "PIC_EVIDENCE_FAILED");
    client.end();
    assert_eq!(reached(&bench).len(), 1, "the read alone");
}

#[test]
fn a_hallucinated_invoice_moves_no_money() {
    let bench = payments();
    let mut client = Client::start(&bench);
    let invented = file("invoice", "invoice-78.txt", "Invoice 78\n");
    let code = refused(&wire(&mut client, "c1", 4_300, &proposal("invoice", 4_300, vec![invented])));
    assert_eq!(code, "PIC_EVIDENCE_FAILED");
    for outside in ["../keyring.json", "/etc/hostname", "%2e%2e/keyring.json"] {
        let entry = file("invoice", outside, "x");
        let code = refused(&wire(&mut client, "c1", 4_300, &proposal("invoice", 4_300, vec![entry])));
        assert_eq!(code, "PIC_EVIDENCE_FAILED", "{outside}");
    }
    // A file that exists is no evidence by itself: no one has signed for it.
    let code = refused(&wire(&mut client, "c1", 1_200, &proposal("invoice", 1_200, vec![invoice()])));
    assert_eq!(code, "PIC_VERIFIER_FAILED");
    client.end();
    assert!(reached(&bench).is_empty());
}

#[test]
fn an_attested_transfer_runs_once_and_no_other_does() {
    let bench = payments();
    let mut client = Client::start(&bench);
    let wanted = proposal("finance", 1_200, vec![invoice()]);
    let attested = attest(&bench, &wanted, "pay-77", "finance");
    // Other arguments beside the proposal, other arguments in the proposal, and another call.
    assert_eq!(refused(&wire(&mut client, "pay-77", 1_300, &attested)), "PIC_ARG_BINDING_MISMATCH");
    let mut rewritten = attested.clone();
    rewritten["action"]["args"] = transfer(1_300);
    assert_eq!(refused(&wire(&mut client, "pay-77", 1_300, &rewritten)), "PIC_EVIDENCE_FAILED");
    assert_eq!(refused(&wire(&mut client, "pay-78", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    // An edited invoice, and an edited invoice whose new digest the agent fills in.
    bench.write("evidence/invoice-77.txt", INVOICE.replace("DE02", "XX99"));
    assert_eq!(refused(&wire(&mut client, "pay-77", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    let edited = attested.to_string().replace(&sha256(INVOICE), &sha256(&INVOICE.replace("DE02", "XX99")));
    let edited = serde_json::from_str(&edited).unwrap();
    assert_eq!(refused(&wire(&mut client, "pay-77", 1_200, &edited)), "PIC_EVIDENCE_FAILED");
    bench.write("evidence/invoice-77.txt", INVOICE);
    assert!(reached(&bench).is_empty());

    assert!(is_done(&wire(&mut client, "pay-77", 1_200, &attested)));
    assert_eq!(refused(&wire(&mut client, "pay-77", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    // The same transfer may run again with a new signature.
    let again = attest(&bench, &wanted, "pay-77b", "finance");
    assert!(is_done(&wire(&mut client, "pay-77b", 1_200, &again)));
    assert_eq!(client.end(), (0, String::new()));

    let calls = reached(&bench);
    assert_eq!(calls.len(), 2);
    for call in &calls {
        assert_eq!(
            call,
            &json!({"name": "wire_transfer", "arguments": transfer(1_200)}),
            "nothing but the call"
        );
    }
    let decisions = recorded(&bench, "decision");
    let codes: Vec<_> = decisions.iter().map(|line| line["code"].as_str().unwrap_or("accept")).collect();
    let failed = "PIC_EVIDENCE_FAILED";
    assert_eq!(
        codes,
        ["PIC_ARG_BINDING_MISMATCH", failed, failed, failed, failed, "accept", failed, "accept"]
    );
    assert!(decisions.iter().all(|line| line["proposal"]["profile"] == "strict"), "{decisions:?}");
    let paid = &decisions[5];
    assert_eq!((&paid["call_id"], &paid["impact"]), (&json!("pay-77"), &json!("money")));
    assert_eq!(paid["proposal"]["evidence"][0]["key"], "finance-1");
    assert_eq!(paid["proposal"]["evidence"][1]["digest"], sha256(INVOICE));
    assert!(decisions[1]["reason"].as_str().unwrap().contains("args_digest"), "{}", decisions[1]);
    assert!(!bench.read(FIRST).contains("DE02"), "no argument is on record");
    bench.verified();
}

#[test]
fn an_endorsement_backs_its_one_call_through_the_gateway() {
    let bench = payments();
    bench.ok("store init attestations.sqlite");
    bench.write("gateway.toml", CONFIG.replace("store =", "endorsed = \"endorsed.json\"\nstore ="));
    let endorse = "--file evidence/invoice-77.txt --tool wire_transfer --impact money --expires 1d \
                   --arg /account=DE02-PARTS --max /amount=1200";
    bench.write("endorsed.json", bench.endorse(&format!("{endorse} --key op.key")));
    let mut client = Client::start(&bench);
    let wanted = proposal("invoice", 1_200, vec![invoice()]);
    let more = proposal("invoice", 1_201, vec![invoice()]);
    assert_eq!(refused(&wire(&mut client, "c0", 1_201, &more)), "PIC_VERIFIER_FAILED");
    assert!(is_done(&wire(&mut client, "c1", 1_200, &wanted)));
    for call_id in ["c1", "c2"] {
        assert_eq!(refused(&wire(&mut client, call_id, 1_200, &wanted)), "PIC_VERIFIER_FAILED");
    }
    bench.write("evidence/other.txt", "Other\n");
    let other = proposal("invoice", 1_200, vec![file("invoice", "other.txt", "Other\n")]);
    assert_eq!(refused(&wire(&mut client, "c3", 1_200, &other)), "PIC_VERIFIER_FAILED");
    assert_eq!(client.end(), (0, String::new()));
    // An endorsement by a key outside the operator's trust root does not count.
    bench.write("endorsed.json", bench.endorse(&format!("{endorse} --key stranger.key")));
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 3 && run.err.contains("endorsed.json"), "{run:?}");
}

#[test]
fn a_proposal_may_come_as_metadata_and_not_in_both_places() {
    let bench = payments();
    let mut client = Client::start(&bench);
    let attested = attest(&bench, &proposal("finance", 1_200, vec![]), "pay-77", "finance");
    let params = |args: Value, proposal: &Value| {
        let meta = json!({"dev.countersign/proposal": proposal, "dev.countersign/call_id": "pay-77"});
        json!({"name": "wire_transfer", "arguments": args, "_meta": meta})
    };
    let mut both = transfer(1_200);
    both["__pic"] = attested.clone();
    let result = client.ask("tools/call", params(both, &attested))["result"].clone();
    assert_eq!(decision(&result)["code"], "MALFORMED_CALL");
    let result = client.ask("tools/call", params(transfer(1_200), &json!("x")))["result"].clone();
    assert_eq!(decision(&result)["code"], "PIC_INVALID_REQUEST");
    assert!(is_done(&client.ask("tools/call", params(transfer(1_200), &attested))["result"]));
    client.end();
    assert_eq!(reached(&bench), [json!({"name": "wire_transfer", "arguments": transfer(1_200)})]);
}

#[test]
fn the_id_in_a_refusal_is_one_that_can_be_attested_to() {
    let bench = payments();
    let mut client = Client::start(&bench);
    let refusal = client.call("wire_transfer", transfer(1_200));
    let call_id = decision(&refusal)["call_id"].as_str().unwrap().to_owned();
    let attested = attest(&bench, &proposal("finance", 1_200, vec![]), &call_id, "finance");
    let mut unnamed = transfer(1_200);
    unnamed["__pic"] = attested.clone();
    assert_eq!(refused(&client.call("wire_transfer", unnamed)), "PIC_EVIDENCE_FAILED");
    assert!(is_done(&wire(&mut client, &call_id, 1_200, &attested)));
    client.end();
}

#[test]
fn an_attestation_is_of_one_session() {
    let bench = payments();
    let mut client = Client::start(&bench);
    let attested = attest(&bench, &proposal("finance", 1_200, vec![]), "c1", "finance");
    client.end();
    client = Client::start(&bench);
    assert_eq!(refused(&wire(&mut client, "c1", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    client.end();
    assert!(recorded(&bench, "decision")[0]["reason"].as_str().unwrap().contains("x_session"));
    assert!(reached(&bench).is_empty());
}

#[test]
fn gateway_without_proposals_strips_reserved_members() {
    let bench = crate::mcp::gateway();
    let mut client = Client::start(&bench);
    let beside = |id: &str| json!({"id": 7, "__pic": {"anything": "at all"}, "__pic_request_id": id});
    assert!(is_done(&client.call("search", json!({"query": "x", "__pic": 1, "__pic_request_id": "r-1"}))));
    // The approval binds the call without the reserved members, so a retry may bring others.
    let refusal = client.call("refund", beside("r-2"));
    let id = decision(&refusal)["approval_id"].as_str().unwrap().to_owned();
    let pending = bench.run("approve list --config gateway.toml --json").value();
    assert_eq!(pending["pending"][0]["args"], "{\"id\":7}");
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    assert!(is_done(&client.call("refund", beside("r-3"))));
    client.end();
    assert_eq!(
        reached(&bench),
        [
            json!({"name": "search", "arguments": {"query": "x"}}),
            json!({"name": "refund", "arguments": {"id": 7}}),
        ]
    );
    let ids: Vec<_> = recorded(&bench, "decision").iter().map(|line| line["request_id"].clone()).collect();
    assert_eq!(ids, ["r-1", "r-2", "r-3"]);
    let text = bench.read(FIRST);
    assert!(!text.contains("anything") && !text.contains("\"proposal\""), "{text}");
}

#[test]
fn bad_proposal_settings_create_no_file() {
    let bench = payments();
    let fails = |text: &str, exit: i32, code: &str| {
        bench.write("gateway.toml", text);
        let before = bench.snapshot();
        let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
        assert_eq!((run.code, run.out.as_str()), (exit, ""), "{code}: {run:?}");
        assert!(run.err.starts_with(&format!("error {code}: ")), "{code}: {run:?}");
        assert_eq!(run.err.lines().count(), 1, "{code}: {run:?}");
        assert_eq!(bench.snapshot(), before, "{code}");
    };
    let with = |line: &str| CONFIG.replace("[record]", &format!("{line}\n[record]"));
    let approval = "[approval]\nkey_file = \"gate.key\"\nstore = \"approvals.sqlite\"\n[record]";
    bench.ok("keys generate --kind hmac --out gate.key");
    fails(&with("profile = \"lenient\""), 1, "CONFIG_MALFORMED");
    fails(&with("profile = \"Strict\""), 1, "CONFIG_MALFORMED");
    fails(&with("skip_evidence = true"), 1, "CONFIG_MALFORMED");
    fails(&with("high_impacts = [\"everything\"]"), 1, "CONFIG_MALFORMED");
    fails(&with("high_impacts = \"external\""), 1, "CONFIG_MALFORMED");
    fails(&with("max_attestation_age = \"a day\""), 1, "CONFIG_MALFORMED");
    fails(&with("audience = \"\""), 1, "CONFIG_MALFORMED");
    fails(&CONFIG.replace("store = \"attestations.sqlite\"\n", ""), 1, "CONFIG_NO_STORE");
    fails(&CONFIG.replace("[record]", approval), 1, "CONFIG_CONFLICT");
    fails(&CONFIG.replace("\"evidence\"", "\"nowhere\""), 1, "EVIDENCE_FOLDER");
    fails(&CONFIG.replace("\"evidence\"", "\"reg.json\""), 1, "EVIDENCE_FOLDER");
    fails(&CONFIG.replace("keyring.json", "none.json"), 1, "FILE_MISSING");
    fails(&with("policy = \"none.json\""), 1, "FILE_MISSING");
    fails(&with("endorsed = \"none.json\""), 1, "FILE_MISSING");
    fails(&with("endorsed = \"reg.json\""), 3, "ENVELOPE_PAYLOAD_TYPE");
    fails(
        &with("endorsed = \"reg.json\"").replace("evidence_root = \"evidence\"\n", ""),
        1,
        "CONFIG_CONFLICT",
    );
    bench.write("policy.json", "{\"impact_by_tool\": {\"wire_transfer\": \"cheap\"}}");
    fails(&with("policy = \"policy.json\""), 1, "POLICY_IMPACT");
    bench.write("keyring.json", "{\"trusted_keys\": {\"a\": \"b\"}}");
    fails(CONFIG, 1, "KEY_MALFORMED");
    bench.write("keyring.json", "{}{}");
    fails(CONFIG, 1, "JSON_TRAILING_DATA");
}

#[test]
fn the_paths_are_taken_from_the_configurations_own_folder() {
    let (bench, elsewhere) = (payments(), Bench::new());
    bench.write("policy.json", "{\"impact_by_tool\": {}}");
    bench
        .write("endorsed.json", bench.endorse("--file policy.json --impact write --expires 1d --key op.key"));
    let more = "policy = \"policy.json\"\nendorsed = \"endorsed.json\"\n[record]";
    bench.write("gateway.toml", CONFIG.replace("[record]", more));
    let config = bench.path("gateway.toml").display().to_string();
    let server = bench.path("server.sh").display().to_string();
    let run = elsewhere.run_args(&["mcp", "run", "--config", &config, "--", "sh", &server], "");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(bench.path("attestations.sqlite").exists() && elsewhere.snapshot().is_empty());
}

#[test]
fn endorsement_by_a_revoked_key_is_refused() {
    let bench = payments();
    bench.ok("keys trust --threshold 1 --out root.json --force op.pub stranger.pub");
    let key_id = bench.run("keys show stranger.pub --json").value()["key_id"].clone();
    let endorse = "--file evidence/invoice-77.txt --impact write --expires 1d --key stranger.key";
    bench.write("endorsed.json", bench.endorse(endorse));
    bench.write("gateway.toml", CONFIG.replace("store =", "endorsed = \"endorsed.json\"\nstore ="));
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    draft["version"] = json!(2);
    draft["revoked"]["keys"] = json!([key_id]);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 3 && run.err.contains("endorsed.json"), "{run:?}");
}

#[test]
fn attestations_are_spent_in_the_approvals_store() {
    let bench = payments();
    bench.ok("keys generate --kind hmac --out gate.key");
    let approval =
        "[approval]\nkey_file = \"gate.key\"\nstore = \"approvals.sqlite\"\naudience = \"desk\"\n[record]";
    let config = CONFIG.replace("store = \"attestations.sqlite\"\n", "").replace("[record]", approval);
    bench.write("gateway.toml", config);
    let mut client = Client::start(&bench);
    let attested = attest(&bench, &proposal("finance", 1_200, vec![]), "c1", "finance");
    assert!(is_done(&wire(&mut client, "c1", 1_200, &attested)));
    assert_eq!(refused(&wire(&mut client, "c1", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    client.end();
    let files: Vec<_> = bench.snapshot().into_iter().map(|(name, _)| name).collect();
    let has = |part: &str| files.iter().filter(|name| name.contains(part)).count();
    assert!(has("approvals.sqlite") > 0, "{files:?}");
    assert_eq!(
        (has("sqlite"), has("approvals")),
        (has("approvals.sqlite"), has("approvals.sqlite")),
        "{files:?}"
    );
}

#[test]
fn operator_settings_tighten_the_proposal_checks() {
    let bench = payments();
    let config =
        CONFIG.replace("[record]", "high_impacts = [\"read\"]\nmax_attestation_age = \"1ms\"\n[record]");
    bench.write("gateway.toml", config);
    let mut client = Client::start(&bench);
    assert_eq!(refused(&client.call("search", json!({"query": "x"}))), "PIC_INVALID_REQUEST");
    let attested = attest(&bench, &proposal("finance", 1_200, vec![]), "c1", "finance");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(refused(&wire(&mut client, "c1", 1_200, &attested)), "PIC_EVIDENCE_FAILED");
    client.end();
    assert!(recorded(&bench, "decision")[1]["reason"].as_str().unwrap().contains("issued_at"));
    assert!(reached(&bench).is_empty());
}
