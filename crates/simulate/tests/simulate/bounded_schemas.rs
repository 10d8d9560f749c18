//! Recursive schemas at the gate: calls, planned steps and simulations end in bounded time and memory.
//!
//! Memory is measured in a process of its own, by its peak in the kernel (`VmHWM`).

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cases::{DAY, all, changed, fields};
use super::plan_world::{start_plan, step};
use super::registries::load_draft;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// Set in the child process that measures memory, where no other test runs.
const CHILD: &str = "COUNTERSIGN_SCHEMA_CHILD";

/// Maximum time of one answer on a loaded machine, without optimisation. A second recursive path would take minutes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The world's registry with this schema for the arguments of `search`, whose member `not` may stay open.
fn registry(version: u64, schema: &Value) -> Arc<countersign_registry::CapabilityRegistry> {
    let mut draft: Value = serde_json::from_str(&draft(version, NONE_REVOKED)).unwrap();
    draft["tools"][0]["args_schema"] = schema.clone();
    draft["tools"][0]["data_args"] = json!(["/not"]);
    load_draft(&draft.to_string(), DAY)
}

fn schemas() -> Vec<Value> {
    let one = |name: &str, of: Value| json!({"required": [name], "properties": {name: of}, "additionalProperties": false});
    let list = json!({"type": "array", "items": {"$ref": "#"}});
    let not = one("not", json!({"$ref": "#"}));
    let filter = json!({"oneOf": [one("and", list.clone()), one("or", list), not, one("eq", json!({"type": "number"}))]});
    let way = json!({"properties": {"not": {"$ref": "#"}, "eq": {"type": "number"}}});
    vec![filter, json!({"anyOf": [way, way]}), json!({"allOf": [way, way]})]
}

/// Arguments of 32 levels, the deepest that a gate reads.
fn deepest(leaf: &str) -> String {
    format!("{}{{\"eq\":{leaf}}}{}", "{\"not\":".repeat(31), "}".repeat(31))
}

/// Maximum memory of one answer, in addition to the memory of the process.
const MEMORY: u64 = 16 << 20;

#[expect(clippy::disallowed_methods, reason = "the test measures how long an answer takes")]
fn bounded<T>(answer: impl FnOnce() -> T) -> T {
    // Resets the peak: proc(5), `clear_refs`.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, start) = (peak(), Instant::now());
    let answer = answer();
    let (took, grown) = (start.elapsed(), peak().saturating_sub(before));
    assert!(took < PATIENCE, "{took:?}");
    assert!(grown < MEMORY, "grown by {grown} bytes");
    answer
}

/// 250 KiB of small objects. The evaluator's own form of them would take a hundred times as many bytes.
fn many() -> String {
    let list = format!("[{}{{}}]", r#"{"":0},"#.repeat(9_000));
    format!(r#"{{"a":[{}{list}],"eq":"x"}}"#, format!("{list},").repeat(3))
}

/// 1 MiB of arguments, in the shapes that take the most memory once read: alone, beside a proposal, and as a proposal.
fn large() -> impl Iterator<Item = String> {
    let list = |value: &str, of: usize, lists: usize| {
        let list = format!("[{}0]", format!("{value},").repeat(of));
        format!("[{}0]", format!("{list},").repeat(lists))
    };
    let shapes = [("1", 8), ("{}", 5), (r#"{"":0}"#, 2), (r#""""#, 5), (r#""\n""#, 3)];
    shapes.into_iter().flat_map(move |(value, lists)| {
        let shape = list(value, 65_000, lists);
        let half = list(value, 65_000, lists / 2);
        let members = [
            format!(r#""a":{shape}"#),
            format!(r#""a":{half},"__pic":{half}"#),
            format!(r#""a":{shape},"__pic":0"#),
            format!(r#""a":1,"__pic":{shape}"#),
        ];
        members.map(|members| format!("{{{members}}}"))
    })
}

fn attack() {
    let gate = World::new().gate();
    for args in large() {
        let call = ToolCall::new("c", "desk", "search", args.as_bytes());
        assert_eq!(bounded(|| code(&gate, &call)), Some(ArgsSchema));
    }
    let many = many();
    let (right, wrong, open) = (deepest("1"), deepest("\"x\""), deepest("\"<DYNAMIC>\""));
    for schema in schemas() {
        let mut world = World::new();
        world.registry = registry(1, &schema);
        let gate = world.gate();
        let call = |args: &str| code(&gate, &ToolCall::new("c", "desk", "search", args.as_bytes()));
        assert_eq!(bounded(|| call(&right)), None, "{schema}");
        assert_eq!(bounded(|| call(&wrong)), Some(ArgsSchema), "{schema}");
        assert_eq!(last_decision(&world).reason.unwrap().as_str(), "the arguments do not fit the schema");
        assert_eq!(bounded(|| call(&many)), Some(ArgsSchema), "{schema}");
        for (args, refused) in [(&wrong, true), (&right, false)] {
            let gate = world.gate();
            let started = bounded(|| start_plan(&gate, vec![step("search", args)]));
            assert_eq!(
                started.err().map(|error| error.code()),
                refused.then_some("PLAN_ARGS_SCHEMA"),
                "{schema}"
            );
        }
        let gate = world.gate();
        assert!(bounded(|| start_plan(&gate, vec![step("search", &open)])).is_ok(), "{schema}");

        let mut plain = World::new();
        plain.registry = registry(1, &json!({"type": "object"}));
        let gate = plain.full().recorded_fields(fields("search")).open().unwrap();
        assert_eq!(code(&gate, &ToolCall::new("c", "desk", "search", wrong.as_bytes())), None);
        let simulation = Simulation::new(registry(2, &schema).view());
        let now = changed(Answer::Accepted, Answer::Refused(ArgsSchema), Basis::Redecided);
        assert_eq!(bounded(|| all(simulation, &plain)), [now], "{schema}");
    }
}

#[test]
fn a_schema_that_leads_back_is_bounded_in_time_and_memory() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    // The limit stops a process that would otherwise use all memory of the machine before it fails.
    let done = Command::new("sh")
        .args(["-c", "ulimit -v 1048576; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "bounded_schemas::in_a_process_of_its_own", "--nocapture"])
        .env(CHILD, "1")
        // Returns freed memory to the system at once, so that each answer is measured by itself: mallopt(3).
        .env("MALLOC_MMAP_THRESHOLD_", "65536")
        .env("MALLOC_TRIM_THRESHOLD_", "65536")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("every answer was bounded"), "the measurement ran: {said}");
}

#[test]
#[ignore = "runs in a child process of the test above"]
fn in_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    attack();
    println!("every answer was bounded");
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
