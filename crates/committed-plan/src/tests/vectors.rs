//! Public vectors under `tests/vectors/committed-plan`. One test compares them with regenerated ones, another runs the
//! files. `COUNTERSIGN_WRITE_VECTORS=1` writes them.

mod breaches;
mod headers;
mod plans;
mod root_refusals;
mod root_runs;
mod roots;
mod seals;

use std::collections::BTreeSet;

use countersign_test_vectors::{Vectors, numbered};
use serde_json::{Value, json};

use super::*;

/// A contract as data: the tools of `desk` with their data arguments, and the tools whose fixed arguments are refused.
struct Allowed {
    tools: Value,
    unfit: Value,
}

impl Allowed {
    fn of(case: &Value) -> Self {
        Self { tools: case["allowed"].clone(), unfit: case["unfit"].clone() }
    }
}

impl PlanContract for Allowed {
    fn discloses(&self, tool: &ToolId) -> bool {
        tool.server().as_str() == "desk" && self.tools.get(tool.name().as_str()).is_some()
    }

    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool {
        let data = self.tools[tool.name().as_str()].as_array().unwrap();
        data.iter().any(|data| data == place.as_str())
    }

    fn fits(&self, step: &Step) -> bool {
        let mut unfit = self.unfit.as_array().into_iter().flatten();
        unfit.all(|name| name != step.tool().name().as_str())
    }
}

fn allowed() -> Value {
    json!({ "search": ["/query"], "refund": ["/note"], "send": ["/body"] })
}

fn call((name, args): (&str, &str)) -> Value {
    json!({ "tool": { "server": "desk", "name": name }, "args": args })
}

fn calls(calls: &[(&str, &str)]) -> Value {
    calls.iter().copied().map(call).collect()
}

#[test]
fn the_vectors_on_disk_are_those_that_are_made() {
    let accepted =
        [plans::accepted(), headers::accepted(), roots::accepted(), seals::accepted(), breaches::accepted()];
    let refused =
        [plans::rejected(), headers::rejected(), roots::rejected(), seals::rejected(), breaches::rejected()];
    let mut made = numbered("accept", accepted.concat());
    made.extend(numbered("reject", refused.concat()));
    Vectors::of("committed-plan").hold(&made);
}

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let files = Vectors::of("committed-plan").on_disk();
    let (mut codes, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        let verdict = match case["kind"].as_str().unwrap() {
            "plan" | "run" => plans::verdict(&case),
            "proof" => plans::proof_verdict(&case),
            "header" => headers::verdict(&case),
            "root-run" => root_runs::verdict(&case),
            "seal" => seals::verdict(&case),
            unknown => panic!("{name}: {unknown}"),
        };
        assert_eq!(verdict.map_or_else(|code| code, |()| "ok"), expected, "{name}");
        codes.insert(expected.to_owned());
        let events = case["events"].as_array().into_iter().flatten();
        reasons.extend(events.filter_map(|event| event["reason"].as_str().map(str::to_owned)));
    }
    assert!(files.len() >= 130 && codes.len() >= 30, "{} vectors, {} codes", files.len(), codes.len());
    for error in [
        PlanUseError::OtherSession,
        PlanUseError::OtherGoal,
        PlanUseError::OtherRegistry,
        PlanUseError::Link,
        PlanUseError::NotApproved,
        PlanUseError::Halted,
        PlanUseError::Busy,
        PlanUseError::Header,
        PlanUseError::TooMany,
    ] {
        assert!(codes.contains(error.code()), "{error}");
    }
    assert!(reasons.len() >= 17, "{reasons:?}");
}
