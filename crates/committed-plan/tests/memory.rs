//! Memory of a plan is linear in its steps: twenty times as many take at most twenty times as much, for the plan, its
//! tree and the work of committing.
//!
//! Each plan is committed in its own process, whose peak the system reports (`VmHWM`).
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot measure is to fail, and its numbers are small"
)]

use std::io::Write as _;
use std::process::Command;

use countersign_committed_plan::{OpenPlace, Plan, PlanContext, PlanContract, Step};
use countersign_core::{Digest, SessionId, ToolId};

/// Number of steps to commit, set in a child process.
const STEPS: &str = "COUNTERSIGN_PLAN_STEPS";

struct Anything;

impl PlanContract for Anything {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}

#[test]
fn memory_is_linear_in_the_steps() {
    let (few, many) = (peak_of(5_000), peak_of(100_000));
    assert!(few > 1 << 20, "what is measured is the plan: {few} bytes");
    // Growing lists double their capacity, so one size may have just doubled and the other not.
    assert!(many <= few * 20 * 3 / 2, "{many} bytes for twenty times {few}");
    assert!(many >= few * 20 / 3, "{many} bytes are not twenty times {few}: was it committed?");
}

/// Growth in bytes, at its peak, of a process that commits a plan with that number of steps.
fn peak_of(steps: u64) -> u64 {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "in_a_process_of_its_own", "--nocapture"])
        .env(STEPS, steps.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let grown = said.lines().find_map(|line| line.split_once("grown by ")).unwrap().1;
    grown.trim().parse().unwrap()
}

#[test]
#[ignore = "runs in a child process of the test above"]
fn in_a_process_of_its_own() {
    let Ok(steps) = std::env::var(STEPS) else { return };
    let before = peak();
    let args = br#"{"to":"bob@example.com","subject":"a subject of some words","body":"<DYNAMIC>"}"#;
    let step = Step::new(ToolId::new("mail", "send").unwrap(), args, &[]).unwrap();
    let steps = vec![step; steps.parse().unwrap()];
    let context = PlanContext::new(Digest::of(b"goal"), SessionId::new("s-1").unwrap(), 7).unwrap();
    let plan = Plan::new(context, steps).unwrap().commit(&Anything).unwrap();
    writeln!(std::io::stdout(), "grown by {}", peak().saturating_sub(before)).unwrap();
    assert!(plan.prove_step(1).is_some(), "the plan lived until here");
}

/// Peak memory of this process in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1_024
}
