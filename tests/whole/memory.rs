use std::fs;
use std::process::Command;
use std::sync::Arc;

use countersign::action_proposal::{MemoryEvidence, Profile, ProposalVerifier};
use countersign::approval_token::MemorySpentTokens;
use countersign::audit_log::MemorySink;
use countersign::core::Digest;
use countersign::tool_gate::{CallError, ProposalSettings, RejectionCode, ToolCall, ToolGate};

/// Variable that marks the child process in which memory is measured. No other test runs there.
const CHILD: &str = "COUNTERSIGN_MEMORY_CHILD";

const MIB: u64 = 1 << 20;

#[test]
#[ignore = "a million calls: run in release mode"]
fn a_million_refused_calls_do_not_grow_the_process() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "memory::in_a_process_of_its_own", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("grown by"), "the measurement ran: {said}");
    said.lines().filter(|line| line.contains("grown by")).for_each(|line| println!("{line}"));
}

#[test]
#[ignore = "runs in a child process of the test above"]
fn in_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let gate = crate::world::gate(Arc::new(MemorySink::new())).open().unwrap();
    let refuse = |from: u32, to: u32| {
        for n in from..to {
            let (id, name) = (format!("call-{n}"), format!("made_up_tool_{n}"));
            assert!(gate.check(&ToolCall::new(&id, "desk", &name, br#"{"q":1}"#)).is_err());
        }
    };
    // The bounded rings fill up first.
    refuse(0, 10_000);
    let before = resident();
    refuse(10_000, 1_010_000);
    let grown = resident().saturating_sub(before);
    println!("a million refused calls: grown by {} KiB", grown / 1_024);
    assert_eq!(gate.attempted_undisclosed().count(), 1_010_000);
    assert!(grown < 8 * MIB, "grown by {grown} bytes");
    proposals_leave_nothing_behind();
}

/// Calls whose proposals carry 256 KiB of evidence each, half of them refused after it was read.
fn proposals_leave_nothing_behind() {
    let file = vec![b'x'; 256 << 10];
    let verifier = ProposalVerifier::builder(Profile::Strict)
        .resolver(Arc::new(MemoryEvidence::new().with("file://x", file.clone())))
        .build()
        .unwrap();
    let settings = ProposalSettings::new(Arc::new(verifier), Arc::new(MemorySpentTokens::new()));
    let gate = crate::world::gate(Arc::new(MemorySink::new())).proposals(settings).open().unwrap();
    let entry = format!(r#"{{"id":"x","type":"hash","ref":"file://x","sha256":"{}"}}"#, Digest::of(&file));
    let proposal = |impact: &str, n: u32| {
        format!(
            r#"{{"protocol":"PIC/1.0","intent":"call {n}","impact":"{impact}",
                "provenance":[{{"id":"x","trust":"untrusted"}}],"claims":[{{"text":"{n}","evidence":["x"]}}],
                "action":{{"tool":"search","args":{{}}}},"evidence":[{entry}]}}"#
        )
    };
    let check = |from: u32, to: u32| {
        for n in from..to {
            assert_eq!(answer(&gate, &format!("call-{n}"), &proposal("read", n)), None);
            let refused = answer(&gate, &format!("call-{n}"), &proposal("money", n));
            assert_eq!(refused, Some(RejectionCode::PicVerifierFailed));
        }
    };
    check(0, 1_000);
    let before = resident();
    check(1_000, 6_000);
    let grown = resident().saturating_sub(before);
    println!("ten thousand proposals with evidence: grown by {} KiB", grown / 1_024);
    assert!(grown < 8 * MIB, "grown by {grown} bytes");
}

fn answer(gate: &ToolGate, id: &str, proposal: &str) -> Option<RejectionCode> {
    match gate.check(&ToolCall::new(id, "desk", "search", b"{}").proposal(proposal.as_bytes())) {
        Ok(accepted) => match accepted.run(|_| Ok::<(), ()>(())) {
            Err(CallError::Rejected(no)) => Some(no.code()),
            Ok(()) | Err(_) => None,
        },
        Err(no) => Some(no.code()),
    }
}

/// Resident memory of this process in bytes, as Linux reports it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}
